"""What hangs is started again; what is slow is left alone; what answers badly is told of."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from harness.environment.services import Services
from harness.environment.supervision import STANDARD, Polling, Pulse
from harness.resilience import process as child
from harness.resilience.events import ResilienceEvent, ServiceChanged
from tests.unit.environment.services.conftest import (
    PROGRAM,
    alive,
    comes,
    eventually,
    listens,
    play,
    programs,
    reborn,
    settings,
    site,
)

Make = Callable[..., Services]
QUICK = Polling(misses=2)


def test_three_misses_in_a_row_ten_seconds_apart() -> None:
    pulse = Pulse.begin(STANDARD, 100.0)
    assert not pulse.is_due(109.9)
    for at, well, suspect in [
        (110.0, False, False),
        (120.0, False, False),
        (130.0, True, False),
        (140.0, False, False),
        (150.0, False, False),
        (160.0, False, True),
        (170.0, False, True),
        (180.0, True, False),
    ]:
        assert pulse.is_due(at)
        assert pulse.record_answer(well=well, now=at) is suspect
        assert not pulse.is_due(at + 9.9)


def test_zero_asks_nothing() -> None:
    assert not Pulse.begin(Polling(interval=0), 0.0).is_due(1e9)


def changes(events: list[ResilienceEvent]) -> list[tuple[str, str]]:
    return [(each.after, each.reason) for each in events if isinstance(each, ServiceChanged)]


def test_what_hangs_is_ended_and_started_again(make: Make, port: int, tmp_path: Path) -> None:
    events: list[ResilienceEvent] = []
    services = make(settings(port, health_patience=0.6), emit=events.append, polling=QUICK)

    async def main() -> None:
        pid = site(port).pid
        os.kill(pid, signal.SIGSTOP)
        assert await reborn(port, pid)
        assert await comes(lambda: services.states == {"site": "up"})
        assert not alive(pid)

    play(services, main)
    assert changes(events)[2:] == [
        ("unhealthy", "no_answer"),
        ("restarting", "crash_1"),
        ("up", "health_ok"),
        ("stopped", "stop_ordered"),
    ]
    assert "[harness] hung, crash 1 of 3: started again" in (tmp_path / "logs" / "site.log").read_text("utf-8")


def test_what_is_slow_is_left_alone(make: Make, port: int) -> None:
    """Slower than a question may take, quicker than its patience: as on a machine under load."""
    events: list[ResilienceEvent] = []
    services = make(settings(port, health_patience=5), emit=events.append, polling=QUICK)

    async def main() -> None:
        pid = site(port).pid
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(2)  # three questions and the patient one
        os.kill(pid, signal.SIGCONT)
        await services.recover("site")
        assert site(port).pid == pid

    play(services, main)
    assert changes(events) == [("booting", "spawned"), ("up", "health_ok"), ("stopped", "stop_ordered")]


def test_what_answers_badly_is_told_of_and_left_alone(make: Make, port: int, tmp_path: Path) -> None:
    events: list[ResilienceEvent] = []
    sick = tmp_path / "sick"
    services = make(settings(port, environment={"SICK": str(sick)}), emit=events.append, polling=QUICK)

    async def main() -> None:
        pid = site(port).pid
        sick.touch()
        assert await comes(lambda: services.states == {"site": "unhealthy"})
        await services.recover("site")
        sick.unlink()
        assert await comes(lambda: services.states == {"site": "up"})
        assert site(port).pid == pid

    play(services, main)
    assert changes(events)[2:] == [("unhealthy", "health_missed_2"), ("up", "health_ok"), ("stopped", "stop_ordered")]


def test_what_others_have_started_is_told_of_and_not_ended(make: Make, port: int, run: Any) -> None:
    running = run(str(PROGRAM), str(port), stdout=-3)
    assert eventually(lambda: listens(port))
    events: list[ResilienceEvent] = []
    services = make(settings(port, command=None, health_patience=0.6), emit=events.append, polling=QUICK)

    async def main() -> None:
        os.kill(running.pid, signal.SIGSTOP)
        assert await comes(lambda: services.states == {"site": "unhealthy"})
        await services.recover("site")
        assert services.started == ()
        os.kill(running.pid, signal.SIGCONT)
        assert await comes(lambda: services.states == {"site": "up"})

    play(services, main)
    assert running.poll() is None
    assert changes(events) == [("up", "already_running"), ("unhealthy", "health_missed_2"), ("up", "health_ok")]


def test_what_others_have_ended_is_started_though_no_task_asks(make: Make, port: int) -> None:
    kept = make(settings(port), kept=True)
    asyncio.run(kept.start())
    services = make(settings(port), polling=QUICK)

    async def main() -> None:
        kept.kill()
        assert await comes(lambda: services.started == ("site",) and services.states == {"site": "up"})

    play(services, main)


@contextlib.asynccontextmanager
async def busy(port: int, file: Path) -> AsyncIterator[None]:
    """A request that takes the service until the end of this."""
    file.touch()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /work HTTP/1.0\r\n\r\n")
    try:
        yield
    finally:
        file.unlink()
        await reader.read()
        writer.close()


@pytest.mark.parametrize("interval", [0, 3600])
def test_what_is_busy_is_not_ended_by_a_task_that_notices(
    make: Make, port: int, tmp_path: Path, interval: float
) -> None:
    """However long it takes: only the questions after its health can say that it hangs, and 0 asks none."""
    file = tmp_path / "busy"
    chosen = settings(
        port, "site", "busy", environment={"BUSY": str(file)}, health_interval=interval, health_patience=0.1
    )
    events: list[ResilienceEvent] = []
    services = make(chosen, emit=events.append)

    async def main() -> None:
        pid = site(port).pid
        async with busy(port, file):
            await asyncio.gather(*(services.recover("site") for _ in range(3)))
            assert (site(port).pid, services.states) == (pid, {"site": "up"})
        await services.recover("site")
        assert site(port).pid == pid

    play(services, main)
    assert changes(events) == [("booting", "spawned"), ("up", "health_ok"), ("stopped", "stop_ordered")]


def test_what_is_busy_is_ended_after_its_patience(make: Make, port: int, tmp_path: Path) -> None:
    file = tmp_path / "busy"
    chosen = settings(port, "site", "busy", environment={"BUSY": str(file)}, health_patience=1.5)
    services = make(chosen, polling=Polling(misses=1))

    async def main() -> None:
        pid, begun = site(port).pid, time.monotonic()
        async with busy(port, file):
            await services.recover("site")
            assert await reborn(port, pid)
            assert time.monotonic() - begun >= 2, "a question, and the patient one"
        assert not alive(pid)

    play(services, main)


def test_its_patience_is_a_setting(port: int) -> None:
    assert settings(port).health_patience == STANDARD.patience == 10
    with pytest.raises(ValueError, match="health_patience"):
        settings(port, health_patience=0)


async def test_stopping_while_one_that_hangs_is_being_ended_leaves_nothing(
    make: Make, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "GRACE", 1.0)
    services = make(settings(port, health_patience=0.1), polling=Polling(misses=1))
    await services.start()
    pid = site(port).pid
    os.kill(pid, signal.SIGSTOP)
    assert await comes(lambda: services.states == {"site": "unhealthy"})
    assert alive(pid), "it is given time to end in order"
    await services.stop()
    assert not alive(pid)
    assert programs(port) == []
