"""Navigations that failed, whatever began them: an `open`, a click, or the page itself; from what was seen."""

from __future__ import annotations

from dataclasses import replace

from harness.browser.arrival import document_of
from harness.browser.cut_short import unfinished
from harness.browser.exchange import Exchange
from harness.browser.liveness import hung, no_answer, who_answers
from harness.browser.login import missing
from harness.browser.network import (
    GIVEN_UP,
    TELL_STATUS,
    names_cause,
    net_error,
    net_failure,
    policy_failure,
    refuses,
    status_failure,
)
from harness.browser.policy import strayed
from harness.browser.scene import Scene
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure


def opening_failure(name: str, text: str, scene: Scene) -> Failure:
    """A goto's network error. With an empty body only the response event knows the status."""
    navigation = scene.watch.navigation
    if navigation is not None:
        return _broken(name, navigation, scene)
    return net_failure(name, text.rpartition(" at ")[2].splitlines()[0], scene.domains)


async def late_opening(scene: Scene) -> Failure:
    """A goto that did not end: a network error that only its request knows, no answer, or a page that hangs."""
    navigation = scene.watch.navigation
    name = net_error(navigation.error or "") if navigation else None
    if navigation and name and name != GIVEN_UP:
        return _broken(name, navigation, scene)
    page, browser = await who_answers(scene)
    if not page or not browser:
        return hung(scene, browser)
    pending = scene.watch.unanswered
    return no_answer(scene, pending, Effect.POSSIBLE) if pending else unfinished(scene, navigation)


def navigation_failure(scene: Scene) -> Failure | None:
    """The act was done, and what it opened failed, was not given by its site (see `refuses`), or is not allowed.

    Only what is known by now is judged: an act that started no navigation waits for none.
    """
    navigation = scene.watch.navigation
    failure = (_unopened(navigation, scene) if navigation else None) or strayed_page(scene, Effect.DONE)
    if failure is None and navigation is not None and not scene.domains.allows(navigation.url):
        failure = _redirected_astray(navigation, scene)
    return replace(failure, selector=scene.selector) if failure else None


def strayed_page(scene: Scene, effect: Effect) -> Failure | None:
    """Another page, a popup, was to leave the allowed domains: that outweighs whatever else failed."""
    stray = strayed(scene.watch.elsewhere, scene.domains)
    return policy_failure(stray.url, scene.domains, {"method": stray.method}, effect) if stray else None


def _redirected_astray(navigation: Exchange, scene: Scene) -> Failure:
    """One virtual host has sent the page to another: they share a server, so only the answer shows it."""
    failure = policy_failure(navigation.url, scene.domains, {"method": navigation.method}, Effect.DONE)
    message = f"{failure.details['host']} is outside of the task's allowed_domains: a redirect led to {navigation.url}"
    return replace(failure, message=message)


def undelivered(failure: Failure, scene: Scene) -> Failure:
    """A download of which no file came; its click opened a page instead, and that one tells why.

    The file is still to be had: a retry has to click again, so nothing counts as done.
    """
    navigation = scene.watch.navigation
    if failure.code != "DOWNLOAD_FAILED" or navigation is None:
        return failure
    reason = _unopened(navigation, scene) or _by_status(navigation, scene, Effect.DONE)
    if reason is None:
        return failure
    details = {**failure.details, **reason.details, "instead_of": failure.code}
    return replace(reason, message=f"{failure.message}: {reason.message}", details=details, effect=Effect.POSSIBLE)


def refused_page(failure: Failure, scene: Scene) -> Failure | None:
    """A missing element on a page that says what went wrong with its site, which an earlier step may have opened.

    Its answer may come only after the step that asked for it: a list or a box that submits its form as it changes.
    """
    page = document_of(scene.watch.exchanges, scene.page.url)
    if page is None or not names_cause(page.status or 0) or not missing(failure, scene):
        return None
    refusal = _by_status(page, scene, Effect.NONE)
    if refusal is None:
        return None
    details = {**failure.details, **refusal.details, "method": page.method, "instead_of": failure.code}
    return _of_before(replace(refusal, details=details))


def lost_page(scene: Scene) -> Failure | None:
    """The navigation, perhaps of an earlier step, that has left nothing but the browser's own error page."""
    lost = scene.watch.last_failed
    if lost is None or not scene.page.url.startswith("chrome-error:"):
        return None
    return _of_before(_broken(net_error(lost.error or "") or "ERR_FAILED", lost, scene, Effect.NONE))


def _of_before(failure: Failure) -> Failure:
    """A page that an earlier step has opened is of no use: its GET is navigated again before the step (DESIGN 4.2)."""
    again = failure.retryable and failure.details["method"] in ("GET", "HEAD")
    return replace(failure, details={**failure.details, "opened_before": True}, tainted=again)


def _broken(name: str, navigation: Exchange, scene: Scene, effect: Effect | None = None) -> Failure:
    """A navigation that ended in `name`; some names only say that its status tells the cause."""
    failure = None
    if navigation.status and name in TELL_STATUS:
        failure = _by_status(navigation, scene, effect or Effect.NONE)
    failure = failure or net_failure(name, navigation.url, scene.domains, effect)
    status = {"status": navigation.status} if navigation.status else {}
    return replace(failure, details={**failure.details, **status, "method": navigation.method})


def _by_status(navigation: Exchange, scene: Scene, effect: Effect) -> Failure | None:
    status, headers = navigation.status or 0, navigation.headers
    return status_failure(status, navigation.url, headers, scene.clock.wall(), effect)


def _unopened(navigation: Exchange, scene: Scene) -> Failure | None:
    name = net_error(navigation.error or "")
    if name is not None and name != GIVEN_UP:
        return _broken(name, navigation, scene, Effect.DONE)
    refusal = _by_status(navigation, scene, Effect.DONE) if refuses(navigation.status or 0) else None
    return refusal and replace(refusal, details={**refusal.details, "method": navigation.method})
