"""Pages that are stopped from sending, in real Chromium: what leaves late is not sent, and what had left is known."""

from __future__ import annotations

import asyncio

import pytest

from harness.browser import PlaywrightSession
from harness.model.record import Sent
from tests.browser.moments import stretched, until
from tests.browser.stage import SHOP, Stage, failed, passed
from tests.browser.striking import strike

CLICK = {"act": "click", "selector": "#buy"}
BUSY = "const began = Date.now(); while (Date.now() - began < 60000);"
POST = "fetch('/echo', {method: 'POST', body: 'x'})"
LATE = {
    "timer": f"setTimeout(() => {POST}, 300)",
    "form": "setTimeout(() => form.submit(), 300)",
    "beacon": "setTimeout(() => navigator.sendBeacon('/echo', 'x'), 300)",
    "keepalive": "setTimeout(() => fetch('/echo', {method: 'POST', keepalive: true}), 300)",
    "pagehide": "addEventListener('pagehide', () => navigator.sendBeacon('/echo', 'x'))",
    "worker": "new Worker(URL.createObjectURL(new Blob(["
    "`setTimeout(() => fetch('HERE/echo', {method: 'POST'}), 300)`])))",
    "shared": "new SharedWorker('data:text/javascript,' + encodeURIComponent("
    "`setTimeout(() => fetch('HERE/echo', {method: 'POST', mode: 'no-cors'}), 300)`))",
}


async def bought(stage: Stage, script: str) -> PlaywrightSession:
    """A session on a page whose button has run this script, or runs it."""
    session = await stage.at("/saved")
    page = f"<form id=form method=post action='http://{SHOP}/echo'></form><button id=buy>Buy</button>"
    await session.tab.page.set_content(page)
    await session.tab.page.evaluate(
        "script => { buy.onclick = () => eval(script) }", script.replace("HERE", f"http://{SHOP}")
    )
    session.take_sent()
    return session


def unsafe(sent: tuple[Sent, ...]) -> list[str]:
    return [each.method or each.unseen for each in sent if each.unsafe]


@pytest.mark.parametrize("kind", LATE)
@pytest.mark.sampled(3)
async def test_what_a_page_sends_late_is_not_sent_once_it_is_stopped(stage: Stage, kind: str) -> None:
    before = stage.site.hits.get("/echo", 0)
    session = await bought(stage, LATE[kind])
    await passed(session, CLICK)
    assert await session.hold()
    await asyncio.sleep(0.5)
    await session.tab.page.close()
    await asyncio.sleep(0.2)
    assert stage.site.hits.get("/echo", 0) == before


@pytest.mark.parametrize(("script", "left"), [(f"{POST};{BUSY}", 1), (f"setTimeout(() => {POST}, 0);{BUSY}", 0)])
async def test_a_page_that_hangs_tells_what_it_has_sent_when_it_is_stopped(
    stage: Stage, script: str, left: int
) -> None:
    """Its script is ended only then: what it would send as soon as it goes on does not leave."""
    before = stage.site.hits.get("/echo", 0)
    session = await bought(stage, script)
    await failed(session, CLICK, stretched(0.7))
    assert await session.hold()
    assert unsafe(session.take_sent()) == ["POST"] * left
    await asyncio.sleep(0.3)
    assert stage.site.hits.get("/echo", 0) - before == left


async def test_a_page_that_goes_on_sends_again_unless_a_fault_keeps_it_offline(stage: Stage) -> None:
    before = stage.site.hits.get("/echo", 0)
    session = await bought(stage, POST)
    assert await session.hold()
    await passed(session, CLICK)
    await until(lambda: not session.tab.watch.undecided())
    assert unsafe(session.take_sent()) == []
    await session.release()
    await passed(session, CLICK)
    await until(lambda: stage.site.hits.get("/echo", 0) == before + 1)
    await strike(session, kind="offline")
    await session.hold()
    await session.release()
    await passed(session, CLICK)
    await asyncio.sleep(0.3)
    assert stage.site.hits.get("/echo", 0) == before + 1


async def test_a_page_that_crashed_and_a_browser_that_is_gone_tell_nothing(stage: Stage) -> None:
    session = await bought(stage, POST)
    await strike(session, kind="page_crash")
    await failed(session, CLICK)
    assert not await session.hold()
    assert not await session.hold(), "to ask a second time makes nothing known"
    session = await bought(stage, POST)
    await strike(session, kind="browser_kill")
    assert not await session.hold()


NOTICES = """
  document.title = 'shop';
  addEventListener('offline', () => { document.body.append('you are offline') }, true);
  window.onoffline = window.ononline = () => { document.body.append('back online') };
"""


@pytest.mark.parametrize("then", ["", BUSY], ids=["answers", "hangs"])
@pytest.mark.sampled(1)
async def test_a_page_that_is_stopped_does_not_notice_it_and_shows_what_a_user_would_have_seen(
    stage: Stage, then: str
) -> None:
    session = await stage.at("/saved")
    made = "script => { document.body.innerHTML = '<button id=buy>Buy</button>'; buy.onclick = () => eval(script) }"
    await session.tab.page.evaluate(made, NOTICES + then)
    await (failed if then else passed)(session, CLICK)
    assert await session.hold()
    seen = "() => [document.body.innerText.trim(), navigator.onLine]"
    await asyncio.sleep(0.1)
    assert await session.tab.page.evaluate(seen) == ["Buy", True]
    assert await session.tab.page.evaluate("fetch('/echo').catch(() => 'refused')") == "refused"
    await session.release()
    await asyncio.sleep(0.1)
    assert await session.tab.page.evaluate(seen) == ["Buy", True]
    await session.tab.context.set_offline(True)
    await asyncio.sleep(0.1)
    assert await session.tab.page.evaluate(seen) == ["Buyyou are offlineback online", False]
