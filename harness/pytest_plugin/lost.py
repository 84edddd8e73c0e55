"""A task whose xdist worker died has a report too, written by the controller (DESIGN 5)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from harness.compile import compile_plan
from harness.failure import Failure
from harness.plan import Plan
from harness.ports import Evidence, Snapshot
from harness.pytest_plugin.state import State
from harness.record import TaskResult
from harness.report import Context, error_report
from harness.reporting.task_record import TaskRecord, task_record
from harness.spec.load import is_task_file, load_file
from harness.spec.problems import SpecError


def report_lost_task(state: State, node_id: str) -> TaskRecord | None:
    """What can be said of the task behind a node id; None when it is no task, or cannot be read any more."""
    path = state.settings.root / node_id.partition("::")[0]
    if not is_task_file(path) or not path.is_file():
        return None
    try:
        plan = compile_plan(load_file(path), settings=state.settings, run_id=state.run_id)
    except SpecError:
        return None
    return task_record(plan, _kept(state, plan))


def _kept(state: State, plan: Plan) -> TaskResult:
    failure = Failure("WORKER_CRASHED", "The process that ran the task died; what it saw is lost")
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
    report = error_report(plan, result, Context(), expected=False)
    archive = state.harness().archive
    folder: Path = archive.scratch(plan)
    kept = archive.keep(plan, result, report, Evidence(folder), Snapshot())
    return replace(result, error=report, artifacts=kept)
