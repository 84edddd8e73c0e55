"""Failure table 2.7: scripts that throw, navigate away, or never end while the page is read."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from harness.browser import PlaywrightSession
from harness.criteria import PageQuery
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed
from tests.browser.moments import LOADED, stretched
from tests.browser.stage import SHOP, passed, perform
from tests.browser.table.asserting import last
from tests.browser.table.case import Case, Step, compare
from tests.browser.table.strikes import crash_page, kill_browser, spin, stop_browser
from tests.browser.table.table_stage import TableStage
from tests.browser.table.troubled_pages import at

NOTHING, UNSURE = Effect.NONE, Effect.POSSIBLE
OVERSHOOT = 0.5


def says(name: str, step: Step, code: str, message: str, path: str = "elements", **expected: Any) -> Case:
    wanted = {"effect": NOTHING, "within": 1.0, "patience": 0.5} | expected
    return Case(f"2.7-{name}", (at(path), {"act": "assert", **step}), code, message=message, **wanted)


CASES = (
    says(
        "text-differs",
        {"selector": "#text", "value": "bye"},
        "ASSERTION_FAILED",
        "#text: actual value = 'hello', expected 'bye'",
        fast=True,
    ),
    says("title-differs", {"expr": "title() == 'Home'"}, "ASSERTION_FAILED", "title() == 'Home'"),
    says("criterion-of-a-missing-element", {"expr": "exists('#missing')"}, "ASSERTION_FAILED", "exists('#missing')"),
    says("assert-of-a-missing-element", {"selector": "#missing", "value": "x"}, "ELEMENT_NOT_FOUND", "#missing"),
    says(
        "assert-in-a-missing-frame",
        {"selector": "#x", "frame": "#no", "value": "x"},
        "FRAME_NOT_FOUND",
        "no frame matches #no",
    ),
    says(
        "bad-css-in-a-criterion",
        {"expr": "exists('div:nth-child(x)')"},
        "INVALID_INPUT",
        "not a valid selector",
    ),
    says("bad-xpath-in-a-criterion", {"expr": "text('//div[') == 'x'"}, "INVALID_INPUT", "not a valid XPath"),
    says("bad-engine-in-a-criterion", {"expr": "count('foo=bar') == 1"}, "INVALID_INPUT", 'Unknown engine "foo"'),
    says(
        "criterion-that-never-comes-true",
        {"expr": "EVENTUALLY(exists('#missing'))"},
        "ASSERTION_FAILED",
        "EVENTUALLY(exists('#missing'))",
    ),
    says("page-goes-on-while-it-is-read", {"expr": "text('#n') == 'never'"}, "ASSERTION_FAILED", "#n", path="restless"),
    says(
        "submit-that-hangs",
        {"act": "submit", "selector": "#form"},
        "PAGE_UNRESPONSIVE",
        "the page stopped answering: submit #form",
        path="submitting",
        effect=UNSURE,
        tainted=True,
    ),
    says(
        "form-without-an-answer",
        {"act": "submit", "selector": "#silent"},
        "NET_TIMEOUT",
        "no answer from",
        path="submitting",
        effect=None,
        details={"method": "POST"},
    ),
    says(
        "unknown-key-in-a-form",
        {"act": "press", "selector": "#leaving", "value": "Foo"},
        "INVALID_INPUT",
        "Unknown key",
        path="submitting",
    ),
)


async def test_script(stage: TableStage, case: Case) -> None:
    session = await stage.session()
    await passed(session, dict(case.steps[0]))
    compare(await last(session, dict(case.steps[1]), round(stretched(case.within)), case.patience), case)


Strike = Callable[[PlaywrightSession], Awaitable[object]]


@pytest.mark.parametrize(
    ("strike", "code"),
    [(spin, "PAGE_UNRESPONSIVE"), (crash_page, "PAGE_CRASHED"), (kill_browser, "BROWSER_CRASHED")],
    ids=["spinning", "crashed", "killed"],
)
@pytest.mark.parametrize("sight", ["observe", "save", "title", "url"])
@pytest.mark.sampled(1)
async def test_a_page_that_is_lost_while_it_is_looked_at(
    stage: TableStage, strike: Strike, code: str, sight: str
) -> None:
    """An agent's look, a checkpoint, a criterion: the loss is told as what it is, and in time."""
    session = await stage.at("/table/processes")
    await strike(session)
    within = stretched(1)
    looks: dict[str, Callable[[], Awaitable[object]]] = {
        "observe": lambda: session.observe(within, screenshot=True),
        "save": lambda: session.save(within),
        "title": lambda: session.read(PageQuery("title"), within),
        "url": lambda: session.read(PageQuery("url"), within),
    }
    began = time.monotonic()
    if (sight, code) == ("url", "PAGE_UNRESPONSIVE"):  # which is known without asking the page
        assert await looks[sight]() == f"http://{SHOP}/table/processes"
        return
    with pytest.raises(Failed) as raised:
        await looks[sight]()
    assert raised.value.failure.code == code, raised.value.failure
    assert time.monotonic() - began <= within + OVERSHOOT + LOADED
    await session.tab.freed(0.3)


@pytest.mark.thorough
async def test_a_stopped_browser_while_it_is_observed(stage: TableStage) -> None:
    session = await stage.at("/table/processes")
    await stop_browser(session)
    began = time.monotonic()
    with pytest.raises(Failed) as raised:
        await session.observe(1, screenshot=False)
    assert raised.value.failure.code == "BROWSER_UNRESPONSIVE"
    assert time.monotonic() - began <= 1 + OVERSHOOT + LOADED


@pytest.mark.thorough
async def test_a_busy_page_is_not_one_that_hangs(stage: TableStage) -> None:
    """It answers every 0.2 s or so: whatever fails there is told as what it is."""
    session = await stage.at("/table/heavy")
    codes = []
    for step in ({"act": "click", "selector": "#missing"}, {"act": "wait", "selector": "#missing"}) * 3:
        outcome = await perform(session, step, 1.2, 0.6)
        codes.append(getattr(outcome, "code", "passed"))
    assert codes == ["ELEMENT_NOT_FOUND", "STEP_TIMEOUT"] * 3
