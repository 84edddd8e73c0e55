"""Hooks that this plugin offers to conftest.py files and other plugins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.reporting.telemetry.record import Record
from harness.spec.task import TaskSpec


@pytest.hookspec
def pytest_taskspec_modify_task(config: pytest.Config, task: TaskSpec, path: Path) -> None:
    """Change a task that was read from `path`, before it is selected and planned; the settings' defaults are in it.

    Assign to its keys, as in `task.step_timeout = 5` or `task.tags = (*task.tags, "slow")`: each assignment is checked,
    and what does not fit is an error of the task's file. Called once for each file at collection, in every worker of
    pytest-xdist alike, so it must not depend on chance. `harness validate` and the other commands do not call it.
    """


@pytest.hookspec(firstresult=True)
def pytest_taskspec_repair(
    config: pytest.Config, task_id: str, precondition: str, memory: Mapping[str, Any]
) -> Mapping[str, Any] | bool | None:
    """Set up a precondition that does not hold (`attempt_repair`), after the task's own `repairs`.

    Return entries to write into memory, or True when it was set up otherwise; None (or False) leaves it to others.
    The precondition is looked at again afterwards. `pytest.fail` and whatever else is raised fail the task with its
    text, `pytest.skip` leaves the task out, `pytest.exit` ends the session. Runs in the main thread.
    """


@pytest.hookspec
def pytest_taskspec_event(event: Record, config: pytest.Config) -> None:
    """Something that resilience did, or a task that is over, in the order it happened.

    `event.event` is the event itself, a frozen value of `harness.resilience.events` (a retry, a circuit that opened, a
    site that was started again ...), a `TaskDone`, or a `ThresholdCrossed`; its class attribute `type` is its name in
    `.harness/events.jsonl`. `event.task_id` is empty for what belongs to no task. Secrets are taken out.

    Called in the main thread, while a task runs or at its end: under pytest-xdist in the worker that runs it, and for
    sites and thresholds in the controller. What an implementation raises is said in the summary, and breaks no task.
    """
