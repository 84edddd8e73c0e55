"""Who keeps a service running: told in a file, for the processes that rely on the owner, and for `harness services`."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.recovery.failure import Failure
from harness.services.identity import Identity
from harness.services.states import State


@dataclass(frozen=True, slots=True)
class Held:
    """What the owner says. It may be dead: then what it says of the service holds no more, or it has given up."""

    owner: Identity
    program: Identity | None
    """The watchdog of what runs."""
    state: State
    since: str
    """ISO 8601, since when it is in this state."""
    restarts: int
    persisted: bool
    """It is kept until `harness services stop`."""
    ports: Mapping[str, int]
    """Host name, in lower case -> port."""
    failure: Failure | None = None
    """Why the owner does not start it any more."""

    @property
    def above(self) -> bool:
        """Whether the owner has started this process (xdist's workers), or is this process: its word is final."""
        return self.owner.pid in (os.getpid(), os.getppid()) and self.owner.alive


def no_others() -> tuple[Path, ...]:
    return ()


class Ownership:
    """One service's file. Written whole, and replaced."""

    def __init__(
        self,
        file: Path | Callable[[], Path],
        *,
        kept: Path | None = None,
        runs: Callable[[], Iterable[Path]] = no_others,
        persisted: bool = False,
    ) -> None:
        """`kept` is the file of what the project keeps between runs, `runs` answers those of the runs that there are.

        Of runs only this process's own, and that of the process that has started it, are heeded.
        """
        self._file = file
        self._kept = kept
        self._runs = runs
        self.persisted = persisted
        self.mine = False
        """Whether the file speaks of what was started through this very object."""

    @property
    def file(self) -> Path:
        """Raises OSError where it can have no place."""
        return self._file if isinstance(self._file, Path) else self._file()

    def tell(
        self, facts: Mapping[str, Any], program: int | None, ports: Mapping[str, int], failure: Failure | None
    ) -> None:
        """This process keeps it running, or has given up. A file that cannot be written tells nobody: no more."""
        self.mine = True
        told = {
            **facts,
            "owner": _as_list(os.getpid()),
            "program": _as_list(program),
            "persisted": self.persisted,
            "ports": dict(ports),
            "failure": failure and _as_json(failure),
        }
        with contextlib.suppress(OSError):
            scratch = self.file.with_name(f"{self.file.name}.{os.getpid()}")
            scratch.write_text(json.dumps(told), "utf-8")
            scratch.replace(self.file)

    def withdraw(self) -> None:
        """This process has ended it, and keeps it no more."""
        held = self.held() if self.mine else None
        if held and held.owner == Identity.of(os.getpid()):
            self.file.unlink(missing_ok=True)
        self.mine = False

    def above(self) -> Held | None:
        """What this process, or its parent, says elsewhere; None when neither is the owner."""
        return next((held for held in self._elsewhere() if held.above), None)

    def elsewhere(self) -> Held | None:
        """What another living owner says: who keeps it for the project, or runs it for this very run; else None."""
        return None if self.mine else next(iter(self._elsewhere()), None)

    def kept(self) -> Held | None:
        """What the living owner says that keeps it for the project, between runs; None when there is none."""
        file = self._kept or (self._file if isinstance(self._file, Path) else None)
        held = read_held(file) if file else None
        return held if held and held.owner.alive else None

    def _elsewhere(self) -> Iterator[Held]:
        if held := self.kept():
            yield held
        for file in self._runs():
            if (held := read_held(file)) and held.above:
                yield held

    def held(self) -> Held | None:
        """What the file says, whoever has written it; None when there is none that can be read."""
        return read_held(self.file)

    def forget(self) -> None:
        """Remove what a dead owner has left."""
        self.file.unlink(missing_ok=True)


def read_held(file: Path) -> Held | None:
    """What is written there; None for a file that is not there, or that says nothing."""
    try:
        return _read(json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _read(told: dict[str, Any]) -> Held:
    program, failure = told["program"], told["failure"]
    return Held(
        owner=Identity(*told["owner"]),
        program=Identity(*program) if program else None,
        state=State(told["state"]),
        since=str(told["since"]),
        restarts=int(told["restarts"]),
        persisted=bool(told["persisted"]),
        ports={str(host): int(port) for host, port in told["ports"].items()},
        failure=Failure(**failure) if failure else None,
    )


def _as_list(pid: int | None) -> list[float] | None:
    found = Identity.of(pid) if pid is not None else None
    return list(asdict(found).values()) if found else None


def _as_json(failure: Failure) -> dict[str, Any]:
    return {"code": failure.code, "message": failure.message, "details": dict(failure.details)}
