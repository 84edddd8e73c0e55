"""`open`: go to a URL and judge what came."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Response

from harness.browser import domains
from harness.browser.attempt import Attempt
from harness.browser.network import GIVEN_UP, net_error, status_failure
from harness.browser.tab import Opened
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed
from harness.spec.steps import Open

NOTHING_TO_SHOW = (204, 205)
"""Statuses of answers that leave the page as it is."""
ERROR_PAGE_SECONDS = 0.3
"""How long the browser's own error page may take to be there."""
_INTERRUPTED = re.compile(r'interrupted by another navigation to "([^"]*)"')


async def open_url(attempt: Attempt, step: Open) -> Mapping[str, Any]:
    url = domains.resolve(step.url, attempt.request.base_url)
    domains.check(url, attempt.request.domains)
    domains.check_port(url, attempt.request.hosts)
    domains.check_reach(url, attempt.tab.unreachable)
    try:
        response = await go_to(attempt, url)
    except PlaywrightError as error:
        navigation = attempt.tab.watch.navigation
        if net_error(error.message) == GIVEN_UP and navigation and navigation.status in NOTHING_TO_SHOW:
            return {"url": url, "status": navigation.status}
        raise
    if response is None:
        return {"url": url}
    effect = Effect.POSSIBLE if response.status >= 500 else Effect.NONE
    failure = status_failure(response.status, response.url, response.headers, attempt.clock.wall(), effect)
    if failure is not None:
        raise Failed(failure)
    attempt.tab.opened = Opened(url, attempt.page.url)
    return {"url": attempt.page.url, "status": response.status}


async def go_to(attempt: Attempt, url: str) -> Response | None:
    """`goto`, again when Chromium's own error page of an earlier failure came in between.

    That page interrupts under its own URL, or under the one that is just being opened.
    """
    while True:
        await _settled(attempt)
        try:
            return await _loaded(attempt, url)
        except PlaywrightError as error:
            by = _INTERRUPTED.search(error.message)
            again = by is not None and (by[1] == url or by[1].startswith("chrome-error:"))
            if not again or (attempt.once and attempt.tab.watch.navigation):  # its request may have left
                raise


async def _loaded(attempt: Attempt, url: str) -> Response | None:
    """`goto`, ended at once when the document breaks off: Chromium would never say that the page has loaded."""
    watch = attempt.tab.watch
    try:
        async with asyncio.timeout(None) as limit:
            with watch.on_broken_off(lambda: limit.reschedule(0)):
                return await attempt.page.goto(url, wait_until="load", timeout=attempt.ms())
    except TimeoutError:
        navigation = watch.navigation
        if not limit.expired() or navigation is None:
            raise
        raise PlaywrightError(f"{navigation.error} at {navigation.url}") from None


async def _settled(attempt: Attempt) -> None:
    """After a navigation that failed, wait a little for Chromium's error page: it would interrupt the next one."""
    failed = attempt.tab.watch.last_failed
    if failed is None or net_error(failed.error or "") == GIVEN_UP:
        return
    until = attempt.clock.now() + min(ERROR_PAGE_SECONDS, attempt.left())
    while not attempt.page.url.startswith("chrome-error:") and attempt.clock.now() < until:
        await attempt.clock.sleep(0.02)
