"""A task that was read from a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.spec.problems import Problem
from harness.spec.source import Origin
from harness.spec.task import TaskSpec

SPEC_FILE = "task_spec.json"


@dataclass(frozen=True, slots=True)
class Loaded:
    """One task, where it came from, and what is odd about it."""

    spec: TaskSpec
    path: Path
    origin: Origin
    warnings: tuple[Problem, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder that uploads stay inside of."""
        return self.path.parent

    @property
    def source(self) -> str:
        """The file, as shown to people."""
        return self.origin.file

    @property
    def names(self) -> tuple[str, ...]:
        """What `dependencies` of other tasks may call it: its id, or the directory it is."""
        return (self.spec.task_id, self.folder.name) if self.path.name == SPEC_FILE else (self.spec.task_id,)
