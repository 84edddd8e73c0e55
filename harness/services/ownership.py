"""Who keeps a service running: told in a file, for the processes that the owner has started (xdist's workers)."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from harness.failure import Failure


@dataclass(frozen=True, slots=True)
class Held:
    """The process that has started this one keeps the service running; `failure`: it has given up on it."""

    failure: Failure | None


class Ownership:
    """One service's file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def tell(self, failure: Failure | None = None) -> None:
        """This process keeps it running, or has given up. A file that cannot be written tells nobody: no more."""
        told = {"owner": _identity(os.getpid()), "failure": failure and _as_json(failure)}
        scratch = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            scratch.write_text(json.dumps(told), "utf-8")
            scratch.replace(self._file)

    def withdraw(self) -> None:
        """This process has ended it, and keeps it no more."""
        if self._told().get("owner") == _identity(os.getpid()):
            self._file.unlink(missing_ok=True)

    def above(self) -> Held | None:
        """What the parent of this process says; None when it is not the owner."""
        told = self._told()
        if not told or told.get("owner") != _identity(os.getppid()):
            return None
        failure = told.get("failure")
        return Held(Failure(**failure) if failure else None)

    def _told(self) -> dict[str, Any]:
        try:
            told = json.loads(self._file.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return told if isinstance(told, dict) else {}


def _identity(pid: int) -> list[float] | None:
    """Pid and start time: a pid alone comes again."""
    try:
        return [pid, psutil.Process(pid).create_time()]
    except psutil.Error:
        return None


def _as_json(failure: Failure) -> dict[str, Any]:
    return {"code": failure.code, "message": failure.message, "details": dict(failure.details)}
