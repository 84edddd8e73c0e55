"""The files that become tasks. What reads them is loaded with the first one (`items`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.pytest_plugin.activation import is_task, session_state
from harness.spec.file_names import is_fault_plan

if TYPE_CHECKING:
    from harness.pytest_plugin.items import TaskItem

REFUSED: pytest.StashKey[pytest.UsageError] = pytest.StashKey()
"""Why tasks cannot be collected: the settings of the project are bad."""


class TaskFile(pytest.Module):
    """A file with one task, perhaps with several cases.

    It is a Module, so that module-scoped fixtures work; there is no Python module behind it.
    """

    obj = None

    def collect(self) -> Iterable[TaskItem]:
        if REFUSED in self.config.stash:
            return []
        try:
            state = session_state(self.config)
        except pytest.UsageError as error:  # raised here it would be an error of this file
            self.config.stash[REFUSED] = error
            return []
        from harness.pytest_plugin.items import items_of

        try:
            return list(items_of(self))
        except BaseException:
            state.broken += 1
            raise


def collect_file(file_path: Path, parent: pytest.Collector) -> TaskFile | None:
    """The collector of a task file. pytest asks about all files beside a named one too, so nothing is read yet."""
    named = parent.session.isinitpath(file_path)
    if named and is_fault_plan(file_path):
        right = f"pytest TASKS --task-faults {file_path}"
        raise pytest.UsageError(f"{file_path.name} is a fault plan, not a task: {right}")
    if is_task(file_path, tuple(parent.config.getini("taskspec_files")), named=named):
        return TaskFile.from_parent(parent, path=file_path)
    return None


def refuse(config: pytest.Config) -> None:
    """Raise UsageError if tasks could not be collected, with this reason and not for tasks that are missing since."""
    if refused := config.stash.get(REFUSED, None):
        raise refused
