"""Whether a failure left all that it should."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.model.report import ErrorReport
from harness.reporting.files import MANIFEST, NAMES


def missing_artifacts(folder: Path | None) -> tuple[str, ...]:
    """What is not right with the directory of a failure: a line each; none when it is complete."""
    if folder is None:
        return ("no directory was written",)
    return (*_of_manifest(folder), *_of_report(folder / "error_report.json"))


def _of_manifest(folder: Path) -> Iterator[str]:
    try:
        document = json.loads((folder / MANIFEST).read_text("utf-8"))
        entries: dict[str, dict[str, Any]] = {entry["name"]: entry for entry in document["artifacts"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        yield f"{MANIFEST}: {error}"
        return
    for name in NAMES:
        entry = entries.get(name)
        if entry is None:
            yield f"{name}: not in {MANIFEST}"
        elif entry["status"] == "taken" and not (folder / name).is_file():
            yield f"{name}: said to be taken, and not there"
        elif entry["status"] != "taken" and not entry.get("reason"):
            yield f"{name}: {entry['status']}, without a reason"


def _of_report(file: Path) -> Iterator[str]:
    try:
        ErrorReport.model_validate_json(file.read_bytes())
    except OSError as error:
        yield f"{file.name}: {error.strerror}"
    except ValidationError as error:
        yield f"{file.name}: {error.error_count()} values that its schema refuses"
