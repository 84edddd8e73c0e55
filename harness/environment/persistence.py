"""Services that outlive the command that starts them: a keeper for each, found again by who it is."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.environment.ownership import LOGS, Held, Ownership, ServiceState, log_file, owned, owner_file
from harness.environment.process import GRACE, KILLED_WITHIN, POLL, Identity
from harness.environment.services import Services
from harness.model.settings import SettingsError, load_settings
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock, Deadline, SystemClock, poll_until

# Keeps one service running until it is told to stop: `python -m harness.environment.persistence <project> <service>`.

STOPS = (signal.SIGTERM, signal.SIGINT)


async def keep(services: Services, announce: Callable[[], None]) -> Failure | None:
    """Start them, `announce` it, and keep them until a signal comes; what was reused alone is not kept.

    Returns why one of them has failed for good, if so. Raises Failed when they cannot be started.
    """
    stop = asyncio.Event()
    for number in STOPS:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        if not await _unless(stop, services.start()):
            return None
        announce()
        return await _kept(services, stop) if services.started else None
    finally:
        await services.stop()


async def _kept(services: Services, stop: asyncio.Event) -> Failure | None:
    lost = asyncio.ensure_future(services.lost())
    await _unless(stop, lost)
    return None if lost.cancelled() else lost.result()


async def _unless(stop: asyncio.Event, work: Awaitable[Any]) -> bool:
    """Do it, unless the signal comes first; whether it was done. Raises what it raises."""
    doing, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    await asyncio.wait((doing, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if doing.done():
        doing.result()
        return True
    doing.cancel()
    await asyncio.gather(doing, return_exceptions=True)
    return False


def main(project: str, name: str) -> int:
    """The exit code: 0 when it was stopped, or had nothing to keep; 1 when the service failed."""
    root = Path(project)
    try:
        chosen = {name: load_settings(root).services[name]}
        services = Services(chosen, root=root, logs=root / LOGS, clock=SystemClock(), persisted=True)
        failure = asyncio.run(keep(services, lambda: _say({"started": bool(services.started)})))
    except Failed as failed:
        _say({"failure": failed.failure.message})
        return 1
    except (SettingsError, ValueError, KeyError) as error:
        _say({"failure": str(error)})
        return 1
    return 1 if failure else 0


def _say(answer: dict[str, object]) -> None:
    """To the command that has started this process, and only once: it does not wait for more."""
    os.write(1, f"{json.dumps(answer)}\n".encode())
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

ENDED_WITHIN = GRACE + KILLED_WITHIN + 2.0
"""Seconds that a keeper may take to end its service and itself."""
WITHDRAWN_WITHIN = GRACE + 2.0
"""Seconds that a watchdog takes when its keeper was killed."""


class StartingDaemon:
    """A keeper that is starting."""

    def __init__(self, name: str, root: Path, logs: Path) -> None:
        """Start it; raises OSError when its log cannot be written."""
        self.name = name
        logs.mkdir(parents=True, exist_ok=True)
        with log_file(logs, name).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "harness.environment.persistence", str(root), name],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=root,
                start_new_session=True,
            )

    def started(self) -> bool:
        """Wait until it has: True when it keeps the service, False when that ran already. Raises ValueError."""
        assert self._process.stdout is not None
        with self._process.stdout as answers:
            line = answers.readline()
        answer = json.loads(line) if line else {"failure": f"its keeper ended with exit code {self._process.wait()}"}
        if failure := answer.get("failure"):
            self._process.wait()
            raise ValueError(str(failure))
        return bool(answer["started"])

    def abandon(self) -> None:
        """End it, and what it has started."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(ENDED_WITHIN)
        self._process.kill()


@dataclass(frozen=True, slots=True)
class PersistedServices:
    """What is written of a service that was to be kept. A run's own services are none of these."""

    name: str
    logs: Path
    clock: Clock

    def daemon(self) -> Held | None:
        """What its keeper says; None when there is none, or it is dead."""
        held = self._held()
        return held if held and held.owner.alive else None

    async def up(self, within: float) -> None:
        """Wait until its keeper has it up. Raises ValueError when that has given up, has ended, or takes longer."""
        deadline = Deadline.after(within, self.clock.now())
        while (held := self.daemon()) and held.state is not ServiceState.UP:
            if held.failure:
                raise ValueError(held.failure.message)
            if not deadline.allows(POLL, self.clock.now()):
                raise ValueError(f"{self._kept} is {held.state}, and was not up within {within:g} s")
            await self.clock.sleep(POLL)
        if held is None:
            raise ValueError(f"{self._kept} did not come up, see {log_file(self.logs, self.name)}")

    @property
    def _kept(self) -> str:
        return f"service `{self.name}`, kept by another `start --persist`,"

    async def stop(self) -> bool:
        """End the keeper and its service, and nobody else; whether there was anything to end. Raises TimeoutError."""
        held = self._held()
        if held is None:
            return False
        alive = held.owner.alive
        if alive:
            _signal(held.owner, signal.SIGTERM)
            if not await self._gone(held.owner, ENDED_WITHIN):
                _signal(held.owner, signal.SIGKILL)
        ended = await self._gone(held.owner, KILLED_WITHIN) and await self._program_gone(held)
        if not ended:
            raise TimeoutError(f"service `{self.name}`: pid {held.owner.pid}, its keeper, does not end")
        Ownership(owner_file(self.logs, self.name)).forget()
        return alive

    async def _program_gone(self, held: Held) -> bool:
        """Its watchdog ends it when the keeper was killed."""
        if held.program is None or await self._gone(held.program, WITHDRAWN_WITHIN):
            return True
        if held.program.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(held.program.pid, signal.SIGKILL)
        return await self._gone(held.program, KILLED_WITHIN)

    def _held(self) -> Held | None:
        held = Ownership(owner_file(self.logs, self.name)).held()
        return held if held and held.persisted else None

    async def _gone(self, process: Identity, seconds: float) -> bool:
        return await poll_until(self.clock, lambda: not process.alive, POLL, seconds)


def forgotten(logs: Path, known: Container[str], clock: Clock) -> dict[str, Held]:
    """What living keepers say of services that the settings do not know (any more), by name."""
    kept = {name: PersistedServices(name, logs, clock).daemon() for name in owned(logs) if name not in known}
    return {name: held for name, held in kept.items() if held}


def _signal(process: Identity, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)
