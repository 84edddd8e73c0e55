"""Navigations that did not come to their end though the site answers: aborted, replaced, or never complete."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from harness.browser.exchange import Exchange
from harness.browser.liveness import timed_out
from harness.browser.network import GIVEN_UP
from harness.browser.scene import Scene
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure

SHOWN = 5
"""Requests that are named as not ended."""
_REPLACED = re.compile(r'interrupted by another navigation to "([^"]*)"')


def cut_short(name: str | None, text: str, scene: Scene) -> Failure | None:
    """Why a navigation was aborted: Chromium's one word for it (`ERR_ABORTED`) says nothing of the cause.

    None for any other error.
    """
    by = _REPLACED.search(text)
    if by is None and name != GIVEN_UP:
        return None
    failure = _kept(scene) or _scheme_refused(scene.watch.navigation)
    return failure or _replaced(by[1] if by else _instead(text, scene), scene)


def _kept(scene: Scene) -> Failure | None:
    """The page asked whether it may be left, and was told no."""
    asked = [each for each in scene.watch.dialogs if each["type"] == "beforeunload"]
    if not asked or asked[-1]["answer"] == "accept":
        return None
    message = f"{scene.page.url} asked whether it may be left, and the answer was to stay: {scene.what}"
    return Failure("DIALOG_BLOCKED", message, details={"url": scene.page.url})


def _scheme_refused(navigation: Exchange | None) -> Failure | None:
    """A redirect to what no browser opens."""
    if navigation is None or urlsplit(navigation.url).scheme in ("http", "https"):
        return None
    message = f"the site redirects to {navigation.url}: only http and https are opened"
    return Failure("NET_BLOCKED", message, details={"url": navigation.url, "method": navigation.method})


def _instead(text: str, scene: Scene) -> str | None:
    """Where the page went; None when it went nowhere."""
    asked, navigation = text.partition(f"{GIVEN_UP} at ")[2].splitlines(), scene.watch.navigation
    return navigation.url if asked and navigation and navigation.url != asked[0] else None


def _replaced(by: str | None, scene: Scene) -> Failure:
    """Nothing says why when there is no page instead: an answer without one, a script that stopped loading, ..."""
    end = f"the page went to {by} instead" if by else f"the browser gave it up, and shows {scene.page.url}"
    details = {"url": by or scene.page.url, "net_error": f"net::{GIVEN_UP}"}
    message = f"{scene.what} did not come to its end: {end}"
    return Failure("NAVIGATION_INTERRUPTED", message, details=details, effect=Effect.POSSIBLE)


def unfinished(scene: Scene, navigation: Exchange | None) -> Failure:
    """A document that was answered, and not loaded in time: what of it is missing, and whether the page is usable."""
    failure = timed_out(scene)
    if navigation is None or navigation.status is None:
        return failure
    pending = list(dict.fromkeys(navigation.loading.values()))
    details: dict[str, Any] = {"status": navigation.status, "usable": navigation.parsed, "pending": pending[:SHOWN]}
    words = f": {_listed(pending)} not ended" if pending else ""
    words += "; the page itself is there" if words and navigation.parsed else ""
    details = {**failure.details, **details}
    advice = f"Look at the network log for {pending[0]}, which did not end." if pending else ""
    return replace(failure, message=f"{failure.message}{words}", details=details, effect=Effect.DONE, advice=advice)


def _listed(urls: list[str]) -> str:
    """One URL and its verb, or several."""
    more = f" and {len(urls) - 1} more have" if len(urls) > 1 else " has"
    return f"{urls[0]}{more}"
