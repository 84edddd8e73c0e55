"""`*.faults.yaml`: what goes wrong in which tasks, apart from the tasks' own files."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.spec.faults import Fault
from harness.spec.parametrize import base_id
from harness.spec.task import TaskSpec

SUFFIXES = (".faults.yaml", ".faults.yml", ".faults.json")
ALL = ("*",)


class Frozen(BaseModel):
    """A part of a plan: frozen, and no key but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PlannedFault(Frozen):
    """A fault, and the tasks that it strikes. In a file, the fault's keys stand beside `tasks`."""

    tasks: tuple[str, ...] = Field(
        ALL, min_length=1, description="Ids of the tasks it strikes, one or a list; `*` and `?` are wildcards."
    )
    fault: Fault

    @model_validator(mode="before")
    @classmethod
    def _as_in_a_file(cls, data: Any) -> Any:
        if not isinstance(data, dict) or isinstance(data.get("fault"), BaseModel):
            return data
        tasks = data.get("tasks", ALL)
        listed = (tasks,) if isinstance(tasks, str) else tuple(tasks) if isinstance(tasks, list) else tasks
        return {"tasks": listed, "fault": {key: value for key, value in data.items() if key != "tasks"}}

    def strikes(self, spec: TaskSpec) -> bool:
        """Whether the task is one of those; the id of a file stands for all of its cases."""
        return any(matches(pattern, spec) for pattern in self.tasks)


class Gate(Frozen):
    """Thresholds that decide a campaign, instead of each single expectation. Shares, 0 to 1."""

    recovery: float | None = Field(
        None, ge=0, le=1, description="Of the transient faults that are to be recovered from, so many are, as a share."
    )
    classification: float | None = Field(
        None, ge=0, le=1, description="Of the failures with a declared `code`, so many get it, as a share."
    )
    artifacts: float | None = Field(
        None, ge=0, le=1, description="Of the failed trials, so many leave all their artifacts, as a share."
    )
    clean: float | None = Field(None, ge=0, le=1, description="Of the clean trials, so many pass, as a share.")


class FaultPlan(Frozen):
    """A file of faults: for `pytest --task-faults`, and for the campaigns of `harness chaos`."""

    name: str = Field("", max_length=100, description="Its name in reports; without it, that of the file.")
    goal: str = Field("", max_length=10_000, description="What it is to show, for people.")
    seed: int | None = Field(None, ge=0, description="What chances are drawn from; without it, each task's own `seed`.")
    faults: tuple[PlannedFault, ...] = Field(min_length=1, description="What goes wrong, in the order of arming.")
    gate: Gate | None = Field(None, description="What decides a campaign; without it, every `expect` must hold.")

    def of(self, spec: TaskSpec) -> Iterator[tuple[int, Fault]]:
        """The faults that strike a task, each with its number in the file."""
        return ((number, each.fault) for number, each in enumerate(self.faults) if each.strikes(spec))


def is_fault_plan(path: Path) -> bool:
    """Whether a file's name is that of a fault plan."""
    return path.name.lower().endswith(SUFFIXES)


def matches(pattern: str, spec: TaskSpec) -> bool:
    """Brackets are those of a case (`T[a]`), not of a set of letters."""
    plain = pattern.replace("[", "[[]")
    return any(fnmatchcase(name, plain) for name in (spec.task_id, base_id(spec)))
