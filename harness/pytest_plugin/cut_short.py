"""The tasks that Ctrl-C ended: pytest makes no report of them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from harness.pytest_plugin.interrupted import interrupted_tasks
from harness.pytest_plugin.state import State
from harness.reporting.task_record import TaskRecord


def cut_short(config: pytest.Config, state: State, exitstatus: int, heard: Iterable[TaskRecord]) -> list[TaskRecord]:
    """Those of xdist's workers, which are gone by now, by the reports they left. `heard`: those that have a report."""
    if config.getoption("numprocesses", None) and exitstatus == pytest.ExitCode.INTERRUPTED:
        return list(interrupted_tasks(state.settings.artifacts, state.run_id, {record.key for record in heard}))
    return state.interrupted
