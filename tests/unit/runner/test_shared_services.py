"""Runs at the same time use the same services; the last one ends them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.environment.services import Services
from harness.model.service_settings import ServiceSettings
from harness.model.settings import Settings
from harness.recovery.failure import Failure
from harness.resilience.events import ResilienceEvent, ServiceChanged, discard
from harness.runner.shared_services import ServicePool
from tests.unit.resilience.virtual import LoopClock, play

pytestmark = pytest.mark.fake_clock

CHANGE = ServiceChanged("shop", "up", "down", "process_exit")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done with processes."""
    done: list[str] = []

    async def begin(_services: Services, slots: int = 1) -> list[Failure]:
        done.append(f"start {slots}")
        await asyncio.sleep(1)
        return [Failure("SERVICE_DOWN", "one of them does not start")]

    async def stop(_services: Services) -> None:
        await asyncio.sleep(1)
        done.append("stop")

    monkeypatch.setattr(Services, "begin", begin)
    monkeypatch.setattr(Services, "stop", stop)
    return done


async def test_they_start_once_and_end_with_the_last_run(tmp_path: Path, calls: list[str]) -> None:
    settings = Settings(
        root=tmp_path,
        services={"shop": ServiceSettings(hosts={"shop.local": 8601}, health="http://shop.local/", command=["shop"])},
    )
    pool, heard = ServicePool(), list[tuple[str, ResilienceEvent]]()
    async with pool.lend() as first:
        services = first.open(settings, LoopClock(), lambda event: heard.append(("first", event)))
        async with pool.lend() as second:
            assert second.open(settings, LoopClock(), lambda event: heard.append(("second", event))) is services
            found = await asyncio.gather(services.begin(), services.begin())
            assert [len(each) for each in found] == [1, 0]  # it is tried again when a task needs it
            await services.begin()
            services.tell(CHANGE)
            await services.stop()  # as the harness of a run that is over
        services.tell(CHANGE)
        assert calls == ["start 1"]
    assert calls == ["start 1", "stop"]
    assert heard == [("first", CHANGE), ("second", CHANGE), ("first", CHANGE)]


def test_new_ones_wait_until_the_old_ones_have_ended(tmp_path: Path, calls: list[str]) -> None:
    async def run(pool: ServicePool, settings: Settings) -> None:
        async with pool.lend() as lent:
            calls.append("open")
            lent.open(settings, LoopClock(), discard)

    async def main() -> None:
        pool, settings = ServicePool(), Settings(root=tmp_path)
        ending = asyncio.create_task(run(pool, settings))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.gather(ending, run(pool, settings))
        assert calls == ["open", "stop", "open", "stop"]

    play(main())
