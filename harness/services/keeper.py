"""Keeps one service running until it is told to stop: `python -m harness.services.keeper <project> <service>`.

What `harness services start --persist` leaves running. It looks after its service as a run does, and ends with it when
it gets SIGTERM or SIGINT, or when the service has failed for good. When it is killed, the watchdog ends the service.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from harness.model.settings import SettingsError, load_settings
from harness.recovery.failure import Failed, Failure
from harness.resilience import SystemClock
from harness.services.places import LOGS
from harness.services.services import Services

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
