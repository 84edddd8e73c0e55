"""Faults of the state: values that are late, wrong or gone, in memory, environment, browser and databases."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, JsonValue

from harness.spec.faults.base import LONGEST, StepFault


class ChannelFault(StepFault):
    """One that strikes a value of the environment."""

    channel: str = Field("env", description="A channel of `[tool.harness.channels]`.")
    path: str = Field(min_length=1, max_length=2000, description="Place in the channel's document.")

    @property
    def target(self) -> str:
        return f"{self.channel} {self.path}"


class DelayedState(ChannelFault):
    """An environment value that arrives late."""

    kind: Literal["delayed_state"] = "delayed_state"
    value: JsonValue = Field(description="What arrives.")
    meanwhile: JsonValue = Field(None, description="What the path holds until then; without it, it is left as it is.")
    seconds: float = Field(ge=0, le=LONGEST, description="After how long it arrives, in seconds.")


class EnvironmentAltered(ChannelFault):
    """An environment value is changed behind the task's back; afterwards it is put back, if it still is as changed."""

    kind: Literal["environment_altered"] = "environment_altered"
    value: JsonValue = Field(description="What it becomes.")
    seconds: float | None = Field(
        None, gt=0, le=LONGEST, description="How long; without it, to the end of the task, in seconds."
    )

    @property
    def transient(self) -> bool:
        return self.seconds is not None


class MemoryAltered(StepFault):
    """A memory entry is changed behind the task's back; afterwards it is put back, if it still is as changed."""

    kind: Literal["memory_altered"] = "memory_altered"
    key: str = Field(min_length=1, max_length=500, description="The entry's key.")
    value: JsonValue = Field(description="What it becomes.")
    seconds: float | None = Field(
        None, gt=0, le=LONGEST, description="How long; without it, to the end of the task, in seconds."
    )

    @property
    def target(self) -> str:
        return self.key

    @property
    def transient(self) -> bool:
        return self.seconds is not None


class SessionExpired(StepFault):
    """The cookies are gone: the sites no longer know the user."""

    kind: Literal["session_expired"] = "session_expired"
    host: str | None = Field(
        None, min_length=1, max_length=253, description="Only the cookies of this host; without it, all."
    )

    @property
    def target(self) -> str:
        return self.host or "all hosts"


class StorageCleared(StepFault):
    """localStorage, sessionStorage and IndexedDB of the open pages are emptied."""

    kind: Literal["storage_cleared"] = "storage_cleared"


class DatabaseLocked(StepFault):
    """An SQLite file is locked by somebody else: nobody can write to it, nor read it unless it is in WAL mode."""

    kind: Literal["database_locked"] = "database_locked"
    path: str = Field(
        min_length=1,
        max_length=1000,
        description="The file, inside the project's folder, or in that of a service: `{folder:SERVICE}/shop.sqlite3`.",
    )
    seconds: float = Field(gt=0, le=LONGEST, description="How long, in seconds.")

    @property
    def target(self) -> str:
        return self.path


_OF_SERVICE = re.compile(r"\{folder:([^{}]+)\}/(.+)", re.DOTALL)


def of_service(path: str) -> tuple[str, str]:
    """The service in whose folder a file lies, and its path there; both empty for a file of the project."""
    match = _OF_SERVICE.fullmatch(path)
    return (match[1], match[2]) if match else ("", "")


class ClockMoved(StepFault):
    """The browser's clock jumps."""

    kind: Literal["clock_moved"] = "clock_moved"
    by: float = Field(ge=-1e9, le=1e9, description="How far; less than 0: back, in seconds.")

    @property
    def transient(self) -> bool:
        return False
