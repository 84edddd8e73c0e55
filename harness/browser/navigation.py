"""`open`: go to a URL and judge what came."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Response

from harness.browser import domains
from harness.browser.attempt import Attempt
from harness.browser.network import net_error, status_failure
from harness.failure import Failed
from harness.spec.steps import Open

_INTERRUPTED = re.compile(r'interrupted by another navigation to "([^"]*)"')


async def open_url(attempt: Attempt, step: Open) -> Mapping[str, Any]:
    url = domains.resolve(step.url, attempt.request.base_url)
    domains.check(url, attempt.request.allowed_domains)
    domains.check_port(url, attempt.request.hosts)
    try:
        response = await go_to(attempt, url)
    except PlaywrightError as error:
        navigation = attempt.tab.watch.navigation
        if net_error(error.message) == "ERR_ABORTED" and navigation and navigation.status == 204:
            return {"url": url, "status": 204}
        raise
    if response is None:
        return {"url": url}
    failure = status_failure(response.status, response.url, response.headers, attempt.clock.wall())
    if failure is not None:
        raise Failed(failure)
    return {"url": attempt.page.url, "status": response.status}


async def go_to(attempt: Attempt, url: str) -> Response | None:
    """`goto`, again when Chromium's own error page of an earlier failure came in between.

    That page interrupts under its own URL, or under the one that is just being opened.
    """
    while True:
        try:
            return await attempt.page.goto(url, wait_until="load", timeout=attempt.ms())
        except PlaywrightError as error:
            by = _INTERRUPTED.search(error.message)
            if by is None or not (by[1] == url or by[1].startswith("chrome-error:")):
                raise
