"""Failure table 2.4: while a step goes on, pages crash and hang, a browser or a driver is killed or stopped.

Each case says within which time its last step ends: its limit, and half a second.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from harness.browser import Browsers
from harness.model.browser_settings import BrowserSettings
from harness.recovery.catalog import Effect
from harness.resilience import SystemClock
from tests.browser.moments import LOADED
from tests.browser.stage import SHOP, passed
from tests.browser.table.asserting import last
from tests.browser.table.case import SETTLED, Case, Step, compare
from tests.browser.table.strikes import (
    Strike,
    all_struck,
    close_page,
    crash_page,
    during,
    end_browser,
    kill_browser,
    kill_driver,
    kill_renderers,
    open_crash_page,
    spin,
    stop_browser,
)
from tests.browser.table.table_stage import TableStage
from tests.browser.table.troubled_pages import at

OVERSHOOT = 0.5
FREE_SECONDS = 0.3
SMALL_HEAP = "--js-flags=--max-old-space-size=50"
"""A heap of 50 MB is full at once."""
UNSURE, NOTHING = Effect.POSSIBLE, Effect.NONE
WITHIN = 1.0
PAGE = at("processes")
CLICK: Step = {"act": "click", "selector": "#slow"}
TYPE: Step = {"act": "type", "selector": "#missing", "value": "x"}
WAIT: Step = {"act": "wait", "selector": "#missing"}
SILENT: Step = {"act": "open", "url": f"http://{SHOP}/hang"}
ASSERT: Step = {"act": "assert", "selector": "#missing", "value": "hello"}
READ: Step = {"act": "assert", "expr": "EVENTUALLY(exists('#missing'))"}
ONCE: Step = {"act": "assert", "expr": "text('#text') == 'hello'"}
STEPS = {"click": CLICK, "type": TYPE, "wait": WAIT, "open": SILENT, "assert": ASSERT, "criterion": READ}
FAST = {"page-crash-click", "renderer-killed-wait", "browser-killed-criterion", "browser-stopped-assert"}


@pytest.fixture(scope="module")
def browsers(run: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    """Of this module alone: they do not live long."""

    async def make() -> Browsers:
        return Browsers(BrowserSettings(args=(SMALL_HEAP,)), SystemClock(), temp=tmp_path_factory.mktemp("p"))

    browsers = run(make())
    yield browsers
    run(browsers.close())


def struck(name: str, strike: Strike, act: str, code: str, **expected: Any) -> Case:
    """A case whose last step is under way when the strike comes."""
    unlogged = act in ("click", "type") and code in (GONE, LOST)  # their errors may come without a call log
    effect = None if unlogged else UNSURE if act == "open" else NOTHING
    wanted = {"effect": effect, "within": WITHIN, "patience": WITHIN} | expected
    label = f"{name}-{act}"
    return Case(f"2.4-{label}", (PAGE, STEPS[act]), code, before=strike, tainted=True, fast=label in FAST, **wanted)


def hung(name: str, step: Step, **expected: Any) -> Case:
    wanted = {"within": WITHIN, "patience": WITHIN, "fast": name in FAST} | expected
    return Case(f"2.4-{name}", (PAGE, step), "PAGE_UNRESPONSIVE", tainted=True, **wanted)


CRASHED, GONE, STOPPED, LOST, HUNG = (
    "PAGE_CRASHED",
    "BROWSER_CRASHED",
    "BROWSER_UNRESPONSIVE",
    "DRIVER_GONE",
    "PAGE_UNRESPONSIVE",
)
LONG = {"within": 4.0, "patience": 4.0}
BEFORE = {"effect": NOTHING}
CASES = (
    *(struck("page-crash", during(crash_page), act, CRASHED, **LONG) for act in STEPS if act != "open"),
    *(struck("crash-url", during(open_crash_page), act, CRASHED, **LONG) for act in ("click", "open", "wait")),
    *(struck("renderer-killed", during(kill_renderers), act, CRASHED, **LONG) for act in STEPS),
    *(struck("crashed-before", crash_page, act, CRASHED, **LONG | BEFORE) for act in STEPS),
    *(struck("browser-killed", during(kill_browser), act, GONE, **LONG) for act in STEPS),
    *(struck("browser-ended", during(end_browser), act, GONE, **LONG) for act in ("click", "criterion")),
    *(
        struck("killed-before", kill_browser, act, GONE, **LONG | BEFORE)
        for act in ("click", "assert", "criterion", "open")
    ),
    *(struck("browser-stopped", stop_browser, act, STOPPED) for act in STEPS),
    *(struck("driver-killed", during(kill_driver), act, LOST, **LONG) for act in ("click", "wait", "criterion")),
    *(struck("spinning", spin, act, HUNG) for act in ("click", "type", "wait", "assert", "criterion")),
    *(struck("page-closed", during(close_page), act, "PAGE_CLOSED", **LONG) for act in STEPS),
    *(
        struck("closed-before", close_page, act, "PAGE_CLOSED", **LONG | BEFORE)
        for act in ("click", "open", "criterion")
    ),
    hung("loop-click", {"act": "click", "selector": "#loop"}, effect=UNSURE),
    hung("loop-while-parsing", at("parse"), effect=UNSURE),
    Case(
        "2.4-loop-by-a-timer-of-a-click",
        (PAGE, {"act": "click", "selector": "#later"}, WAIT),
        HUNG,
        NOTHING,
        tainted=True,
        within=2.0,
    ),
    Case(
        "2.4-heap-full",
        (PAGE, {"act": "click", "selector": "#hoard"}),
        CRASHED,
        UNSURE,
        tainted=True,
        within=10,
        patience=10,
    ),
)


async def play(stage: TableStage, case: Case) -> None:
    """As `judge`; the last step is timed, and may be an assertion."""
    session = await stage.session(**case.options)
    for step in case.steps[:-1]:
        await passed(session, dict(step), within=SETTLED)
    if case.before is not None:
        await case.before(session)
    began = time.monotonic()
    try:
        failure = await last(session, dict(case.steps[-1]), case.within, case.patience)
    finally:
        spent = time.monotonic() - began
        await all_struck()
        await session.tab.freed(FREE_SECONDS)  # a page that hangs takes its time to close
    compare(failure, case)
    assert spent <= case.within + OVERSHOOT + LOADED, failure


def test_process(run: Any, stage: TableStage, case: Case) -> None:
    run(play(stage, case))
