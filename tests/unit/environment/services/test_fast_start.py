"""Fast start: look (500 ms), start, ready within 4 s; and what each of its failure scenarios comes to."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from harness.environment.health import PROBE_TIMEOUT
from harness.environment.services import Services
from harness.model.service_settings import ServiceSettings
from harness.recovery.failure import Failed
from tests.unit.environment.services.conftest import (
    PROGRAM,
    eventually,
    listens,
    play,
    programs,
    reborn,
    settings,
    site,
)

Make = Callable[..., Services]


def test_the_times_of_the_document() -> None:
    assert PROBE_TIMEOUT == 0.5
    assert ServiceSettings(command=("x",), hosts={"a.local": 1}, health="http://a.local/").ready_timeout == 30.0


def start(services: Services) -> float:
    """Seconds."""
    begun = time.monotonic()
    asyncio.run(services.start())
    return time.monotonic() - begun


def test_what_runs_is_used_at_once(make: Make, port: int) -> None:
    kept, services = make(settings(port), kept=True), make(settings(port))

    async def main() -> None:
        await services.start()
        assert services.started == ()
        (line,) = services.kept_lines()
        told = r"site reused, kept by `harness services start` since 20\d\d-\d\d-\d\d \d\d:\d\d"
        assert re.fullmatch(told, line)

    play(kept, main)


def test_503_is_a_start_that_is_waited_for(make: Make, port: int) -> None:
    services = make(settings(port, environment={"READY_AFTER": "0.7"}))
    assert start(services) >= 0.7
    assert services.states == {"site": "up"}


def test_503_of_what_others_are_starting_is_waited_for(make: Make, port: int, run: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("READY_AFTER", "1")
    run(str(PROGRAM), str(port), stdout=-3)
    assert eventually(lambda: listens(port))
    services = make(settings(port, command=None))
    start(services)
    assert services.started == ()
    assert services.states == {"site": "up"}


def test_503_of_what_is_shutting_down_makes_way(make: Make, port: int, run: Any) -> None:
    leaving = run(str(PROGRAM), str(port), "site", "sick", stdout=-3)
    assert eventually(lambda: listens(port))
    services = make(settings(port))

    async def main() -> None:
        starting = asyncio.create_task(services.start())
        await asyncio.sleep(0.3)
        assert not starting.done()
        leaving.kill()
        await starting
        assert services.started == ("site",)
        await services.stop()

    asyncio.run(main())


def test_it_starts_and_never_answers(make: Make, port: int) -> None:
    """Recovery: told as failed, with its log; within its time and half a second."""
    services = make(settings(port, "site", "unready", ready_timeout=0.8))
    begun = time.monotonic()
    with pytest.raises(Failed, match=r"was not ready within 0\.8 s"):
        asyncio.run(services.start())
    assert 0.8 <= time.monotonic() - begun < 15
    assert services.states == {"site": "down"}
    assert programs(port) == []


def test_it_crashes_after_startup_and_restarts_on_the_next_connection(make: Make, port: int) -> None:
    services = make(settings(port))

    async def main() -> None:
        pid = site(port).pid
        site(port).kill()
        await services.recover("site")
        assert await reborn(port, pid)

    play(services, main)
