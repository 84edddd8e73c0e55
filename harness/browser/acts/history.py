"""`back`, `forward` and `reload`: pages of the tab's history, for which a form is sent again only if it may be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urldefrag

from msgspec import Struct
from playwright.async_api import Response

from harness.browser.acts.attempt import ActContext
from harness.browser.acts.navigation import arrived, judged
from harness.model.record import SAFE_METHODS
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure
from harness.spec.page_steps import Back, Forward, HistoryStep

_RESENDS = ("form_submit", "reload")
"""What the browser calls the way to an entry whose request may have had a body."""


class _Entry(Struct, frozen=True):
    """One entry of a tab's history."""

    id: int
    url: str
    way: str


async def go(attempt: ActContext, step: HistoryStep) -> Mapping[str, Any]:
    """Show an entry of the history, or the page again. Another attempt at the step has the same aim."""
    history, here = await _history(attempt)
    aim = attempt.tab.aim if isinstance(attempt.tab.aim, int) else None
    place = next((number for number, each in enumerate(history) if each.id == aim), None)
    if place is None:
        place = here + {Back: -1, Forward: 1}.get(type(step), 0)
        if not 0 <= place < len(history) or (place != here and history[place].url == "about:blank"):
            raise Failed(_no_entry(attempt, step, len(history)))
    entry = history[place]
    if not step.repeatable and _sends_a_form(attempt, entry, shown=place == here):
        raise Failed(_posted(step, entry))
    attempt.tab.aim = entry.id
    if place == here:
        response = await arrived(attempt, lambda ms: attempt.page.reload(wait_until=step.until, timeout=ms))
    else:
        walk = attempt.page.go_back if place < here else attempt.page.go_forward
        response = await arrived(attempt, _times(lambda ms: walk(wait_until=step.until, timeout=ms), abs(place - here)))
    return judged(attempt, step, response, Effect.DONE) or {"url": attempt.page.url}


def _times(call: Callable[[float], Awaitable[Response | None]], count: int) -> Callable[[float], Any]:
    async def walked(ms: float) -> Response | None:
        response = None
        for _ in range(count):
            response = await call(ms)
        return response

    return walked


async def _history(attempt: ActContext) -> tuple[list[_Entry], int]:
    told = await attempt.tab.control.send("Page.getNavigationHistory")
    entries = [_Entry(each["id"], each["url"], each["transitionType"]) for each in told["entries"]]
    return entries, int(told["currentIndex"])


def _sends_a_form(attempt: ActContext, entry: _Entry, *, shown: bool) -> bool:
    """Return whether the browser would send a request with a body again to show the entry; in doubt it would."""
    frame = attempt.tab.watch.frame
    bare, fragment = urldefrag(entry.url)
    if bare not in frame.posted:
        return False
    document = frame.shown or frame.latest
    if shown and document is not None and document.method not in SAFE_METHODS:
        return True
    return entry.way in _RESENDS or bool(fragment)


def _posted(step: HistoryStep, entry: _Entry) -> Failure:
    message = f"{step.act}: {entry.url} is the answer to a form that was sent, and the browser would send it again"
    advice = f"Open its URL instead, if it can be opened: `open: {entry.url}`."
    return Failure("INVALID_INPUT", message, details={"url": entry.url}, advice=advice)


def _no_entry(attempt: ActContext, step: HistoryStep, count: int) -> Failure:
    """There is nothing to go to; a page that replaced a lost one has no history from before."""
    if isinstance(step, Back):
        message = f"there is no page to go back to: {attempt.page.url} is the first one of this tab"
    else:
        message = f"there is no page to go forward to: {attempt.page.url} is the last one of this tab"
    advice = (
        "Open the page by its URL. A page that was opened anew, after a crash or from a checkpoint, has no history: "
        "set the checkpoint before the step that leaves the first page."
    )
    return Failure("INVALID_INPUT", message, details={"url": attempt.page.url, "entries": count}, advice=advice)
