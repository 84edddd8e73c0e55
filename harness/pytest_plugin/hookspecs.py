"""Hooks that this plugin offers to conftest.py files and other plugins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.reporting.telemetry.record import Record
    from harness.spec.task import TaskSpec


@pytest.hookspec
def pytest_taskspec_modify_task(config: pytest.Config, task: TaskSpec, path: Path) -> None:
    """Change a task that was read from `path`, before it is selected and planned; the settings' defaults are in it.

    Assign to its keys, as in `task.step_timeout = 5` or `task.tags = (*task.tags, "slow")`: each assignment is checked,
    and a value that does not fit is an error of the task's file. It is called once for each file at collection, in
    every worker of pytest-xdist alike, so it must not depend on chance. `harness validate` and the other commands do
    not call it.
    """


@pytest.hookspec(firstresult=True)
def pytest_taskspec_repair(
    config: pytest.Config, task_id: str, precondition: str, memory: Mapping[str, Any]
) -> Mapping[str, Any] | bool | None:
    """Set up a precondition that does not hold (`attempt_repair`), after the task's own `repairs`.

    Return entries to write into memory, or True if it was set up in another way; None (or False) leaves it to other
    implementations. The precondition is checked again afterwards. `pytest.fail` and any other exception fail the task
    with its text, `pytest.skip` skips the task, `pytest.exit` ends the session. It runs in the main thread.
    """


@pytest.hookspec
def pytest_taskspec_event(event: Record, config: pytest.Config) -> None:
    """A resilience event, or the end of a task, in the order in which they happened.

    `event.event` is the event itself, a frozen value of `harness.resilience.events` (a retry, a circuit that opened, a
    site that was restarted ...), a `TaskDone`, or a `ThresholdCrossed`; its class attribute `type` is its name in
    `.harness/events.jsonl`. `event.task_id` is empty if it belongs to no task. Secrets are removed. It is called in the
    main thread, while a task runs or at its end: under pytest-xdist in the worker that runs it, and for sites and
    thresholds in the controller. If an implementation raises an error, the summary says so, and no task fails.
    """
