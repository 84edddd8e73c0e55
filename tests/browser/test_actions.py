"""Every act, in real Chromium."""

from __future__ import annotations

from typing import Any

import pytest

from harness.criteria import PageQuery
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure, Passed
from harness.spec.steps import Wait
from tests.browser.stage import Stage, failed, passed, perform

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize(
    ("step", "function", "selector", "expected"),
    [
        ({"act": "click", "selector": "#plain"}, "text", "#out", "clicked"),
        ({"act": "click", "selector": "text=Plain"}, "text", "#out", "clicked"),
        ({"act": "click", "selector": "//button[@id='plain']"}, "text", "#out", "clicked"),
        ({"act": "click", "selector": "role=button[name='Plain']"}, "text", "#out", "clicked"),
        ({"act": "click", "selector": "#busy"}, "text", "#out", "was busy"),
        ({"act": "type", "selector": "#name", "value": 42}, "value", "#name", "42"),
        ({"act": "type", "selector": "#date", "value": "2024-02-29"}, "value", "#date", "2024-02-29"),
        ({"act": "type", "selector": "#editable", "value": "rich"}, "text", "#editable", "rich"),
        ({"act": "select", "selector": "#colour", "value": "g"}, "value", "#colour", "g"),
        ({"act": "select", "selector": "#colour", "value": "Green"}, "value", "#colour", "g"),
        ({"act": "select", "selector": "#many", "value": ["a", "C"]}, "count", "#many option:checked", 2),
        ({"act": "check", "selector": "#agree"}, "count", "#agree:checked", 1),
        ({"act": "submit", "selector": "#form"}, "title", None, "Saved"),
        ({"act": "submit", "selector": "#name"}, "title", None, "Saved"),
        ({"act": "submit", "selector": "#send"}, "title", None, "Saved"),
        ({"act": "click", "selector": "#next"}, "title", None, "Saved"),
        ({"act": "press", "selector": "#name", "value": "Enter"}, "title", None, "Saved"),
        ({"act": "wait", "selector": ".dup", "value": "two"}, "count", ".dup", 2),
        ({"act": "click", "selector": "#covered", "force": True}, "text", "#out", "nothing"),
    ],
)
@pytest.mark.sampled(3)
async def test_act(stage: Stage, step: dict[str, Any], function: str, selector: str | None, expected: Any) -> None:
    session = await stage.at()
    await passed(session, step)
    assert await session.read(PageQuery(function, selector), 2) == expected


async def test_press_on_the_page_and_scroll(stage: Stage) -> None:
    session = await stage.at()
    page = session.tab.page
    await passed(session, {"act": "scroll", "value": 500})
    assert await page.evaluate("scrollY") == 500
    await passed(session, {"act": "scroll"})
    assert await page.evaluate("scrollY") > 1000
    await passed(session, {"act": "scroll", "selector": ".dup"})
    assert await page.evaluate("scrollY") < 1000
    await passed(session, {"act": "press", "value": "Tab"})
    assert await page.evaluate("document.activeElement.tagName") != "BODY"


@pytest.mark.thorough
async def test_act_in_a_frame(stage: Stage) -> None:
    session = await stage.at()
    await passed(session, {"act": "click", "selector": "#in", "frame": "#inner"})
    assert await session.text("#in", "#inner", 1) == "pressed"


@pytest.mark.thorough
async def test_wait_sees_what_comes_later(stage: Stage) -> None:
    session = await stage.at()
    await passed(session, {"act": "click", "selector": "#late"})
    await passed(session, {"act": "wait", "selector": "#appeared", "value": "Order 17"})


async def test_wait_of_seconds_ends_with_the_step(stage: Stage) -> None:
    session = await stage.session()
    await passed(session, {"act": "wait", "value": 0.1})
    long = Wait(value=30)
    failure = await session.perform(long, 0.2, 0.2)
    assert isinstance(failure, Failure)
    assert (failure.code, failure.tainted) == ("STEP_TIMEOUT", False)
    assert failure.message == f"Step timeout: {long.describe()} exceeded 0.2s"


async def test_element_may_come_late_and_be_ready_later_still(stage: Stage) -> None:
    session = await stage.at()
    page = session.tab.page
    await page.evaluate("() => { setTimeout(() => { disabled.disabled = false }, 900) }")
    await passed(session, {"act": "click", "selector": "#disabled"}, within=15, patience=0.3)
    await page.evaluate("() => { plain.onclick = () => { window.n = (window.n || 0) + 1 } }")
    await passed(session, {"act": "click", "selector": "#plain"}, within=15, patience=0.3)
    assert await page.evaluate("window.n") == 1


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("selector", "code"), [("#plain", None), (".dup", "SELECTOR_AMBIGUOUS"), ("#nowhere", "ELEMENT_NOT_FOUND")]
)
@pytest.mark.sampled(1)
async def test_a_page_that_was_too_busy_to_tell_what_is_there_is_asked_again(
    stage: Stage, selector: str, code: str | None
) -> None:
    """Its script holds it up for a little longer than an element is looked for."""
    session = await stage.at()
    await session.tab.page.evaluate(
        "() => { setTimeout(() => { const until = Date.now() + 450; while (Date.now() < until); }) }"
    )
    outcome = await perform(session, {"act": "click", "selector": selector}, within=15, patience=0.3)
    assert (outcome.code if isinstance(outcome, Failure) else None) == code, outcome


async def test_a_click_is_not_repeated_while_its_consequences_last(stage: Stage) -> None:
    session = await stage.at()
    page = session.tab.page
    await page.evaluate("() => { busy.addEventListener('click', () => { window.n = (window.n || 0) + 1 }) }")
    await passed(session, {"act": "click", "selector": "#busy"}, within=15, patience=0.3)
    assert await page.evaluate("window.n") == 1


HELD_UP = """([selector, event]) => document.querySelector(selector).addEventListener(event, () => {
    window.n = (window.n || 0) + 1; const until = Date.now() + 1200; while (window.n == 1 && Date.now() < until); })"""


@pytest.mark.parametrize("effect", ["write", "idempotent"])
@pytest.mark.parametrize(
    ("act", "selector", "value", "event"),
    [
        ("type", "#name", "x", "input"),
        ("select", "#colour", "g", "change"),
        ("upload", "#file", "a.txt", "change"),
    ],
)
@pytest.mark.sampled(1)
async def test_an_act_of_which_nothing_is_said_is_not_repeated_when_it_writes(
    stage: Stage, act: str, selector: str, value: str, event: str, effect: str
) -> None:
    """What the page does about it holds it up for longer than the element is looked for."""
    (stage.folder / "a.txt").write_text("A")
    session = await stage.at()
    page = session.tab.page
    await page.evaluate(HELD_UP, [selector, event])
    step = {"act": act, "selector": selector, "value": value, "effect": effect}
    outcome = await perform(session, step, within=15, patience=0.4)
    if effect == "write":
        assert isinstance(outcome, Failure)
        assert (outcome.effect, await page.evaluate("window.n")) == (Effect.POSSIBLE, 1)
    else:
        assert isinstance(outcome, Passed), outcome


async def test_what_heals_a_missing_element_is_described(stage: Stage) -> None:
    session = await stage.at()
    await failed(session, {"act": "type", "selector": "#nome", "value": "x"}, patience=0.2)
    healed = await passed(session, {"act": "type", "selector": "#name", "value": "x"})
    assert healed.details["element"] == {"tag": "input", "role": "textbox", "name": "Your name"}
    assert "element" not in (await passed(session, {"act": "click", "selector": "#plain"})).details
