"""A task has its slot to itself, an episode keeps its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.environment import slots as module
from harness.environment.slots import Slot, Slots
from harness.recovery.failure import Failed
from harness.resilience import SystemClock
from harness.resilience.events import ResilienceEvent, SlotAwaited


def make(folder: Path, count: int = 1) -> Slots:
    return Slots(lambda: count, folder, SystemClock())


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL", 0.005)
    monkeypatch.setattr(module, "HOLD", 0.05)


def test_two_processes_never_hold_the_same_slot(tmp_path: Path) -> None:
    """Each `Slots` opens the files itself, as another process does."""

    async def main() -> tuple[list[int], bool, int]:
        here, there = make(tmp_path, 2), make(tmp_path, 2)
        first, second = await here.take("a", episode=False), await there.take("b", episode=False)
        waiting = asyncio.create_task(there.take("c", episode=False))
        await asyncio.sleep(0.03)
        waited = not waiting.done()
        here.give_back(first, "a", more=False)
        third = await asyncio.wait_for(waiting, 5)
        return [first.number, second.number], waited, third.number

    assert asyncio.run(main()) == ([0, 1], True, 0)


async def test_who_waits_for_long_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.02)
    told: list[ResilienceEvent] = []
    here, there = make(tmp_path), Slots(lambda: 1, tmp_path, SystemClock(), told.append)
    first = await here.take("a", episode=False)
    waiting = asyncio.create_task(there.take("b", episode=False, task="T-1"))
    await asyncio.sleep(0.1)
    here.give_back(first, "a", more=False)
    there.give_back(await asyncio.wait_for(waiting, 5), "b", more=False)
    await there.take("c", episode=False, task="T-2")
    (event,) = told
    assert isinstance(event, SlotAwaited)
    assert (event.task, event.folder) == ("T-1", str(tmp_path))


def test_an_episode_goes_on_in_its_slot_and_is_not_reset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.environment.slots.HOLD", 600)  # not over on a machine that holds this process back

    async def main() -> tuple[bool, bool, bool]:
        slots = make(tmp_path)
        first = await slots.take("episode", episode=True)
        begun = first.goes_on
        first.occupy("episode")
        slots.give_back(first, "episode", more=True)
        other = asyncio.create_task(slots.take("other", episode=False))
        await asyncio.sleep(0.02)
        kept = not other.done()
        second = await slots.take("episode", episode=True)
        other.cancel()
        return begun, kept, second.goes_on

    assert asyncio.run(main()) == (False, True, True)


def test_what_nobody_came_back_for_is_free_and_still_the_episodes_state(tmp_path: Path) -> None:
    async def main() -> bool:
        slots = make(tmp_path)
        first = await slots.take("episode", episode=True)
        first.occupy("episode")
        slots.give_back(first, "episode", more=True)
        await asyncio.sleep(0.1)
        other = await asyncio.wait_for(make(tmp_path).take("episode", episode=True), 5)
        return other.goes_on

    assert asyncio.run(main())


def test_an_episode_whose_state_another_task_has_reset_is_told_so(tmp_path: Path) -> None:
    async def main() -> Slot:
        slots = make(tmp_path)
        for world in ("episode", "other"):
            slot = await slots.take(world, episode=world == "episode")
            slot.occupy(world)
            slots.give_back(slot, world, more=False)
        with pytest.raises(Failed, match="another task ran between two tasks of this episode") as caught:
            await slots.take("episode", episode=True)
        assert caught.value.failure.code == "EPISODE_STATE_LOST"
        return await asyncio.wait_for(slots.take("next", episode=False), 5)

    assert asyncio.run(main()).number == 0, "and the slot is free for others"


def test_closing_lets_go_of_what_is_kept(tmp_path: Path) -> None:
    async def main() -> int:
        slots = make(tmp_path)
        slots.give_back(await slots.take("episode", episode=True), "episode", more=True)
        slots.close()
        return (await asyncio.wait_for(make(tmp_path).take("other", episode=False), 0.04)).number

    assert asyncio.run(main()) == 0
