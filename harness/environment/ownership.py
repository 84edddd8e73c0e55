"""Who keeps a service running: told in a file, for the processes that rely on the owner, and for `harness services`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.environment.process import Identity
from harness.recovery.failure import Failure
from harness.resilience import Clock
from harness.resilience.events import Emit, InvariantBroken, ServiceChanged

# Where the services of a project leave their files: what is kept between runs, and a folder for each process's own.

_OWNER = ".owner.json"

LOGS = Path(".harness/logs")
"""Below the project's folder."""
_RUNS = "services"
_KEPT = "kept"


def label(name: str, number: int) -> str:
    """What an instance is called: `shop`, `shop[2]`; `number` counts from 0."""
    return f"{name}[{number + 1}]" if number else name


def log_file(logs: Path, name: str) -> Path:
    """What the service writes, and what its owner notes of it."""
    return logs / f"{name}.log"


def lock_file(logs: Path, name: str) -> Path:
    """Held while it is found out that nobody keeps it, and it is started."""
    return logs / f"{name}.lock"


def owner_file(logs: Path, name: str) -> Path:
    """Who keeps it running (`Ownership`)."""
    return logs / f"{name}{_OWNER}"


def owned(logs: Path) -> Iterator[str]:
    """The names of the services that have such a file."""
    return (file.name.removesuffix(_OWNER) for file in sorted(logs.glob(f"*{_OWNER}")))


def owner_files_of_runs(logs: Path, name: str) -> list[Path]:
    """The owner files of a service that runs have started, and that may have ended since."""
    return [file for folder in _folders(logs) if (file := owner_file(folder, name)).is_file()]


def kept_folder(logs: Path, name: str) -> Path:
    """The `{folder}` of what is kept between runs."""
    return logs.parent / _RUNS / _KEPT / name


class RunFolder:
    """The folder of one process's services, made when the first of them is started."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._path: Path | None = None

    @property
    def path(self) -> Path:
        """Raises OSError."""
        if self._path is None:
            parent = self._logs.parent / _RUNS
            parent.mkdir(parents=True, exist_ok=True)
            _sweep(self._logs)
            self._path = Path(tempfile.mkdtemp(prefix=_prefix(os.getpid()), dir=parent)).absolute()
        return self._path

    def remove(self) -> None:
        """Never raises."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None


def _folders(logs: Path) -> list[Path]:
    parent = logs.parent / _RUNS
    return sorted(each for each in parent.glob("[0-9]*-*") if each.is_dir()) if parent.is_dir() else []


def _sweep(logs: Path) -> None:
    """Remove what processes have left that were killed."""
    for folder in _folders(logs):
        pid = folder.name.partition("-")[0]
        if not pid.isdigit() or not folder.name.startswith(_prefix(int(pid))):
            shutil.rmtree(folder, ignore_errors=True)


def _prefix(pid: int) -> str:
    """Of the process that has this pid now: its pid alone comes again."""
    identity = Identity.of(pid)
    return f"{pid}-{identity.birth:.0f}-" if identity else f"{pid}-gone-"


# What a service is to those who rely on it (docs/design/events-and-resilience.md), as a table.


class ServiceState(StrEnum):
    """The state of one service, as this process sees it."""

    DOWN = "down"
    """It does not run, and nobody is starting it."""
    BOOTING = "booting"
    """It was started, and is not ready."""
    UP = "up"
    """Its health answers 200, and as itself."""
    UNHEALTHY = "unhealthy"
    """It runs, and its health has not been well for some polls."""
    RESTARTING = "restarting"
    """It died or hung, and is being started again."""
    PERMANENTLY_FAILED = "permanently_failed"
    """It died too often: only an order starts it again."""
    STOPPED = "stopped"
    """It was ended by order."""


WAYS: Mapping[ServiceState, frozenset[ServiceState]] = {
    ServiceState.DOWN: frozenset({ServiceState.BOOTING, ServiceState.UP, ServiceState.PERMANENTLY_FAILED}),
    ServiceState.BOOTING: frozenset({ServiceState.UP, ServiceState.DOWN, ServiceState.STOPPED}),
    ServiceState.UP: frozenset(
        {
            ServiceState.UNHEALTHY,
            ServiceState.RESTARTING,
            ServiceState.PERMANENTLY_FAILED,
            ServiceState.DOWN,
            ServiceState.STOPPED,
        }
    ),
    ServiceState.UNHEALTHY: frozenset(
        {
            ServiceState.UP,
            ServiceState.RESTARTING,
            ServiceState.PERMANENTLY_FAILED,
            ServiceState.DOWN,
            ServiceState.STOPPED,
        }
    ),
    ServiceState.RESTARTING: frozenset({ServiceState.UP, ServiceState.PERMANENTLY_FAILED, ServiceState.STOPPED}),
    ServiceState.PERMANENTLY_FAILED: frozenset({ServiceState.BOOTING, ServiceState.UP}),
    ServiceState.STOPPED: frozenset({ServiceState.BOOTING, ServiceState.UP}),
}
"""State -> what it can become. What became something else all the same is told as an InvariantBroken."""


def is_back(event: ServiceChanged) -> bool:
    """Whether it was gone, and answers now."""
    return event.after == ServiceState.UP and event.before != ServiceState.UNHEALTHY


@dataclass(slots=True)
class ServicePhase:
    """Where a service is in the table; every change is emitted, with its reason in a word (`crash_1`, `health_ok`)."""

    service: str
    clock: Clock
    emit: Emit
    state: ServiceState = ServiceState.DOWN
    reason: str = ""
    restarts: int = 0
    """How often it was started again after it had been up."""
    since: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.since = self.clock.wall()

    def become(self, state: ServiceState, reason: str) -> None:
        """Change, unless it is that already. What the table does not know happens all the same, and is told."""
        before = self.state
        if state is before:
            return
        if state not in WAYS[before]:
            snapshot = {"service": self.service, "before": before, "after": state, "reason": reason}
            self.emit(InvariantBroken("service: no way from one state to the other", snapshot))
        self.restarts += before is ServiceState.RESTARTING and state is ServiceState.UP
        self.state, self.reason = state, reason
        self.since = self.clock.wall()
        self.emit(ServiceChanged(self.service, before, state, reason))


@dataclass(frozen=True, slots=True)
class Held:
    """What the owner says. It may be dead: then what it says of the service holds no more, or it has given up."""

    owner: Identity
    program: Identity | None
    """The watchdog of what runs."""
    state: ServiceState
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
        state=ServiceState(told["state"]),
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
    return {"code": failure.code, "message": failure.message, "details": failure.evidence}
