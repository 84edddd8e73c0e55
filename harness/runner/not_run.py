"""Results of tasks of which only the failure is known: they could not be prepared, or their process died."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from harness.model.diagnosis import error_report
from harness.model.plan import Plan
from harness.model.ports import Evidence, Item, Snapshot
from harness.model.record import TaskResult
from harness.model.report import Context
from harness.recovery.failure import Failure
from harness.reporting.archive import DirectoryArchive
from harness.reporting.files import names_of
from harness.values import replace

PROCESS_DIED: Final = "its process died"
"""Why there is no evidence of the browser of a task that is WORKER_CRASHED."""


def died(why: str = "") -> Failure:
    """The failure of a task whose process died. `why`: further reasons."""
    message = "The process that ran the task died, and its evidence is lost"
    return Failure("WORKER_CRASHED", f"{message}; {why}" if why else message)


def not_run_result(
    archive: DirectoryArchive, plan: Plan, failure: Failure, missed: str = "it did not run"
) -> TaskResult:
    """The result of a task of which only the failure is known; its `errors/<key>` is written, if the disk allows it.

    `missed`: why there is no evidence of its browser.
    """
    result = TaskResult(
        task_id=plan.task_id,
        key=plan.key,
        final_state="aborted",
        history=(),
        started=datetime.now(UTC),
        elapsed=0,
        steps_total=len(plan.steps),
        failure=failure,
        failed_index=-1,
    )
    # nothing was measured: a number of steps or seconds would be invented
    report = error_report(plan, result, Context(**failure.evidence), expected=False).model_copy(
        update={"metrics": None}
    )
    items = tuple(Item(name, "missed", missed) for name in names_of("browser"))
    result = replace(result, error=report)
    try:
        kept = archive.keep(plan, result, report, Evidence(archive.scratch(plan), items), Snapshot(why=missed))
    except Exception as error:  # noqa: BLE001 - what is lost is the evidence, and never the result
        from harness.engine.result import not_kept  # the engine is loaded with the first task that runs

        return not_kept(result, error)
    return replace(result, artifacts=kept)
