"""Faults done to pages as processes, to browsers and to the driver: what a step meets, and that the next one works."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.browser import Browsers, PlaywrightSession
from harness.model.browser_settings import BrowserSettings
from harness.recovery.failure import Failure, Passed
from harness.resilience import SystemClock
from tests.browser.moments import until
from tests.browser.processes import gone
from tests.browser.site import Site
from tests.browser.stage import SHOP, Stage, failed, passed, perform
from tests.browser.striking import Struck, strike

pytestmark = pytest.mark.filterwarnings("default")
CLICK = {"act": "click", "selector": "#plain"}
CODES = {
    "page_crash": "PAGE_CRASHED",
    "endless_loop": "PAGE_UNRESPONSIVE",
    "browser_stop": "BROWSER_UNRESPONSIVE",
    "browser_kill": "BROWSER_CRASHED",
    "driver_kill": "DRIVER_GONE",
}


@pytest.fixture
def alone(run: Any, site: Site, tmp_path: Path) -> Iterator[Stage]:
    """Browsers and a driver of one's own."""
    temp = tmp_path / "browsers"
    temp.mkdir()

    async def make() -> Browsers:
        return Browsers(BrowserSettings(), SystemClock(), temp=temp)

    browsers = run(make())
    stage = Stage(browsers, site, tmp_path)
    yield stage
    for session in stage.sessions:
        run(session.close())
    run(browsers.close())


async def later(session: PlaywrightSession, kind: str) -> Struck:
    """Strike while an act is under way."""
    await asyncio.sleep(0.3)
    return await strike(session, kind=kind)


@pytest.mark.parametrize("during", [pytest.param(False, marks=pytest.mark.thorough), True], ids=["before", "during"])
@pytest.mark.parametrize("kind", CODES)
@pytest.mark.sampled(1)
async def test_what_a_step_meets(alone: Stage, kind: str, *, during: bool) -> None:
    never = {"act": "click", "selector": "#never"}
    session = await alone.at()
    if during:
        outcome, struck = await asyncio.gather(failed(session, never, 1.5, 1.5), later(session, kind))
    else:
        struck = await strike(session, kind=kind)
        outcome = await failed(session, CLICK)
    assert outcome.code == CODES[kind]
    assert not outcome.circumstances.others_may_be_to_blame
    assert struck.count == 1
    assert await session.renew(outcome, 15) is None
    await passed(session, CLICK)


@pytest.mark.parametrize("kind", ["browser_stop", "browser_kill", "driver_kill"])
@pytest.mark.sampled(1)
async def test_other_tasks_on_the_browser_are_innocent(alone: Stage, kind: str) -> None:
    one, two = await alone.at(world="w-1"), await alone.at(world="w-2")
    await strike(one, kind=kind)
    mine, theirs = await asyncio.gather(failed(one, CLICK), failed(two, CLICK))
    assert (mine.code, theirs.code) == (CODES[kind], CODES[kind])
    assert not mine.circumstances.innocent
    assert theirs.evidence["innocent"] is True


@pytest.mark.thorough
async def test_a_stopped_browser_goes_on(alone: Stage) -> None:
    session = await alone.at()
    struck = await strike(session, kind="browser_stop", seconds=1)
    assert (await failed(session, CLICK)).code == "BROWSER_UNRESPONSIVE"
    await struck.healed()
    assert session.chromium.ended_by is None
    for _ in range(50):
        outcome = await perform(session, CLICK)
        if isinstance(outcome, Passed):
            break
    assert isinstance(outcome, Passed)


@pytest.mark.thorough
async def test_a_stopped_browser_that_was_killed_meanwhile(alone: Stage) -> None:
    session = await alone.at()
    struck = await strike(session, kind="browser_stop", seconds=1)
    pid = session.chromium.pid
    outcome = await failed(session, CLICK)
    assert await session.renew(outcome, 15) is None
    await struck.healed()
    assert gone(pid)
    await passed(session, CLICK)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", CODES)
@pytest.mark.sampled(1)
async def test_what_is_gone_already_is_spared(alone: Stage, kind: str) -> None:
    session = await alone.at()
    assert (await strike(session, kind="driver_kill")).count == 1
    await until(lambda: not session.chromium.alive)
    await until(lambda: not session.chromium.driver.alive)  # a killed process takes a moment to go
    struck = await strike(session, kind=kind)
    assert struck.count == 0
    assert isinstance(await perform(session, CLICK), Failure)


@pytest.mark.thorough
async def test_what_lasts_is_there_after_a_kill(alone: Stage) -> None:
    session = await alone.at()
    struck = await strike(session, kind="missing", selector="#plain")
    await strike(session, kind="browser_kill")
    outcome = await failed(session, CLICK)
    assert await session.renew(outcome, 15) is None
    assert (await failed(session, CLICK)).code == "ELEMENT_NOT_FOUND"
    await struck.healed()
    await passed(session, CLICK)
    assert session.url == f"http://{SHOP}/"
