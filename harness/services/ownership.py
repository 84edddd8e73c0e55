"""Who keeps a service running: told in a file, for the processes that rely on the owner, and for `harness services`."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.failure import Failure
from harness.services.identity import Identity
from harness.services.states import State


@dataclass(frozen=True, slots=True)
class Held:
    """What the owner says. It may be dead: then what it says of the service holds no more, or it has given up."""

    owner: Identity
    program: Identity | None
    """The leash of what runs."""
    state: State
    since: str
    """ISO 8601, since when it is in this state."""
    restarts: int
    persisted: bool
    """It is kept until `harness services stop`."""
    failure: Failure | None = None
    """Why the owner does not start it any more."""

    @property
    def above(self) -> bool:
        """Whether the owner has started this process (xdist's workers): its word is final."""
        return self.owner.pid == os.getppid() and self.owner.alive


class Ownership:
    """One service's file. Written whole, and replaced."""

    def __init__(self, file: Path, *, persisted: bool = False) -> None:
        self.file = file
        self.persisted = persisted
        self.mine = False
        """Whether the file speaks of what was started through this very object."""

    def tell(self, facts: Mapping[str, Any], program: int | None, failure: Failure | None) -> None:
        """This process keeps it running, or has given up. A file that cannot be written tells nobody: no more."""
        self.mine = True
        told = {
            **facts,
            "owner": _as_list(os.getpid()),
            "program": _as_list(program),
            "persisted": self.persisted,
            "failure": failure and _as_json(failure),
        }
        scratch = self.file.with_name(f"{self.file.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            scratch.write_text(json.dumps(told), "utf-8")
            scratch.replace(self.file)

    def withdraw(self) -> None:
        """This process has ended it, and keeps it no more."""
        held = self.held() if self.mine else None
        if held and held.owner == Identity.of(os.getpid()):
            self.file.unlink(missing_ok=True)
        self.mine = False

    def above(self) -> Held | None:
        """What the parent of this process says; None when it is not the owner."""
        held = self.held()
        return held if held and held.above else None

    def elsewhere(self) -> Held | None:
        """What another living owner says; None when there is none, or it is this one."""
        held = None if self.mine else self.held()
        return held if held and held.owner.alive else None

    def held(self) -> Held | None:
        """What the file says, whoever has written it; None when there is none that can be read."""
        try:
            return _read(json.loads(self.file.read_text("utf-8")))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def forget(self) -> None:
        """Remove what a dead owner has left."""
        self.file.unlink(missing_ok=True)


def _read(told: dict[str, Any]) -> Held:
    program, failure = told["program"], told["failure"]
    return Held(
        owner=Identity(*told["owner"]),
        program=Identity(*program) if program else None,
        state=State(told["state"]),
        since=str(told["since"]),
        restarts=int(told["restarts"]),
        persisted=bool(told["persisted"]),
        failure=Failure(**failure) if failure else None,
    )


def _as_list(pid: int | None) -> list[float] | None:
    found = Identity.of(pid) if pid is not None else None
    return list(asdict(found).values()) if found else None


def _as_json(failure: Failure) -> dict[str, Any]:
    return {"code": failure.code, "message": failure.message, "details": dict(failure.details)}
