"""The files that become tasks. What reads them is loaded with the first one (`items`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.pytest_plugin.activation import is_task, session_state
from harness.spec.file_names import is_fault_plan, is_gate, is_step_group

if TYPE_CHECKING:
    from harness.pytest_plugin.items import TaskItem

_REFUSED: pytest.StashKey[pytest.UsageError] = pytest.StashKey()
"""Why tasks cannot be collected: the settings of the project are bad."""


class TaskFile(pytest.Module):
    """A file with one task, perhaps with several cases.

    It is a Module, so that module-scoped fixtures work; there is no Python module behind it.
    """

    obj = None

    def collect(self) -> Iterable[TaskItem]:
        if _REFUSED in self.config.stash:
            return []
        try:
            state = session_state(self.config)
        except pytest.UsageError as error:  # raised here it would be an error of this file
            self.config.stash[_REFUSED] = error
            return []
        from harness.pytest_plugin.items import items_of

        try:
            return list(items_of(self))
        except BaseException:
            state.broken += 1
            raise


class NoTaskFile(pytest.File):
    """A file of this project that was named as if it were a task."""

    def collect(self) -> Iterable[pytest.Item]:
        if is_step_group(self.path):
            what, right = "a step group", f"a task runs its steps with `use: {self.path.name.partition('.')[0]}`"
        elif is_gate(self.path):
            what, right = "the gate of an evaluation", f"harness eval TASKS --gate {self.path}"
        else:
            what, right = "a fault plan", f"pytest TASKS --task-faults {self.path}"
        raise self.CollectError(f"{self.path.name} is {what}, not a task: {right}")


def collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The collector of a task file. pytest asks about all files beside a named one too, so nothing is read yet."""
    named = parent.session.isinitpath(file_path)
    if named and (is_fault_plan(file_path) or is_step_group(file_path) or is_gate(file_path)):
        return NoTaskFile.from_parent(parent, path=file_path)
    if is_task(file_path, tuple(parent.config.getini("taskspec_files")), named=named):
        return TaskFile.from_parent(parent, path=file_path)
    return None


def refuse(config: pytest.Config) -> None:
    """Raise UsageError if tasks could not be collected, with this reason and not for tasks that are missing since."""
    if refused := config.stash.get(_REFUSED, None):
        raise refused
