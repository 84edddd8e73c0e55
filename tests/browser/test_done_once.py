"""An act that was done is not done again: its state is looked for, and a failure says that it was done."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Locator
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.criteria import PageQuery
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure
from tests.browser.moments import until
from tests.browser.stage import Stage, failed, passed

pytestmark = pytest.mark.filterwarnings("default")
BOX = """(late) => {
  const box = document.createElement('div');
  Object.assign(box, {id: 'box', role: 'checkbox', textContent: 'Box', ariaChecked: 'false', clicks: 0});
  const tick = () => { box.ariaChecked = 'true' };
  box.onclick = () => { box.dataset.clicks = ++box.clicks; if (late >= 0) setTimeout(tick, late) };
  document.body.prepend(box);
}"""


@pytest.mark.thorough
async def test_a_box_that_a_script_ticks_later_is_clicked_once(stage: Stage) -> None:
    session = await stage.at()
    await session.tab.page.evaluate(BOX, 400)
    await passed(session, {"act": "check", "selector": "#box"})
    await passed(session, {"act": "check", "selector": "#box"})
    assert await session.read(PageQuery("attr", "#box", "data-clicks"), 5) == "1"


async def test_a_box_that_does_not_change_was_clicked(stage: Stage) -> None:
    session = await stage.at()
    await session.tab.page.evaluate(BOX, -1)
    failure = await failed(session, {"act": "check", "selector": "#box"}, within=8, patience=0.5)
    assert (failure.code, failure.effect) == ("ACTION_FAILED", Effect.DONE)
    assert failure.message == "#box was clicked, and is still unchecked"
    assert await session.read(PageQuery("attr", "#box", "data-clicks"), 5) == "1"


def test_an_act_that_was_performed_just_as_its_time_ended_is_not_tried_again(
    run: Any, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Playwright no longer writes into its log what it does then; the request that leaves tells."""
    click, calls = Locator.click, list[int]()

    async def late(self: Locator, **keys: Any) -> None:
        calls.append(1)
        await click(self, **{**keys, "timeout": 5000})
        await until(lambda: stage.site.hits.get("/echo", 0) > 0)
        log = "waiting for locator\nlocator resolved to <button>\nattempting click action\ndone scrolling"
        raise PlaywrightTimeoutError(f"Locator.click: Timeout 500ms exceeded.\nCall log:\n{log}\n")

    async def body() -> Failure:
        session = await stage.at("/saved")
        await session.tab.page.set_content("<button id=b>Buy</button>")
        await session.tab.page.evaluate("() => { b.onclick = () => fetch('/echo', {method: 'POST'}) }")
        monkeypatch.setattr(Locator, "click", late)
        return await failed(session, {"act": "click", "selector": "#b"}, 5, 2)

    failure = run(body())
    assert (failure.code, failure.effect, len(calls)) == ("STEP_TIMEOUT", Effect.POSSIBLE, 1)
