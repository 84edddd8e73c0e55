"""The tasks of an interrupted run that xdist's workers could not tell of any more."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from harness.model.report import ErrorReport
from harness.recovery.failure import Failure
from harness.reporting.files import MANIFEST, read_json
from harness.reporting.task_record import TaskRecord

CODE = "INTERRUPTED"


def interrupted_tasks(artifacts: Path, run_id: str, known: Collection[str] = ()) -> Iterator[TaskRecord]:
    """What the workers of the run left under `errors/` of tasks that were interrupted, by name.

    And of those that failed by themselves after pytest had stopped listening; `known` are the keys that it heard of.
    """
    for file in sorted(artifacts.glob(f"*/{MANIFEST}")):
        try:
            manifest = read_json(file)
            unheard = manifest["key"] not in known and not manifest.get("expected")
            if manifest["run"] == run_id and (manifest["code"] == CODE or unheard):
                report = ErrorReport.model_validate(read_json(file.with_name("error_report.json")))
                yield _record(report, str(manifest["key"]), file.parent)
        except (OSError, ValueError, KeyError, TypeError):
            continue  # not a directory of a task


def _record(report: ErrorReport, key: str, folder: Path) -> TaskRecord:
    metrics = report.metrics
    return TaskRecord(
        task_id=report.task_id,
        key=key,
        final_state=report.final_state,
        source=report.source,
        error_type=str(report.error_type),
        code=report.code,
        family=Failure(report.code, "").family,
        step_index=report.step_index,
        message=report.error_message,
        seconds=metrics.time_elapsed_seconds if metrics else 0,
        steps_completed=metrics.steps_completed if metrics else 0,
        steps_total=metrics.steps_total if metrics else 0,
        retries=metrics.retries_count if metrics else 0,
        warnings=report.warnings,
        artifacts=str(folder),
    )
