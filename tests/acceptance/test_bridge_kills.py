"""kill -9 of a run that serves agents, at twenty moments of a purchase: nothing is bought twice, nothing is left."""

from __future__ import annotations

import asyncio
from typing import Any

import psutil
import pytest

from harness.bridge.client import Bridge, BridgeError, ConnectionRefusedForGood, TakenTask
from harness.bridge.store import stored_sessions
from tests.acceptance.conftest import Project
from tests.acceptance.test_bridge import BUY, ONE_ORDER
from tests.acceptance.test_bridge_clients import Offering

Moment = tuple[int, float | None]
"""The message before which the run is killed (0 takes the task, 1 to 7 are steps, 8 finishes it), or, with a number,
that many seconds after it was sent."""
CART, ORDER, FINISH = 2, 7, 8
"""The messages that write, and the last one."""
MOMENTS: tuple[Moment, ...] = (
    *((number, None) for number in range(FINISH + 1)),
    *((number, 0.0) for number in range(FINISH + 1)),
    (CART, 0.03),
    (ORDER, 0.03),
)


def family(run: Offering) -> list[psutil.Process]:
    root = psutil.Process(run.process.pid)
    return [root, *root.children(recursive=True)]


async def killed(run: Offering) -> None:
    """Kill the run alone; all that it has started must end by itself."""
    members = await asyncio.to_thread(family, run)
    await asyncio.to_thread(run.kill)
    _, alive = await asyncio.to_thread(psutil.wait_procs, members, 20)
    assert [each for each in alive if each.status() != psutil.STATUS_ZOMBIE] == []


async def send(bridge: Bridge, task: TakenTask | None, number: int) -> Any:
    if task is None:
        return await bridge.take()
    return await (task.finish() if number == FINISH else task.act(BUY[number - 1]))


async def until_killed(run: Offering, moment: Moment) -> str:
    """Buy until the moment, and kill the run; the session."""
    last, delay = moment
    bridge, task = Bridge(run.url, run.token), None
    await bridge.open()
    for number in range(last):
        found = await send(bridge, task, number)
        task = task or found
    under_way = None
    if delay is not None:
        under_way = asyncio.create_task(send(bridge, task, last))
        await asyncio.sleep(delay)
    await killed(run)
    if under_way is not None:
        under_way.cancel()
        await asyncio.gather(under_way, return_exceptions=True)
    session = bridge.session
    await bridge.detach()
    return session


async def gone_on(run: Offering, session: str) -> bool:
    """Join the session in the next run, and buy; whether that has passed. Raises BridgeError if it cannot go on."""
    bridge = Bridge(run.url, run.token, session=session)
    try:
        await bridge.open()
        with pytest.raises(BridgeError, match="SESS_NO_TASK"):
            await bridge.request("observe", turn=1)
        task = await bridge.take()
        assert task is not None
        for number in range(1, FINISH):
            assert (await send(bridge, task, number)).passed
        return bool((await task.finish()).passed)
    finally:
        await bridge.detach()


@pytest.mark.parametrize(
    "moment",
    [(CART + 1, None), *(pytest.param(each, marks=pytest.mark.thorough) for each in MOMENTS if each != (3, None))],
    ids=lambda each: f"{'before' if each[1] is None else 'in'}-{each[0]}{'-later' if each[1] else ''}",
)
def test_a_killed_purchase_begins_anew_only_if_nothing_was_written(project: Project, moment: Moment) -> None:
    assert len(MOMENTS) == 20
    project.task("BUY", success_criteria=ONE_ORDER)
    last, delay = moment
    runs = [Offering(project)]

    async def main() -> bool | str:
        session = await until_killed(runs[0], moment)
        kept = next(each for each in stored_sessions(project.path) if each.id == session)
        if delay is None or last not in (CART, FINISH):
            assert kept.resumable == (last <= CART)
        runs.append(await asyncio.to_thread(Offering, project))
        try:
            result: bool | str = await gone_on(runs[1], session)
        except ConnectionRefusedForGood as refused:
            result = refused.code
            await killed(runs[1])
        assert result == (True if kept.resumable else "SESS_NOT_RESUMABLE")
        return result

    try:
        result = asyncio.run(main())
        assert result is not True or "1 passed" in runs[1].end()
    finally:
        for each in runs:
            each.kill()
