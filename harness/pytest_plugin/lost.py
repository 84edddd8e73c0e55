"""Reports, written by the controller, for tasks whose xdist worker died."""

from __future__ import annotations

from pathlib import Path

from harness.model.figures import TaskDone
from harness.pytest_plugin.state import SessionState
from harness.recovery.failure import Failure
from harness.reporting.allure.sink import AllureSink
from harness.reporting.task_record import TaskRecord, task_record
from harness.reporting.telemetry.stream import Telemetry
from harness.reporting.telling import story_of
from harness.runner.compile import compile_plan
from harness.runner.not_run import PROCESS_DIED, not_run_result
from harness.spec.file_names import NAMED_SUFFIXES
from harness.spec.load import load_file
from harness.spec.loaded import Loaded
from harness.spec.parametrize import expand, task_named
from harness.spec.problems import SpecError


def report_lost_task(state: SessionState, telemetry: Telemetry, node_id: str, failure: Failure) -> TaskRecord | None:
    """The record of the task behind a node id, whose end is told; None if it is no task, or can no longer be read.

    `failure`: how it ended.
    """
    file, _, name = node_id.partition("::")
    try:
        task = _task_named(state.settings.root / file, name)
        plan = compile_plan(task, settings=state.settings, run_id=state.run_id, agent=state.chosen) if task else None
    except SpecError:
        return None
    if plan is None:
        return None
    result = not_run_result(state.harness().archive, plan, failure, PROCESS_DIED)
    story = story_of(plan, result, state.harness().archive.redactor)
    state.fence.call("Allure", AllureSink().write_lost, node_id, plan.spec, story)
    telemetry.tell(TaskDone.of(result, plan.agent), plan)
    return task_record(story)


def _task_named(path: Path, name: str) -> Loaded | None:
    """The task, or the case of it, that a node id names. Raises SpecError for a file that is no task."""
    if path.suffix not in NAMED_SUFFIXES or not path.is_file():
        return None
    return task_named(name, expand(load_file(path, needs_steps=False)))
