"""Reports, written by the controller, for tasks whose xdist worker died."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.figures import TaskDone
from harness.pytest_plugin.state import STATE
from harness.pytest_plugin.telemetry import telemetry_of
from harness.recovery.failure import Failure
from harness.reporting.allure.sink import AllureSink
from harness.reporting.task_record import task_record
from harness.reporting.telling import story_of
from harness.runner.compile import compile_plan
from harness.runner.not_run import PROCESS_DIED, not_run_result
from harness.spec.file_names import NAMED_SUFFIXES
from harness.spec.load import load_file
from harness.spec.parametrize import expand, task_named
from harness.spec.problems import SpecError


def report_lost_task(config: pytest.Config, report: Any, node_id: str, failure: Failure) -> None:
    """Tell the end of the task behind a node id, and add its record to the report.

    Nothing happens if it is no task, or can no longer be read. `failure`: how it ended.
    """
    state, (file, _, name) = config.stash[STATE], node_id.partition("::")
    path = state.settings.root / file
    if path.suffix not in NAMED_SUFFIXES or not path.is_file():
        return
    try:
        task = task_named(name, expand(load_file(path, needs_steps=False)))
        plan = compile_plan(task, settings=state.settings, run_id=state.run_id, agent=state.chosen) if task else None
    except SpecError:
        return
    if plan is None:
        return
    result = not_run_result(state.harness().archive, plan, failure, PROCESS_DIED)
    story = story_of(plan, result, state.harness().archive.redactor)
    state.fence.call("Allure", AllureSink().write_lost, node_id, plan.spec, story)
    telemetry_of(config).stream.tell(TaskDone.of(result, plan.agent), plan)
    record = task_record(story)
    report.taskspec = record.model_dump(mode="json")
    report.longrepr = f"{report.longrepr}\n  artifacts: {record.artifacts}"
