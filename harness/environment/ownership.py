"""The owner of a running service, recorded in a file for the processes that use it and `harness services`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from harness.recovery.failure import Failure
from harness.resilience import Clock
from harness.resilience.events import Emit, InvariantBroken, ServiceChanged
from harness.resilience.owner import Owner, is_abandoned
from harness.resilience.replaced import write_whole

# The folders for services' files: one that stays between runs, and one for each process.

_OWNER = ".owner.json"

LOGS = Path(".harness/logs")
"""The folder of the logs, below the project's folder."""
_RUNS = "services"
_KEPT = "kept"


def label(name: str, number: int) -> str:
    """The name of an instance: `shop`, `shop[2]`; `number` counts from 0."""
    return f"{name}[{number + 1}]" if number else name


def log_file(logs: Path, name: str) -> Path:
    """The file for the service's output and its owner's notes."""
    return logs / f"{name}.log"


def lock_file(logs: Path, name: str) -> Path:
    """The lock that is held while it is checked that the service has no owner, and it is started."""
    return logs / f"{name}.lock"


def owner_file(logs: Path, name: str) -> Path:
    """The file that names its owner (`Ownership`)."""
    return logs / f"{name}{_OWNER}"


def owned_services(logs: Path) -> Iterator[str]:
    """The names of the services that have an owner file."""
    return (file.name.removesuffix(_OWNER) for file in sorted(logs.glob(f"*{_OWNER}")))


def owner_files_of_runs(logs: Path, name: str) -> list[Path]:
    """The owner files of a service that runs have started; those runs may have ended since."""
    return [file for folder in _folders(logs) if (file := owner_file(folder, name)).is_file()]


def kept_folder(logs: Path, name: str) -> Path:
    """The `{folder}` of a service that is kept between runs."""
    return logs.parent / _RUNS / _KEPT / name


def reset_mark(folder: Path) -> Path:
    """The file beside a `{folder}` that says: the next start copies the template again, whoever starts the program.

    Without it a start after a crash keeps the state that the crashed program has left.
    """
    return folder.with_name(f".{folder.name}.reset")


class RunFolder:
    """The folder of one process's services, made when the first of them is started."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._path: Path | None = None

    @property
    def path(self) -> Path:
        """The path of the folder. Raises OSError."""
        if self._path is None:
            parent = self._logs.parent / _RUNS
            parent.mkdir(parents=True, exist_ok=True)
            for folder in filter(is_abandoned, _folders(self._logs)):  # those of killed processes
                shutil.rmtree(folder, ignore_errors=True)
            self._path = Path(tempfile.mkdtemp(prefix=f"{Owner.this().label}-", dir=parent)).absolute()
        return self._path

    def remove(self) -> None:
        """Remove the folder. It never raises."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None


def _folders(logs: Path) -> list[Path]:
    parent = logs.parent / _RUNS
    return sorted(each for each in parent.glob("[0-9]*-*") if each.is_dir()) if parent.is_dir() else []


# The states of a service for its users (docs/design/events-and-resilience.md), as a table.


class ServiceState(StrEnum):
    """The state of one service, as this process sees it."""

    DOWN = "down"
    """It does not run, and is not being started."""
    BOOTING = "booting"
    """It was started, and is not ready yet."""
    UP = "up"
    """Its health answers 200, with its own identity."""
    UNHEALTHY = "unhealthy"
    """It runs, and its health has been bad for some polls."""
    RESTARTING = "restarting"
    """It died or hung, and is being restarted."""
    PERMANENTLY_FAILED = "permanently_failed"
    """It died too often: only an order restarts it."""
    STOPPED = "stopped"
    """It was stopped by order."""


_ENDS = frozenset({ServiceState.RESTARTING, ServiceState.PERMANENTLY_FAILED, ServiceState.DOWN, ServiceState.STOPPED})
TRANSITIONS: Mapping[ServiceState, frozenset[ServiceState]] = {
    ServiceState.DOWN: frozenset({ServiceState.BOOTING, ServiceState.UP, ServiceState.PERMANENTLY_FAILED}),
    ServiceState.BOOTING: frozenset({ServiceState.UP, ServiceState.DOWN, ServiceState.STOPPED}),
    ServiceState.UP: _ENDS | {ServiceState.UNHEALTHY},
    ServiceState.UNHEALTHY: _ENDS | {ServiceState.UP},
    ServiceState.RESTARTING: frozenset({ServiceState.UP, ServiceState.PERMANENTLY_FAILED, ServiceState.STOPPED}),
    ServiceState.PERMANENTLY_FAILED: frozenset({ServiceState.BOOTING, ServiceState.UP}),
    ServiceState.STOPPED: frozenset({ServiceState.BOOTING, ServiceState.UP}),
}
"""State -> the states that may follow. Any other transition is reported as an InvariantBroken."""


def is_back(event: ServiceChanged) -> bool:
    """Return whether the service was gone and answers now."""
    return event.after == ServiceState.UP and event.before != ServiceState.UNHEALTHY


@dataclass(slots=True)
class ServicePhase:
    """The state of a service; each change is emitted, with a short reason (`crash_1`, `health_ok`)."""

    service: str
    clock: Clock
    emit: Emit
    state: ServiceState = ServiceState.DOWN
    reason: str = ""
    restarts: int = 0
    """The number of restarts after it had been up."""
    since: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.since = self.clock.wall()

    def change_state(self, state: ServiceState, reason: str) -> None:
        """Change the state, unless it is the same. A transition that the table lacks is made too, and reported."""
        before = self.state
        if state is before:
            return
        if state not in TRANSITIONS[before]:
            snapshot = {"service": self.service, "before": before, "after": state, "reason": reason}
            self.emit(InvariantBroken("service: no way from one state to the other", snapshot))
        self.restarts += before is ServiceState.RESTARTING and state is ServiceState.UP
        self.state, self.reason = state, reason
        self.since = self.clock.wall()
        self.emit(ServiceChanged(self.service, before, state, reason))


class Held(Struct, frozen=True):
    """The content of an owner file. If the owner is dead, its state is out of date, or the owner has given up."""

    owner: Owner
    program: Owner | None
    """The watchdog of the running program."""
    state: ServiceState
    since: str
    """The time since which it is in this state, in ISO 8601."""
    restarts: int
    persisted: bool
    """Whether it is kept until `harness services stop`."""
    ports: Mapping[str, int]
    """Host name, in lower case -> port."""
    failure: Failure | None = None
    """The failure after which the owner does not restart it any more."""
    folder: Path | None = None
    """Its `{folder}`; None for a file that an earlier version has written."""

    @property
    def is_own_or_parents(self) -> bool:
        """Whether the owner is this process or its parent (for xdist's workers): then its state is final."""
        return self.owner.pid in (os.getpid(), os.getppid()) and self.owner.alive


class Ownership:
    """The owner file of one service. It is written as a whole and replaced."""

    def __init__(
        self,
        file: Path | Callable[[], Path],
        *,
        kept: Path | None = None,
        runs: Callable[[], Iterable[Path]] = tuple,
        persisted: bool = False,
    ) -> None:
        """`kept` is the file of services that the project keeps between runs; `runs` returns the files of all runs.

        Of the runs only that of this process and that of its parent process count.
        """
        self._file = file
        self._kept = kept
        self._runs = runs
        self.persisted = persisted
        self.mine = False
        """Whether this object started what the file describes."""

    @property
    def file(self) -> Path:
        """The path of the file. Raises OSError if it cannot be placed anywhere."""
        return self._file if isinstance(self._file, Path) else self._file()

    def record(
        self, facts: Mapping[str, Any], program: int | None, ports: Mapping[str, int], failure: Failure | None
    ) -> None:
        """Record that this process runs the service, or has given up. If it cannot be written, nobody learns of it."""
        self.mine = True
        told = {
            **facts,
            "owner": asdict(Owner.this()),
            "program": asdict(found) if program and (found := Owner.of(program)) else None,
            "persisted": self.persisted,
            "ports": dict(ports),
            "failure": failure and {"code": failure.code, "message": failure.message, "details": failure.evidence},
        }
        with contextlib.suppress(OSError):
            write_whole(self.file, json.dumps(told).encode())

    def withdraw(self) -> None:
        """Remove the file after this process has stopped the service."""
        held = read_held(self.file) if self.mine else None
        if held and held.owner == Owner.this():
            self.file.unlink(missing_ok=True)
        self.mine = False

    def own_or_parent_record(self) -> Held | None:
        """The record of this process or its parent in another file; None if neither is the owner."""
        return next((held for held in self._other_records() if held.is_own_or_parents), None)

    def other_owner(self) -> Held | None:
        """The record of another living owner that keeps the service for the project or this same run; else None."""
        return None if self.mine else next(iter(self._other_records()), None)

    def persistent_record(self) -> Held | None:
        """The record of the living owner that keeps it for the project between runs; None if there is none."""
        file = self._kept or (self._file if isinstance(self._file, Path) else None)
        held = read_held(file) if file else None
        return held if held and held.owner.alive else None

    def _other_records(self) -> Iterator[Held]:
        if held := self.persistent_record():
            yield held
        for file in self._runs():
            if (held := read_held(file)) and held.is_own_or_parents:
                yield held


def read_held(file: Path) -> Held | None:
    """Read an owner file; None if it does not exist or is damaged."""
    try:
        told = json.loads(file.read_text("utf-8"))
        program, failure = told["program"], told["failure"]
        return Held(
            owner=Owner(**told["owner"]),
            program=Owner(**program) if program else None,
            state=ServiceState(told["state"]),
            since=str(told["since"]),
            restarts=int(told["restarts"]),
            persisted=bool(told["persisted"]),
            ports={str(host): int(port) for host, port in told["ports"].items()},
            failure=Failure(**failure) if failure else None,
            folder=Path(told["folder"]) if told.get("folder") else None,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
