"""`switch_page` and `screenshot`: several pages in one context."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.criteria import PageQuery
from harness.recovery import Capture
from harness.recovery.catalog import Effect
from tests.browser.moments import until
from tests.browser.stage import DEAD, SHOP, Stage, failed, passed

pytestmark = pytest.mark.filterwarnings("default")


async def click(session: Any, selector: str) -> None:
    await passed(session, {"act": "click", "selector": selector})


@pytest.mark.parametrize(
    "name",
    [
        {"value": 1},
        {"value": -1},
        {"value": "Closer"},
        {"value": "lose"},
        {"url": f"http://{SHOP}/closer"},
        {"url": "*/clo*"},
        {"url": "/closer"},
    ],
)
@pytest.mark.sampled(1)
async def test_a_page_that_opens_late_is_waited_for(stage: Stage, name: dict[str, Any]) -> None:
    session = await stage.at("/windows", base_url=f"http://{SHOP}")
    await click(session, "#later")
    outcome = await passed(session, {"act": "switch_page", **name})
    assert outcome.details["url"] == f"http://{SHOP}/closer"
    assert outcome.details["status"] == 200
    assert await session.read(PageQuery("title"), 2) == "Closer"
    assert session.url == f"http://{SHOP}/closer"
    await passed(session, {"act": "switch_page", "value": 0})
    assert await session.text("h1", None, 1) == "Windows"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ({"value": 2}, "no other page is number 2 (looked for 0.3s); the open pages are "),
        ({"value": -3}, "no other page is number -3, counted from the newest (looked for 0.3s); the open pages are "),
        ({"value": "Nowhere"}, "no other page is titled 'Nowhere' (looked for 0.3s); the open pages are "),
        ({"value": "Windows"}, "no other page is titled 'Windows' (looked for 0.3s); the open pages are "),
        ({"url": "*/nowhere"}, "no other page is at */nowhere (looked for 0.3s); the open pages are "),
    ],
)
@pytest.mark.thorough
async def test_no_such_page(stage: Stage, name: dict[str, Any], message: str) -> None:
    session = await stage.at("/windows")
    await click(session, "#popup")
    await passed(session, {"act": "switch_page", "value": 1})
    await passed(session, {"act": "switch_page", "value": 0})
    failure = await failed(session, {"act": "switch_page", **name}, within=3, patience=0.3)
    assert failure.code == "ELEMENT_NOT_FOUND"
    listed = (f"0: http://{SHOP}/windows 'Windows' (the current one)", f"1: http://{SHOP}/popup 'Popup'")
    assert failure.message.startswith(message + ", ".join(listed))
    assert failure.details["pages"] == list(listed)
    assert "fallback" not in failure.hint
    assert failure.hint.startswith("Compare `value` or `url` of the step with the open pages")
    assert not failure.tainted
    await click(session, "#popup")


@pytest.mark.thorough
async def test_the_newest_page_is_not_the_current_one(stage: Stage) -> None:
    session = await stage.at("/windows")
    failure = await failed(session, {"act": "switch_page", "value": -1}, within=2, patience=0.3)
    assert failure.code == "ELEMENT_NOT_FOUND"
    assert f"0: http://{SHOP}/windows 'Windows' (the current one)" in failure.message


@pytest.mark.thorough
async def test_several_pages_of_one_name(stage: Stage) -> None:
    session = await stage.at("/windows")
    for _ in range(2):
        await click(session, "#popup")
    await passed(session, {"act": "switch_page", "value": 2})
    await passed(session, {"act": "switch_page", "value": 0})
    failure = await failed(session, {"act": "switch_page", "value": "Popup"}, within=2)
    assert failure.code == "SELECTOR_AMBIGUOUS"
    assert len(failure.details["pages"]) == 3


@pytest.mark.parametrize(
    ("button", "code", "url", "method"),
    [
        ("#missing", "HTTP_NOT_FOUND", f"http://{SHOP}/status/404", "GET"),
        ("#down", "HTTP_UNAVAILABLE", f"http://{SHOP}/status/503?retry=1", "GET"),
        ("#posted", "HTTP_UNAVAILABLE", f"http://{SHOP}/status/503", "POST"),
        ("#refused", "NET_CONNECTION_REFUSED", f"http://{DEAD}/", "GET"),
    ],
)
@pytest.mark.sampled(1)
async def test_a_page_whose_own_navigation_failed(stage: Stage, button: str, code: str, url: str, method: str) -> None:
    session = await stage.at("/windows")
    await click(session, button)
    failure = await failed(session, {"act": "switch_page", "value": 1}, within=4, patience=2)
    assert (failure.code, failure.details["url"], failure.details["method"]) == (code, url, method)
    assert failure.effect is Effect.DONE
    await passed(session, {"act": "open", "url": f"http://{SHOP}/saved"})
    assert [page.url for page in session.tab.context.pages] == [
        f"http://{SHOP}/windows",
        f"http://{SHOP}/saved",
    ], "it is opened again in the page that failed"


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.thorough
async def test_a_page_that_gets_no_answer(stage: Stage, older: bool) -> None:
    """It is the newest page, also beside one that was opened before and that the task has not turned to."""
    session = await stage.at("/windows")
    if older:
        await session.tab.context.new_page()
    await click(session, "#silent")
    failure = await failed(session, {"act": "switch_page", "value": -1}, within=1, patience=0.3)
    assert (failure.code, failure.effect) == ("NET_TIMEOUT", Effect.NONE)
    assert failure.details["url"] == f"http://{SHOP}/hang"
    assert not failure.tainted


@pytest.mark.thorough
async def test_a_page_that_does_not_answer_itself(stage: Stage) -> None:
    session = await stage.at("/windows")
    # a window without an opener has a process of its own
    await session.tab.page.evaluate("() => { window.open('http://other.test/parse-loop', '_blank', 'noopener') }")
    failure = await failed(session, {"act": "switch_page", "value": 1}, within=2, patience=1)
    assert (failure.code, failure.tainted) == ("PAGE_UNRESPONSIVE", True)
    assert await session.renew(failure, 10) is None
    assert await session.text("h1", None, 2) == "Windows"


@pytest.mark.thorough
async def test_what_happens_in_the_current_page_is_judged_there(stage: Stage) -> None:
    session = await stage.at("/windows")
    await click(session, "#popup")
    await passed(session, {"act": "switch_page", "value": 1})
    await session.tab.page.evaluate(
        "() => { document.body.innerHTML = '<a id=reset href=/reset>x</a><a id=hang href=/hang>x</a>' }"
    )
    broken = await failed(session, {"act": "click", "selector": "#reset"}, within=3)
    assert (broken.code, broken.effect) == ("NET_CONNECTION_RESET", Effect.DONE)
    assert "popups" not in broken.details, "it is the page itself"
    await passed(session, {"act": "switch_page", "value": 0})
    await click(session, "#popup")


async def test_a_page_that_fails_in_the_background_is_judged_when_it_is_turned_to(stage: Stage) -> None:
    session = await stage.at("/windows")
    await click(session, "#popup")
    await passed(session, {"act": "switch_page", "value": 1})
    main = session.tab.context.pages[0]
    async with main.expect_event("framenavigated"):
        await session.tab.page.evaluate("() => { opener.location = '/status/500' }")
    failure = await failed(session, {"act": "switch_page", "value": 0}, within=3)
    assert (failure.code, failure.details["status"]) == ("HTTP_SERVER_ERROR", 500)


async def test_after_a_popup_that_closes_itself_the_task_goes_on_at_its_opener(stage: Stage) -> None:
    session = await stage.at("/windows")
    await session.tab.context.new_page()  # the opener comes before the newest page
    await click(session, "#closer")
    await passed(session, {"act": "switch_page", "value": "Closer"})
    popup = session.tab.page
    session.begin_step(4, lambda _: None)
    await click(session, "#close")
    if not popup.is_closed():
        await popup.wait_for_event("close")
    assert await session.text("h1", None, 20) == "told"
    assert session.closed_pages == ({"closed": f"http://{SHOP}/closer", "went_on_at": f"http://{SHOP}/windows"},)
    assert "/closer" not in " ".join(page.url for page in session.tab.context.pages), "it is not opened again"
    await click(session, "#popup")
    await passed(session, {"act": "switch_page", "value": -1})
    await session.tab.page.wait_for_load_state()
    assert await session.read(PageQuery("title"), 20) == "Popup"


@pytest.mark.parametrize("by", ["itself", "its opener"])
@pytest.mark.sampled(1)
async def test_a_step_that_waits_for_its_element_goes_on_where_the_page_is_closed_meanwhile(
    stage: Stage, by: str
) -> None:
    session = await stage.at("/windows")
    await click(session, "#popup")
    await passed(session, {"act": "switch_page", "value": -1})
    close = "setTimeout(() => close(), 300)"
    if by == "its opener":
        close = "opener.eval('setTimeout(() => last.close(), 300)')"
        await session.tab.page.evaluate("() => { opener.last = window }")
    await session.tab.page.evaluate(f"() => {{ {close} }}")
    await passed(session, {"act": "click", "selector": "#popup"})
    assert session.url == f"http://{SHOP}/windows"
    await until(lambda: len(session.tab.context.pages) == 2)  # the click at the opener opened another popup


@pytest.mark.thorough
async def test_a_key_that_closes_its_page_is_not_pressed_again_elsewhere(stage: Stage) -> None:
    session = await stage.at("/windows")
    await session.tab.page.evaluate("() => { window.keys = 0; addEventListener('keydown', () => { keys++ }) }")
    main = session.tab.page
    await click(session, "#popup")
    await passed(session, {"act": "switch_page", "value": -1})
    await session.tab.page.evaluate("() => { addEventListener('keydown', () => close()) }")
    await passed(session, {"act": "press", "value": "Escape"})
    await passed(session, {"act": "wait", "selector": "h1"})
    assert session.tab.page is main
    assert await main.evaluate("keys") == 0


@pytest.mark.thorough
async def test_a_crash_of_another_page_is_not_this_ones(stage: Stage) -> None:
    session = await stage.at("/windows")
    await session.tab.page.evaluate("() => { window.open('http://other.test/popup', '_blank', 'noopener') }")
    await passed(session, {"act": "switch_page", "value": 1})
    crash = asyncio.ensure_future(session.tab.control.send("Page.crash"))
    failure = await failed(session, {"act": "click", "selector": "#nowhere"}, within=3, patience=2)
    crash.cancel()
    assert (failure.code, failure.tainted) == ("PAGE_CRASHED", True)
    await passed(session, {"act": "switch_page", "value": 0})
    await click(session, "#popup")


@pytest.mark.thorough
async def test_no_page_is_left(stage: Stage) -> None:
    session = await stage.at("/windows")
    await session.tab.page.close()
    failure = await failed(session, {"act": "switch_page", "value": 0}, within=2)
    assert failure.code == "PAGE_CLOSED"


@pytest.mark.thorough
async def test_evidence_is_of_the_current_page(stage: Stage) -> None:
    session = await stage.at("/windows")
    await click(session, "#popup")
    await passed(session, {"act": "switch_page", "value": 1})
    folder = stage.folder / "evidence"
    folder.mkdir()
    evidence = await session.evidence(Capture(), folder)
    assert evidence.url == f"http://{SHOP}/popup"
    assert "<p>popup</p>" in (folder / "dom_snapshot.html").read_text("utf-8")
    assert "/popup" in (folder / "network_logs.har").read_text("utf-8")


async def test_a_screenshot_of_the_page_of_an_element_and_of_a_frame(stage: Stage) -> None:
    session = await stage.at()
    outcome = await passed(session, {"act": "screenshot", "screenshot_id": "whole"})
    assert outcome.details["file"] == "whole.png"
    await passed(session, {"act": "screenshot", "screenshot_id": "whole", "selector": "#plain"})
    await passed(session, {"act": "screenshot", "screenshot_id": "../in", "selector": "#in", "frame": "#inner"})
    await passed(session, {"act": "screenshot", "screenshot_id": "frame", "frame": "#inner"})
    folder = stage.folder / "s0" / "screenshots"
    assert session.files == tuple(folder / name for name in ("whole.png", "whole-2.png", "in.png", "frame.png"))
    widths = [int.from_bytes(path.read_bytes()[16:20], "big") for path in session.files]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in session.files)
    viewport = session.tab.page.viewport_size
    assert viewport is not None
    assert widths[0] == viewport["width"]
    assert max(widths[1:]) < viewport["width"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("step", "code"),
    [
        ({"selector": "#nowhere"}, "ELEMENT_NOT_FOUND"),
        ({"selector": "#hidden"}, "ELEMENT_HIDDEN"),
        ({"selector": "#in", "frame": "#none"}, "FRAME_NOT_FOUND"),
    ],
)
@pytest.mark.sampled(1)
async def test_no_screenshot_of_what_is_not_there(stage: Stage, step: dict[str, Any], code: str) -> None:
    session = await stage.at()
    failure = await failed(session, {"act": "screenshot", "screenshot_id": "x", **step}, within=3)
    assert (failure.code, failure.tainted) == (code, False)
    assert session.files == ()
