"""Failure table 2.3: navigations that something else ended. Chromium has one word for all of it: ERR_ABORTED."""

from __future__ import annotations

from typing import Any

from harness.browser import PlaywrightSession
from harness.recovery.catalog import Effect
from tests.browser.stage import DEAD
from tests.browser.table.case import Case, judge
from tests.browser.table.table_stage import TableStage
from tests.browser.table.test_navigation import FINE, SITE, clicked, opened

LEAVING = (*opened("/leaving"), {"act": "press", "selector": "#x", "value": "a"})
STAY = {"act": "dialog", "value": "dismiss"}


async def leads_on(session: PlaywrightSession) -> None:
    """Its page goes on by itself, soon after the last step has begun to open another."""
    await session.tab.page.evaluate("setTimeout(() => location = '/', 400)")


CASES = (
    Case("2.3-superseded", (*opened("/links"), *opened("/hang")), "NAVIGATION_INTERRUPTED", Effect.POSSIBLE,
         {"url": f"{SITE}/"}, f"went to {SITE}/ instead", before=leads_on, then={"act": "wait", "selector": "#ok"},
         within=3, fast=True),
    Case("2.3-page-closed", (*clicked("popup-closes"), {"act": "switch_page", "value": -1}, *opened("/hang")),
         "NET_TIMEOUT", Effect.POSSIBLE, {"url": f"{SITE}/hang"}, within=3),
    Case("2.3-beforeunload-open", (*LEAVING, STAY, FINE), "DIALOG_BLOCKED", Effect.NONE, {"url": f"{SITE}/leaving"},
         "the answer was to stay", then={"act": "wait", "selector": "#x"}, fast=True),
    Case("2.3-beforeunload-accepted-hang", (*LEAVING, *opened("/hang")), "NET_TIMEOUT", Effect.POSSIBLE),
    Case("2.3-beforeunload-accepted-refused", (*LEAVING, *opened(f"http://{DEAD}/")), "NET_CONNECTION_REFUSED",
         Effect.NONE),
)  # fmt: skip


def test_interrupted(run: Any, stage: TableStage, case: Case) -> None:
    run(judge(stage, case))
