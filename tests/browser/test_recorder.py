"""Playwright's recorder hears real input, and what it tells becomes steps whose selectors find the same elements."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from playwright.async_api import Page, Route

from harness.browser.recorder import Recorder
from harness.criteria import PageQuery
from harness.resilience import SystemClock
from harness.spec.recorded.locators import LocatorPart, target_of
from harness.spec.recorded.recording import recorded_task
from harness.spec.recorded.text import TaskText
from tests.browser.stage import SHOP, Stage, passed, perform
from tests.unit.spec.recorded.test_locators import FORMS

HOME = """<!doctype html><title>Shop</title>
<form action=/done method=post>
<label>User <input name=user></label><label>Password <input type=password name=secret></label>
<label><input type=checkbox>Remember me</label>
<select aria-label=Colour><option value=r>Red<option value=g>Green</select>
<input type=file aria-label=Photo multiple><button>Log in</button></form>
<button onclick="out.textContent = confirm('Sure?')">Ask</button><p id=out></p>
<iframe name=pay srcdoc="<label>Card <input></label>"></iframe>
<a href=/help target=_blank>Help</a><a href=/file download=bill.txt>Bill</a>
"""


async def serve(route: Route) -> None:
    path = route.request.url.partition("/")[2].partition("/")[2].partition("/")[2]
    if path == "file":
        await route.fulfill(body="a bill", headers={"Content-Disposition": "attachment; filename=bill.txt"})
    elif path == "help":
        await route.fulfill(content_type="text/html", body="<title>Help</title><button>More help</button>")
    else:
        await route.fulfill(content_type="text/html", body=HOME)


class Hand:
    """Does what a person does: it moves the mouse and presses keys."""

    def __init__(self, page: Page, recorder: Recorder) -> None:
        self.page, self.recorder = page, recorder
        self.heard = 0
        recorder.heard = lambda _: self._count()

    def _count(self) -> None:
        self.heard += 1

    async def click(self, selector: str, page: Page | None = None) -> None:
        """Click, and wait until the recorder has told it."""
        before, on = self.heard, page or self.page
        box = await on.locator(selector).first.bounding_box()
        assert box is not None
        await on.mouse.click(box["x"] + 4, box["y"] + box["height"] / 2)
        await until(lambda: self.heard > before)

    async def type(self, selector: str, text: str) -> None:
        await self.click(selector)
        await self.page.keyboard.type(text)


async def until(holds: Callable[[], bool], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.02)


async def recorded(stage: Stage, acts: Callable[[Hand], Awaitable[None]]) -> TaskText:
    session = await stage.session(recording="minimal")
    await session.tab.context.route(f"http://{SHOP}/**", serve)
    recorder = Recorder(SystemClock())
    await recorder.attach(session.tab)
    await passed(session, {"act": "open", "url": f"http://{SHOP}/"})
    await until(lambda: "navigate" in [event.data["name"] for event in recorder.events])
    await acts(Hand(session.tab.page, recorder))
    return recorded_task(recorder.recording(), f"http://{SHOP}/", {"task_id": "T"})[0]


def test_real_input_becomes_steps(run: Any, stage: Stage) -> None:
    async def person(hand: Hand) -> None:
        await hand.type("[name=user]", "ann")
        await hand.page.keyboard.press("Tab")
        await hand.page.keyboard.type("s3cret-word")
        await hand.click("label:has-text('Remember me')")
        await hand.page.select_option("select", "g")
        await hand.page.set_input_files(
            "[type=file]", [{"name": n, "mimeType": "text/plain", "buffer": b"x"} for n in "ab"]
        )
        control = await hand.page.context.new_cdp_session(hand.page)
        await control.send("Page.enable")
        control.on("Page.javascriptDialogOpening", lambda _: asyncio.ensure_future(
            control.send("Page.handleJavaScriptDialog", {"accept": False})))  # fmt: skip
        await hand.click("text=Ask")
        await until(lambda: bool(hand.recorder.events[-1].effects.dialogs))
        await hand.click("text=Bill")
        await until(lambda: hand.recorder.events[-1].effects.download is not None)
        card = await hand.page.frame_locator("iframe").locator("input").bounding_box()
        assert card is not None
        await hand.page.mouse.click(card["x"] + 4, card["y"] + 4)
        await hand.page.keyboard.type("42")
        await hand.click("text=Help")
        await until(lambda: len(hand.page.context.pages) == 2)
        await hand.page.context.pages[1].wait_for_load_state()
        await hand.click("button", hand.page.context.pages[1])
        await hand.page.bring_to_front()
        await hand.click("[name=user]")
        await hand.page.keyboard.press("Enter")
        await until(lambda: "done" in hand.page.url and bool(hand.recorder.events[-1].effects.sent))

    async def body() -> None:
        text = await recorded(stage, person)
        assert "s3cret-word" not in str(text)
        assert [step.keys for step in text.steps] == [
            {"act": "open", "url": "http://shop.test/"},
            {"act": "type", "selector": 'role=textbox[name="User"]', "value": "ann"},
            {"act": "type", "selector": 'role=textbox[name="Password"]', "value": "${env:SECRET}"},
            {"act": "check", "selector": 'role=checkbox[name="Remember me"]'},
            {"act": "select", "selector": 'role=combobox[name="Colour"]', "value": "g"},
            {"act": "upload", "selector": 'role=button[name="Photo"]', "value": ["a", "b"]},
            {"act": "dialog", "value": "dismiss", "message": "Sure?"},
            {"act": "click", "selector": 'role=button[name="Ask"]'},
            {"act": "download", "selector": 'role=link[name="Bill"]', "value": "bill.txt"},
            {"act": "type", "selector": 'role=textbox[name="Card"]', "frame": 'iframe[name="pay"]', "value": "42"},
            {"act": "click", "selector": 'role=link[name="Help"]'},
            {"act": "switch_page", "value": -1},
            {"act": "click", "selector": 'role=button[name="More help"]'},
            {"act": "switch_page", "value": 0},
            {"act": "click", "selector": 'role=textbox[name="User"]'},
            {"act": "press", "selector": 'role=textbox[name="User"]', "value": "Enter", "effect": "write"},
        ]
        assert text.criteria == ("url() includes '/done'",)
        assert text.keys["allowed_domains"] == ["shop.test"]

    run(body())


def test_a_password_that_was_corrected_is_in_no_file_either(run: Any, stage: Stage) -> None:
    async def person(hand: Hand) -> None:
        await hand.type("[name=secret]", "1-wrong-word")
        await hand.type("[name=user]", "1")
        await hand.click("[name=secret]")
        await hand.page.keyboard.press("Control+a")
        await hand.page.keyboard.type("right-word")

    async def body() -> None:
        text = await recorded(stage, person)
        assert "-word" not in str(text)
        typed = [step.keys["value"] for step in text.steps if step.keys["act"] == "type"]
        assert typed == ["${env:SECRET}", "1", "${env:SECRET_2}"]

    run(body())


@pytest.mark.thorough
def test_closing_the_last_page_ends_the_recording_and_keeps_it(run: Any, stage: Stage) -> None:
    async def person(hand: Hand) -> None:
        await hand.click("[name=user]")
        await hand.page.close()
        await asyncio.wait_for(hand.recorder.wait(), 20)

    async def body() -> None:
        text = await recorded(stage, person)
        assert [step.keys["act"] for step in text.steps] == ["open", "click"]

    run(body())


SHOWN = """<!doctype html><button id=buy data-testid=x>Buy</button><h2>Buy now</h2><img alt="A pic"><p>a &gt;&gt; b</p>
<label>User<input placeholder='Your "name"'></label>"""


async def test_each_form_of_a_selector_finds_its_element(stage: Stage) -> None:
    session = await stage.at()
    await session.tab.page.set_content(SHOWN)
    found = {selector: await session.read(PageQuery("count", selector), 5) for selector in FORMS}
    assert all(count in (1, 2) for count in found.values()), found
    row = (LocatorPart("css", "body, main"), LocatorPart("has-text", "Buy now"), LocatorPart("nth", "0"))
    assert await session.read(PageQuery("visible", target_of(row).selector), 5)
    await perform(session, {"act": "click", "selector": 'role=button[name="Buy"]'})
