"""A task that was read from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from harness.spec.file_names import SPEC_FILE
from harness.spec.problems import Problem
from harness.spec.source import Origin
from harness.spec.task import TaskSpec


class Gathered(Struct, frozen=True):
    """The files of a task as one document."""

    data: dict[str, Any]
    origin: Origin
    warnings: tuple[Problem, ...]


class Loaded(Struct, frozen=True):
    """A task with its origin and its warnings."""

    spec: TaskSpec
    path: Path
    origin: Origin
    warnings: tuple[Problem, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder that the task's uploads must lie in."""
        return self.path.parent

    @property
    def source(self) -> str:
        """The file's path as shown to people."""
        return self.origin.file

    @property
    def names(self) -> tuple[str, ...]:
        """The names that `dependencies` of other tasks may use: its id, and the name of its directory."""
        named = self.path.name == SPEC_FILE
        return (self.spec.task_id, self.folder.name + self.spec.variant) if named else (self.spec.task_id,)
