"""Faults done to what a browser keeps: the session, the storage, the clock."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.async_api import Page

from harness.recovery.failure import Failure
from tests.browser.moments import COMES_WITHIN
from tests.browser.stage import OTHER, SHOP, Stage, passed
from tests.browser.striking import strike

pytestmark = pytest.mark.filterwarnings("default")
KEEP = """async () => {
  localStorage.setItem('a', '1');
  sessionStorage.setItem('b', '2');
  const open = indexedDB.open('c', 1);
  await new Promise((done, failed) => { open.onsuccess = done; open.onerror = failed });
}"""
KEPT = "async () => [localStorage.length, sessionStorage.length, (await indexedDB.databases()).length]"
HOURS = 48 * 3600


async def _asked(page: Page, script: str) -> Any:
    """Once more when there is no answer: Chromium's IndexedDB was seen to give none on an overloaded machine."""
    for _ in range(2):
        with suppress(TimeoutError):
            return await asyncio.wait_for(page.evaluate(script), COMES_WITHIN)
    return await page.evaluate(script)


async def test_a_session_that_expires(stage: Stage) -> None:
    session = await stage.at("/login")
    await passed(session, {"act": "open", "url": f"http://{OTHER}/login"})
    struck = await strike(session, kind="session_expired", host=SHOP)
    cookies = await session.tab.context.cookies()
    assert {each.get("domain") for each in cookies} == {OTHER}
    assert struck.count == 1
    assert (await strike(session, kind="session_expired")).count == 1
    assert await session.tab.context.cookies() == []
    assert (await strike(session, kind="session_expired")).count == 0, "nothing was left"


async def test_storage_that_is_cleared(stage: Stage) -> None:
    session = await stage.at("/saved")
    page = session.tab.page
    await _asked(page, KEEP)
    assert await _asked(page, KEPT) == [1, 1, 1]
    struck = await strike(session, kind="storage_cleared")
    assert await _asked(page, KEPT) == [0, 0, 0]
    assert struck.count == 1
    assert (await strike(session, kind="storage_cleared")).count == 0, "nothing was left"


@pytest.mark.thorough
async def test_storage_of_a_blank_page(stage: Stage) -> None:
    session = await stage.session()
    assert (await strike(session, kind="storage_cleared")).count == 0


@pytest.mark.parametrize("by", [HOURS, -HOURS])
@pytest.mark.parametrize("start", [None, datetime(2024, 2, 3, 4, 5, tzinfo=UTC)], ids=["real", "time"])
@pytest.mark.thorough
async def test_a_clock_that_jumps(stage: Stage, start: datetime | None, by: int) -> None:
    session = await stage.at("/saved", start=start)
    hours = "() => [Date.now(), +new Date(), Date.parse(Date())].map(at => Math.round(at / 3600e3))"
    before = (await session.tab.page.evaluate(hours))[0]
    struck = await strike(session, kind="clock_moved", by=by)
    for _ in range(2):
        assert await session.tab.page.evaluate(hours) == [before + by // 3600] * 3
        await passed(session, {"act": "open", "url": f"http://{SHOP}/saved"})
    assert await struck.mets(3) == 3
    assert await session.renew(Failure("BROWSER_UNRESPONSIVE", "silent"), 10) is None
    assert await session.tab.page.evaluate(hours) == [before + by // 3600] * 3
    await struck.healed()
    assert await session.tab.page.evaluate(hours) == [before] * 3


@pytest.mark.thorough
async def test_dates_are_dates_still(stage: Stage) -> None:
    session = await stage.at("/saved")
    await strike(session, kind="clock_moved", by=10)
    kinds = """() => [new Date(0).toISOString(), new Date() instanceof Date, new Date().constructor === Date,
          new (class extends Date {})(5).getTime(), Date.UTC(1970, 0, 1), new Date('x').getTime()]"""
    found = await session.tab.page.evaluate(kinds)
    assert found[:5] == ["1970-01-01T00:00:00.000Z", True, True, 5, 0]


@pytest.mark.thorough
async def test_a_popup_has_the_moved_clock_once(stage: Stage) -> None:
    session = await stage.at()
    before = await session.tab.page.evaluate("Math.round(Date.now() / 3600e3)")
    struck = await strike(session, kind="clock_moved", by=HOURS)
    await passed(session, {"act": "click", "selector": "#popup"})
    await passed(session, {"act": "switch_page", "url": f"http://{SHOP}/popup"})
    await passed(session, {"act": "click", "selector": "p"})
    assert await session.tab.page.evaluate("Math.round(Date.now() / 3600e3)") == before + 48
    await struck.healed()
    assert await session.tab.page.evaluate("Math.round(Date.now() / 3600e3)") == before
