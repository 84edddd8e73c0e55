"""Services that outlive the command that starts them: each has a daemon, found again by its owner file."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Container
from pathlib import Path
from typing import Any

from msgspec import Struct

from harness.environment.ownership import LOGS, Held, ServiceState, log_file, owned_services, owner_file, read_held
from harness.environment.services import Services
from harness.model.settings import load_settings
from harness.model.settings_errors import SettingsError
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock, Deadline, SystemClock, poll_until
from harness.resilience.owner import Owner
from harness.resilience.process import GRACE, KILLED_WITHIN, POLL

# Keeps one service running until it is stopped: `python -m harness.environment.persistence <project> <service>`.

_STOPS = (signal.SIGTERM, signal.SIGINT)


async def keep(services: Services, announce: Callable[[], None]) -> Failure | None:
    """Start the services, call `announce`, and keep them until a signal comes; reused services are not kept.

    Returns the failure if one of them fails permanently. Raises Failed if they cannot be started.
    """
    stop = asyncio.Event()
    for number in _STOPS:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        if not await _finish_unless(stop, services.start()):
            return None
        announce()
        if not services.started:
            return None
        lost = asyncio.ensure_future(services.await_permanent_failure())
        await _finish_unless(stop, lost)
        return None if lost.cancelled() else lost.result()
    finally:
        await services.stop()


async def _finish_unless(stop: asyncio.Event, work: Awaitable[Any]) -> bool:
    """Await the work, unless the signal comes first; return whether it was done. Raises the work's errors."""
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
    """Return the exit code: 0 if it was stopped, or had nothing to keep; 1 if the service failed."""
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
    """Answer the command that has started this process, only once: it reads nothing more."""
    os.write(1, f"{json.dumps(answer)}\n".encode())
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

_ENDED_WITHIN = GRACE + KILLED_WITHIN + 2.0
"""Seconds that a daemon may take to end its service and itself."""
_WITHDRAWN_WITHIN = GRACE + 2.0
"""Seconds that a watchdog takes to end the service after its daemon was killed."""


class StartingDaemon:
    """A daemon that is starting."""

    def __init__(self, name: str, root: Path, logs: Path) -> None:
        """Start it; raises OSError if its log cannot be written."""
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

    def await_ready(self) -> bool:
        """Wait until it is ready: True if it keeps the service, False if the service ran already. Raises ValueError."""
        assert self._process.stdout is not None
        with self._process.stdout as answers:
            line = answers.readline()
        answer = json.loads(line) if line else {"failure": f"its keeper ended with exit code {self._process.wait()}"}
        if failure := answer.get("failure"):
            self._process.wait()
            raise ValueError(str(failure))
        return bool(answer["started"])

    def abandon(self) -> None:
        """End the daemon and what it has started."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDED_WITHIN)
        self._process.kill()


class PersistedServices(Struct, frozen=True):
    """The record of a service that is kept between runs. A run's own services have no such record."""

    name: str
    logs: Path
    clock: Clock

    def daemon(self) -> Held | None:
        """The record of its daemon; None if there is none, or it is dead."""
        held = self._held_record()
        return held if held and held.owner.alive else None

    async def await_up(self, within: float) -> None:
        """Wait until its daemon has it up. Raises ValueError if the daemon has given up, has ended, or takes longer."""
        deadline = Deadline.after(within, self.clock.now())
        named = f"service `{self.name}`, kept by another `start --persist`,"
        while (held := self.daemon()) and held.state is not ServiceState.UP:
            if held.failure:
                raise ValueError(held.failure.message)
            if not deadline.allows(POLL, self.clock.now()):
                raise ValueError(f"{named} is {held.state}, and was not up within {within:g} s")
            await self.clock.sleep(POLL)
        if held is None:
            raise ValueError(f"{named} did not come up, see {log_file(self.logs, self.name)}")

    async def stop(self) -> bool:
        """End the daemon and its service only; return whether there was anything to end. Raises TimeoutError."""
        held = self._held_record()
        if held is None:
            return False
        alive = held.owner.alive
        if alive:
            _signal(held.owner, signal.SIGTERM)
            if not await self._has_ended(held.owner, _ENDED_WITHIN):
                _signal(held.owner, signal.SIGKILL)
        ended = await self._has_ended(held.owner, KILLED_WITHIN) and await self._program_gone(held)
        if not ended:
            raise TimeoutError(f"service `{self.name}`: pid {held.owner.pid}, its keeper, does not stop")
        owner_file(self.logs, self.name).unlink(missing_ok=True)
        return alive

    async def _program_gone(self, held: Held) -> bool:
        """Wait until the service has ended. Its watchdog ends it if the daemon was killed."""
        if held.program is None or await self._has_ended(held.program, _WITHDRAWN_WITHIN):
            return True
        if held.program.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(held.program.pid, signal.SIGKILL)
        return await self._has_ended(held.program, KILLED_WITHIN)

    def _held_record(self) -> Held | None:
        held = read_held(owner_file(self.logs, self.name))
        return held if held and held.persisted else None

    async def _has_ended(self, process: Owner, seconds: float) -> bool:
        return await poll_until(self.clock, lambda: not process.alive, POLL, seconds)


def forgotten(logs: Path, known: Container[str], clock: Clock) -> dict[str, Held]:
    """The records of living daemons for services that are not (or no longer) in the settings, by name."""
    kept = {name: PersistedServices(name, logs, clock).daemon() for name in owned_services(logs) if name not in known}
    return {name: held for name, held in kept.items() if held}


def _signal(process: Owner, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)
