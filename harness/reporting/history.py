"""`.harness/last-run.json`: what became of each task of the last run, for `harness report` and dashboards."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from harness.reporting.documents import read_json, write_json
from harness.reporting.metrics import error_metrics
from harness.reporting.task_record import TaskRecord

LAST_RUN = Path(".harness/last-run.json")


class LastRun(BaseModel):
    """The document of last-run.json."""

    model_config = ConfigDict(frozen=True)

    run: str
    finished: datetime
    error_metrics: dict[str, Any]
    results: tuple[TaskRecord, ...]


def write_last_run(path: Path, run: str, records: Sequence[TaskRecord], finished: datetime | None = None) -> LastRun:
    """Whole or not at all. `finished` is now when left out."""
    document = LastRun(
        run=run, finished=finished or datetime.now(UTC), error_metrics=error_metrics(records), results=tuple(records)
    )
    write_json(path, document.model_dump(mode="json"))
    return document


def load_last_run(path: Path = LAST_RUN) -> LastRun | None:
    """None when there was no run yet; ValueError for a file that this version cannot read."""
    try:
        return LastRun.model_validate(read_json(path))
    except FileNotFoundError:
        return None
