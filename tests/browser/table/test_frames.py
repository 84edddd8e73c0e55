"""Failure table 2.6: frames, dialogs, popups, pages that are closed or left."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.browser import PlaywrightSession
from harness.recovery.catalog import Effect
from tests.browser.stage import SHOP
from tests.browser.table.case import PRESENT, Case, Step, judge
from tests.browser.table.strikes import all_struck, during
from tests.browser.table.table_stage import TableStage
from tests.browser.table.troubled_pages import at

NOTHING, UNSURE = Effect.NONE, Effect.POSSIBLE
SHORT: dict[str, Any] = {"within": 0.8, "patience": 0.4}
TURN: Step = {"act": "switch_page", "value": -1}
DISMISS: Step = {"act": "dialog", "value": "dismiss"}


def site(path: str) -> Step:
    return {"act": "open", "url": f"http://{SHOP}{path}"}


def inside(name: str, step: Step, code: str, message: str, **expected: Any) -> Case:
    wanted = {"effect": NOTHING, **SHORT} | expected
    return Case(f"2.6-{name}", (at("frames"), step), code, message=message, **wanted)


def asked(name: str, *steps: Step, **expected: Any) -> Case:
    """A page whose dialogs come without end, each answered at once."""
    wanted = {"details": {"dialogs": PRESENT}, "message": "an open dialog blocks the page", **SHORT} | expected
    return Case(f"2.6-{name}", steps, "DIALOG_BLOCKED", tainted=True, **wanted)


def without_page(name: str, step: Step, **expected: Any) -> Case:
    wanted = {"effect": NOTHING, "message": "no other page is", "details": {"pages": PRESENT}, **SHORT} | expected
    return Case(f"2.6-{name}", (at("processes"), step), "ELEMENT_NOT_FOUND", **wanted)


async def remove_frame(session: PlaywrightSession) -> None:
    await session.tab.page.evaluate("document.getElementById('inner').remove()")


async def close_itself(session: PlaywrightSession) -> None:
    """A popup closes its own window."""
    async with session.tab.page.expect_event("close", timeout=5000):
        await session.tab.page.evaluate("setTimeout(() => window.close(), 0)")


async def asking(session: PlaywrightSession) -> None:
    """Until the page's dialogs come without end."""
    while not session.tab.watch.blocked:
        await asyncio.sleep(0.02)


CLICK_IN: Step = {"act": "click", "selector": "button", "frame": "#inner"}
CASES = (
    inside(
        "frame-missing-click",
        {"act": "click", "selector": "button", "frame": "#no"},
        "FRAME_NOT_FOUND",
        "no frame matches #no (looked for 0.4s)",
        fast=True,
    ),
    inside(
        "frame-missing-type",
        {"act": "type", "selector": "input", "value": "x", "frame": "#no"},
        "FRAME_NOT_FOUND",
        "no frame matches #no",
    ),
    inside(
        "frame-missing-in-a-frame",
        {"act": "click", "selector": "button", "frame": "#inner >>> #no"},
        "FRAME_NOT_FOUND",
        "no frame matches #no",
    ),
    inside(
        "frame-missing-wait",
        {"act": "wait", "selector": "button", "frame": "#no"},
        "STEP_TIMEOUT",
        "wait for button exceeded 0.8s: no frame matches #no",
    ),
    inside(
        "element-missing-in-a-frame",
        {"act": "click", "selector": "#missing", "frame": "#inner"},
        "ELEMENT_NOT_FOUND",
        "no element matches #missing",
    ),
    inside(
        "element-missing-in-a-frame-wait",
        {"act": "wait", "selector": "#missing", "frame": "#inner"},
        "STEP_TIMEOUT",
        "wait for #missing exceeded 0.8s: no element matches",
    ),
    inside(
        "no-frame-at-all",
        {"act": "click", "selector": "button", "frame": "#text"},
        "INVALID_INPUT",
        "<iframe> was expected",
    ),
    inside(
        "frame-ambiguous",
        {"act": "click", "selector": "button", "frame": ".twin"},
        "SELECTOR_AMBIGUOUS",
        "the frame .twin matches 2 elements",
        details={"count": 2, "matches": PRESENT},
    ),
    inside(
        "covered-in-a-frame",
        {"act": "click", "selector": "#under", "frame": "#covered"},
        "ELEMENT_COVERED",
        '#under is covered by <div id="veil"',
        details={"covered_by": PRESENT},
    ),
    inside("frame-removed-before", CLICK_IN, "FRAME_NOT_FOUND", "no frame matches #inner", before=remove_frame),
    inside(
        "frame-removed-during",
        {"act": "click", "selector": "#missing", "frame": "#inner"},
        "FRAME_NOT_FOUND",
        "no frame matches #inner",
        before=during(remove_frame),
        within=1.2,
        patience=1.0,
    ),
    asked("alert", at("dialogs"), {"act": "click", "selector": "#alert"}, effect=UNSURE),
    asked("confirm", at("dialogs"), {"act": "click", "selector": "#confirm"}, effect=UNSURE),
    asked("prompt", at("dialogs"), {"act": "click", "selector": "#prompt"}, effect=UNSURE),
    asked("alert-on-load", at("alerts-on-load"), message="an open dialog blocks the page: open"),
    asked(
        "act-while-asked",
        at("dialogs"),
        {"act": "click", "selector": "#soon"},
        {"act": "type", "selector": "#field", "value": "x"},
        before=asking,
    ),
    asked(
        "wait-while-asked",
        at("dialogs"),
        {"act": "click", "selector": "#soon"},
        {"act": "wait", "selector": "#missing"},
        before=asking,
        effect=NOTHING,
    ),
    Case(
        "2.6-beforeunload-dismissed",
        (site("/leaving"), {"act": "click", "selector": "#x"}, DISMISS, site("/saved")),
        "DIALOG_BLOCKED",
        NOTHING,
        message="/leaving asked whether to leave the page, and the answer was to stay: open",
        details={"dialogs": PRESENT},
        then={"act": "type", "selector": "#x", "value": "x"},
    ),
    without_page("no-popup", TURN, fast=True),
    without_page("no-popup-at-this-address", {"act": "switch_page", "url": "*/popup"}),
    without_page("no-popup-of-this-title", {"act": "switch_page", "value": "Popup"}),
    Case(
        "2.6-popup-that-never-answers",
        (site("/windows"), {"act": "click", "selector": "#silent"}, TURN),
        "NET_TIMEOUT",
        message="which a new page was opening",
        **SHORT,
    ),
    Case(
        "2.6-popup-that-hangs",
        (site("/windows"), {"act": "click", "selector": "#looping"}, TURN, {"act": "wait", "selector": "#missing"}),
        "PAGE_UNRESPONSIVE",
        NOTHING,
        tainted=True,
        **SHORT,
    ),
    Case(
        "2.6-page-closed-by-its-script",
        (site("/windows"), {"act": "click", "selector": "#popup"}, TURN, {"act": "click", "selector": "#only-in-it"}),
        "ELEMENT_NOT_FOUND",
        NOTHING,
        before=close_itself,
        **SHORT,
    ),
)


async def test_frame(stage: TableStage, case: Case) -> None:
    try:
        await judge(stage, case)
    finally:
        await all_struck()
