"""Failures of navigations whose site answers: aborted, replaced, or never complete."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

from harness.browser.exchanges import RequestRecord, document_of, requests_since
from harness.browser.failures.liveness import hung, no_answer, timed_out, who_answers
from harness.browser.failures.login import is_element_missing
from harness.browser.failures.parts import UNEXPLAINED, answers_a_write, incomplete, posted, short_url
from harness.browser.failures.scene import FailureContext
from harness.browser.network_errors import (
    BLOCKED,
    GIVEN_UP,
    POLICY_ERRORS,
    TELL_STATUS,
    names_cause,
    net_error,
    net_failure,
    policy_failure,
    refuses,
    status_failure,
)
from harness.browser.page_events import LoggedLine
from harness.model.record import SAFE_METHODS
from harness.recovery.catalog import Effect
from harness.recovery.failure import Circumstances, Failure
from harness.spec.names import Domains
from harness.values import replace

_SHOWN = 5
"""The number of unfinished requests, or of bad answers, that are named."""
_SCRIPTED = ("xhr", "fetch")
"""The kinds of requests that a script sends."""
REPLACED = re.compile(r'interrupted by another navigation to "([^"]*)"')


def aborted_navigation(name: str | None, text: str, scene: FailureContext) -> Failure | None:
    """Determine why a navigation was aborted: Chromium's `ERR_ABORTED` does not name the cause.

    Returns None for any other error.
    """
    by = REPLACED.search(text)
    if by is None and name != GIVEN_UP:
        return None
    failure = _leaving_refused(scene) or _scheme_refused(scene.watch.frame.navigation)
    return failure or _replaced(by[1] if by else _replacing_url(text, scene), scene)


def _leaving_refused(scene: FailureContext) -> Failure | None:
    """The failure if the page asked whether it may be left and the answer was no."""
    asked = [each for each in scene.watch.dialogs if each.type == "beforeunload"]
    if not asked or asked[-1].answer == "accept":
        return None
    message = f"{scene.page.url} asked whether to leave the page, and the answer was to stay: {scene.what}"
    return Failure("DIALOG_BLOCKED", message, details={"url": scene.page.url})


def _scheme_refused(navigation: RequestRecord | None) -> Failure | None:
    """The failure of a redirect to a scheme that no browser opens."""
    if navigation is None or urlsplit(navigation.url).scheme in ("http", "https"):
        return None
    message = f"the site redirects to {navigation.url}, but only http and https are opened"
    return Failure("NET_BLOCKED", message, details={"url": navigation.url, "method": navigation.method})


def _replacing_url(text: str, scene: FailureContext) -> str | None:
    """The URL that the page went to; None if it went nowhere."""
    asked, navigation = text.partition(f"{GIVEN_UP} at ")[2].splitlines(), scene.watch.frame.navigation
    return navigation.url if asked and navigation and navigation.url != asked[0] else None


def _replaced(by: str | None, scene: FailureContext) -> Failure:
    """The failure of a navigation that another replaced.

    Without another page the cause is unknown: an answer without a document, a script that stopped loading, ...
    """
    end = f"the page went to {by} instead" if by else f"the browser gave up and shows {scene.page.url}"
    details = {"url": by or scene.page.url, "net_error": f"net::{GIVEN_UP}"}
    message = f"{scene.what} was interrupted: {end}"
    return Failure("NAVIGATION_INTERRUPTED", message, details=details, effect=Effect.POSSIBLE)


def _unfinished(scene: FailureContext, navigation: RequestRecord | None) -> Failure:
    """The failure of a document that arrived but did not load in time.

    It names the missing requests, and says whether the page can be used.
    """
    failure = timed_out(scene)
    if navigation is None or navigation.status is None:
        return failure
    pending = list(dict.fromkeys(navigation.loading.values()))
    details: dict[str, Any] = {"status": navigation.status, "usable": navigation.parsed, "pending": pending[:_SHOWN]}
    more = f" and {len(pending) - 1} more have" if len(pending) > 1 else " has"
    words = f": {pending[0]}{more} not ended" if pending else ""
    words += "; the page itself has loaded" if words and navigation.parsed else ""
    details = {**failure.details, **details}
    advice = f"Look at the network log for {pending[0]}, which did not end." if pending else ""
    if advice and navigation.parsed:
        advice += " If the task needs only the page itself, say so in the step: `until: domcontentloaded`."
    return replace(failure, message=f"{failure.message}{words}", details=details, effect=Effect.DONE, advice=advice)


# Failures of navigations, whether an `open`, a click or the page itself began them; from what was observed.


def opening_failure(name: str, text: str, scene: FailureContext) -> Failure:
    """The failure of a `goto` with a network error. With an empty body only the response event knows the status."""
    navigation = scene.watch.frame.navigation
    if navigation is not None:
        return _broken(name, navigation, scene)
    return net_failure(name, text.rpartition(" at ")[2].splitlines()[0], scene.domains)


async def late_opening(scene: FailureContext) -> Failure:
    """The failure of a `goto` that did not end: a network error of its request, no answer, or a page that hangs."""
    navigation = scene.watch.frame.navigation
    name = net_error(navigation.error or "") if navigation else None
    if navigation and name and name != GIVEN_UP:
        return _broken(name, navigation, scene)
    page, browser = await who_answers(scene)
    if not page or not browser:
        return hung(scene, browser)
    pending = scene.watch.frame.unanswered
    return no_answer(scene, pending, Effect.POSSIBLE) if pending else _unfinished(scene, navigation)


def navigation_failure(scene: FailureContext) -> Failure | None:
    """The failure of what the act opened: an error, a refusal by its site (`refuses`), or a domain not allowed.

    Only what is known by now is judged: an act that started no navigation waits for none. A step that only looks has
    not opened the page: it is done again when the page is there.
    """
    navigation = scene.watch.frame.navigation
    failure = (_broken_page(navigation, scene) if navigation else None) or strayed_page(scene, Effect.DONE)
    failure = failure or (_without_parts(navigation, scene) if navigation else None)
    routed = navigation is not None and navigation.promised  # then nothing was sent to its host
    if failure is None and navigation is not None and not (routed or scene.domains.allows(navigation.url)):
        failure = _redirected_astray(navigation, scene)
    return replace(failure, selector=scene.selector) if failure else None


def _broken_page(navigation: RequestRecord, scene: FailureContext) -> Failure | None:
    """The failure of a page that did not come, or came with an error."""
    failure = _unopened(navigation, scene)
    return failure if failure is None or scene.acts else _of_before(replace(failure, effect=Effect.NONE))


def _without_parts(navigation: RequestRecord, scene: FailureContext) -> Failure | None:
    """The failure of a page that came without a script or a stylesheet; it may be the answer to a write."""
    failure = incomplete(navigation, scene, Effect.POSSIBLE if scene.opens else Effect.DONE)
    if failure is None:
        return None
    if posted(navigation) and not scene.repeats:
        return answers_a_write(failure)
    return failure if scene.acts else _of_before(replace(failure, effect=Effect.NONE))


def strayed_page(scene: FailureContext, effect: Effect) -> Failure | None:
    """The failure of a popup that was to leave the allowed domains: that outweighs every other failure."""
    stray = strayed(scene.watch.elsewhere, scene.domains)
    return policy_failure(stray.url, scene.domains, {"method": stray.method}, effect) if stray else None


def _redirected_astray(navigation: RequestRecord, scene: FailureContext) -> Failure:
    """The failure of a redirect between virtual hosts: they share a server, so only the answer shows it."""
    failure = policy_failure(navigation.url, scene.domains, {"method": navigation.method}, Effect.DONE)
    message = f"{failure.details['host']} is outside the task's allowed_domains: a redirect led to {navigation.url}"
    return replace(failure, message=message)


def undelivered(failure: Failure, scene: FailureContext) -> Failure:
    """Replace the failure of a download without a file by that of the page that its click opened instead.

    A retry has to click again to get the file, so nothing counts as done.
    """
    navigation = scene.watch.frame.navigation
    if failure.code != "DOWNLOAD_FAILED" or navigation is None:
        return failure
    reason = _unopened(navigation, scene) or _by_status(navigation, scene, Effect.DONE)
    if reason is None:
        return failure
    details = {**failure.details, **reason.details, "instead_of": failure.code}
    return replace(reason, message=f"{failure.message}: {reason.message}", details=details, effect=Effect.POSSIBLE)


def refused_page(failure: Failure, scene: FailureContext) -> Failure | None:
    """The failure of a missing element on a page whose site failed; an earlier step may have opened the page.

    The answer may come after the step that requested it: a list or a box may submit its form as it changes.
    """
    page = document_of(scene.watch.exchanges, scene.page.url)
    if page is None or not names_cause(page.status or 0) or not is_element_missing(failure, scene):
        return None
    return _instead(failure, page, scene)


def _instead(failure: Failure, page: RequestRecord, scene: FailureContext) -> Failure | None:
    """The bad answer that an earlier step's page is, in place of a failure; None if the answer was wanted."""
    refusal = _by_status(page, scene, Effect.NONE)
    if refusal is None:
        return None
    details = {**failure.details, **refusal.details, "method": page.method, "instead_of": failure.code}
    return _of_before(replace(refusal, details=details, selector=failure.selector))


def with_bad_answers(failure: Failure, scene: FailureContext) -> Failure:
    """A later failure, by the bad answers that its page has got.

    If the page itself is an error of its site and nothing was done on it, that is the failure of an assertion about it.
    Otherwise what the site answered to the page and its scripts is named.
    """
    exchanges, page = tuple(scene.watch.exchanges), scene.watch.frame.latest
    if page is None or failure.family in UNEXPLAINED or "resource" in failure.details:
        return failure
    untouched = (page.status or 0) >= 500 and not (page.acted or page.promised)
    if failure.code == "ASSERTION_FAILED" and untouched and (cause := _instead(failure, page, scene)):
        return replace(cause, message=f"{cause.message}; {failure.message}", assertion=failure.assertion)
    found = [each for each in (*requests_since(exchanges, page), page) if _is_bad(each, page, scene)]
    found.sort(key=lambda each: (each.status or 0) < 500)
    if not found:
        return failure
    named = list(dict.fromkeys(f"{each.method} {each.url}: HTTP {each.status}" for each in found))
    first, more = found[0], f", and {len(named) - 1} more with an error" if len(named) > 1 else ""
    asked = f"{first.method} {short_url(first.url)}"
    message = f"{failure.message}; the site answered {asked} with HTTP {first.status}{more}"
    advice = f"Look first at the site's log for {asked}: it answered HTTP {first.status}. {failure.hint}".rstrip()
    details = {**failure.details, "bad_answers": named[:_SHOWN]}
    return replace(failure, message=message, details=details, advice=advice)


def _is_bad(answer: RequestRecord, page: RequestRecord, scene: FailureContext) -> bool:
    """Return whether a page or a script got an error from a site of the task.

    What a page is refused before anything was done on it, it may be meant to do without, such as the name of a user.
    """
    status, domains = answer.status or 0, scene.domains
    if status < 400 or answer.wanted or answer.promised or answer.routed is not None:
        return False
    known = domains.allows(answer.url) if domains.allowed else domains.host(answer.url) == domains.host(page.url)
    if answer is page or not known or answer.kind not in _SCRIPTED:
        return known and answer is page
    caused = page.touched is not None and answer.started >= page.touched
    return status >= 500 or caused or answer.method not in SAFE_METHODS


def lost_page(scene: FailureContext) -> Failure | None:
    """The failed navigation, perhaps of an earlier step, that left only the browser's own error page."""
    lost = scene.watch.frame.last_failed
    if lost is None or lost.wanted or not scene.page.url.startswith("chrome-error:"):
        return None
    return _of_before(_broken(net_error(lost.error or "") or "ERR_FAILED", lost, scene, Effect.NONE))


def _of_before(failure: Failure) -> Failure:
    """Mark the failure of a page that an earlier step opened: its GET is repeated before the step."""
    again = failure.retryable and failure.details["method"] in ("GET", "HEAD")
    return replace(failure, tainted=again).also(Circumstances(opened_before=True))


def _broken(name: str, navigation: RequestRecord, scene: FailureContext, effect: Effect | None = None) -> Failure:
    """The failure of a navigation that ended with `name`; with some names its status is the cause."""
    failure = None
    if navigation.status and name in TELL_STATUS:
        failure = _by_status(navigation, scene, effect or Effect.NONE)
    failure = failure or net_failure(name, navigation.url, scene.domains, effect)
    status = {"status": navigation.status} if navigation.status else {}
    return replace(failure, details={**failure.details, **status, "method": navigation.method})


def _by_status(navigation: RequestRecord, scene: FailureContext, effect: Effect) -> Failure | None:
    if navigation.wanted:
        return None
    status, headers = navigation.status or 0, navigation.headers
    return status_failure(status, navigation.url, headers, scene.clock.wall(), effect)


def _unopened(navigation: RequestRecord, scene: FailureContext) -> Failure | None:
    name = net_error(navigation.error or "")
    shown = navigation.wanted and name in TELL_STATUS  # a wanted status, whose answer has no body to show
    if name is not None and name != GIVEN_UP and not shown:
        return _broken(name, navigation, scene, Effect.DONE)
    refusal = _by_status(navigation, scene, Effect.DONE) if refuses(navigation.status or 0) else None
    return refusal and replace(refusal, details={**refusal.details, "method": navigation.method})


# Requests outside of `allowed_domains`: none of them was sent. Pure.

_SOCKET = re.compile(r"^WebSocket connection to '(wss?://[^']*)' failed: ")


def refused_hosts(
    exchanges: Sequence[RequestRecord], lines: Iterable[LoggedLine], page: str, domains: Domains
) -> tuple[str, ...]:
    """The hosts that were refused since the page with the URL `page` was requested, in alphabetical order.

    Refused WebSockets are known only from the console, which does not name the page: theirs are of the whole session.
    """
    if not domains.allowed:
        return ()
    urls: list[str] = []
    if any(exchange.error for exchange in exchanges):  # this is rare, so most pages save the work below
        asked = requests_since(exchanges, document_of(exchanges, page))
        urls += [exchange.url for exchange in asked if _is_blocked(exchange.error)]
    sockets = ((_SOCKET.match(line.text), line.text) for line in lines)
    urls += [found[1] for found, text in sockets if found and _is_blocked(text)]
    return tuple(sorted({domains.host(url) for url in urls if not domains.allows(url)}))


def _is_blocked(error: str | None) -> bool:
    """Return whether the request was blocked: by the closed proxy of all other hosts, or by the route handler."""
    return error is not None and net_error(error) in (*POLICY_ERRORS, BLOCKED)


def strayed(navigations: Iterable[RequestRecord], domains: Domains) -> RequestRecord | None:
    """The first navigation to a host that is not allowed.

    The host decides, not the error: a popup's refusal may become known only after the click is over.
    """
    asked = (exchange for exchange in navigations if not exchange.promised)
    return next((exchange for exchange in asked if not domains.allows(exchange.url)), None)
