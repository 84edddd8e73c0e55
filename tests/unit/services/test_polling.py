"""What hangs is started again; what is slow is left alone; what answers badly is told of."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.failure import Failed
from harness.resilience.events import ResilienceEvent, ServiceChanged
from harness.services import Services
from harness.services.polling import STANDARD, Polling, Pulse
from tests.unit.services.conftest import PROGRAM, alive, comes, eventually, listens, play, reborn, settings, site

Make = Callable[..., Services]
QUICK = Polling(interval=0.05, misses=2, patience=0.6)


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
        assert pulse.heard(well=well, now=at) is suspect
        assert not pulse.is_due(at + 9.9)


def test_zero_asks_nothing() -> None:
    assert not Pulse.begin(Polling(interval=0), 0.0).is_due(1e9)


def changes(events: list[ResilienceEvent]) -> list[tuple[str, str]]:
    return [(each.after, each.reason) for each in events if isinstance(each, ServiceChanged)]


def test_what_hangs_is_ended_and_started_again(make: Make, port: int, tmp_path: Path) -> None:
    events: list[ResilienceEvent] = []
    services = make(settings(port), emit=events.append, polling=QUICK)

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
    polling = Polling(interval=0.05, misses=2, patience=5)
    services = make(settings(port), emit=events.append, polling=polling)

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
    services = make(settings(port, ready_timeout=0.6), emit=events.append, polling=QUICK)

    async def main() -> None:
        os.kill(running.pid, signal.SIGSTOP)
        assert await comes(lambda: services.states == {"site": "unhealthy"})
        with pytest.raises(Failed, match=rf"taken by pid {running.pid} .* no answer within 500 ms"):
            await services.recover("site")
        os.kill(running.pid, signal.SIGCONT)
        assert await comes(lambda: services.states == {"site": "up"})

    play(services, main)
    assert running.poll() is None
    assert changes(events) == [("up", "already_running"), ("unhealthy", "health_missed_2"), ("up", "health_ok")]


def test_what_others_have_ended_is_started_though_no_task_asks(make: Make, port: int, run: Any) -> None:
    running = run(str(PROGRAM), str(port), stdout=-3)
    assert eventually(lambda: listens(port))
    services = make(settings(port), polling=QUICK)

    async def main() -> None:
        running.kill()
        running.wait()
        assert await comes(lambda: services.started == ("site",) and services.states == {"site": "up"})

    play(services, main)


def test_a_task_that_notices_does_not_wait_for_the_polls(make: Make, port: int) -> None:
    services = make(settings(port, health_interval=10), polling=Polling(patience=0.5))

    async def main() -> None:
        pid = site(port).pid
        os.kill(pid, signal.SIGSTOP)
        begun = time.monotonic()
        await asyncio.gather(*(services.recover("site") for _ in range(5)))
        assert time.monotonic() - begun < 9.9, "before the first poll"
        assert site(port).pid != pid

    play(services, main)
