"""Failures of pages that came without one of their scripts or stylesheets (docs/design/failures.md).

A page without one of its scripts is not there: what it does not do, no step can explain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, urldefrag, urlsplit

from playwright.async_api import Page

from harness.browser.bounded import bounded
from harness.browser.exchanges import RequestRecord
from harness.browser.failures.liveness import PROBE_SECONDS
from harness.browser.failures.scene import FailureContext
from harness.browser.isolated import script
from harness.browser.network_errors import GIVEN_UP, code_of, net_error, net_failure, status_failure
from harness.model.record import SAFE_METHODS
from harness.recovery.catalog import Effect, Family
from harness.recovery.failure import Circumstances, Failure
from harness.spec.names import Domains
from harness.values import replace

_SHOWN = 5
"""The number of missing parts that a failure names."""
LONGEST_URL, FILE_NAME = 60, 24
"""The number of characters of a URL in a sentence; of its path that many are always shown."""
_NEEDED = ("script", "stylesheet")
_REFUSED = ("NET_BLOCKED", "POLICY_DOMAIN", "AUTHENTICATION_FAILED")
"""Codes of requests that were refused: by the task's own domains, by the browser or by the site."""
UNEXPLAINED = (Family.NETWORK, Family.BROWSER, Family.NONE)
"""Families of failures that no bad answer explains, and no part which did not come."""
_SPARE = script(
    "spare_parts",
    """
(links, urls) => {
  const idle = e => {
    const rel = e.relList;
    if (!rel.contains('stylesheet')) return rel.contains('preload') || rel.contains('prefetch');
    return rel.contains('alternate') || e.disabled || (e.media && !matchMedia(e.media).matches);
  };
  const used = new Set([...document.scripts].map(e => e.src));
  return urls.filter(url => {
    const mine = links.filter(e => e.href === url);
    return mine.length > 0 && !used.has(url) && mine.every(idle);
  });
}
""",
)
"""The URLs among `urls` that only links name which the page does not use."""
_ADVICE = (
    "Look at the network log for {url}. If the page can do without it, let a route of the task answer it: "
    '`routes: [{{url: "{url}", status: 204}}]`.'
)


def awaits_parts(document: RequestRecord) -> bool:
    """Return whether a script or a stylesheet of the document's page is still under way."""
    return any(request.resource_type in _NEEDED for request in document.loading)


def missing_parts(document: RequestRecord, exchanges: Sequence[RequestRecord]) -> list[RequestRecord]:
    """The parts that the document's page did not get, without those that it requested again with success. Pure."""
    came = [each for each in exchanges if each.of is document and each.error is None and (each.status or 500) < 400]
    return [part for part in document.unmet if not any(_same(part.url, each.url) for each in came)]


def _same(url: str, again: str) -> bool:
    """Return whether a page that requests `again` requests `url` anew; it may add a parameter against caches."""
    first, second = urlsplit(urldefrag(url).url), urlsplit(urldefrag(again).url)
    if first[:3] != second[:3]:
        return False
    return set(parse_qsl(first.query, True)) <= set(parse_qsl(second.query, True))


def is_needed(part: RequestRecord, document: RequestRecord, domains: Domains) -> bool:
    """Return whether a page without this part is not there. Pure.

    It is a script or a stylesheet of an allowed host, requested while the page loaded, and ended by a network error or
    a 5xx. Without `allowed_domains` only the page's own host counts. What a route of the task answers is as wanted, and
    what the page can do without is `spare`.
    """
    if part.kind not in _NEEDED or part.late or part.spare or part.promised or part.routed is not None:
        return False
    own = domains.host(part.url) == domains.host(document.url)
    if not (domains.allows(part.url) if domains.allowed else own):
        return False
    if (part.status or 0) >= 400:  # the browser gives up what it cannot use, so its own error says nothing
        return (part.status or 0) >= 500
    name = net_error(part.error or "")
    return name is not None and name != GIVEN_UP and code_of(name, bool(domains.allowed)) not in _REFUSED


async def find_spare_parts(page: Page, document: RequestRecord, domains: Domains) -> None:
    """Mark the parts that did not come and that the page can do without; if it does not answer, it needs them all."""
    by_url = {part.url: part for part in document.unmet if is_needed(part, document, domains)}
    if not by_url:
        return
    for url in await bounded(_SPARE.of_all(page.locator("link"), [*by_url]), PROBE_SECONDS, ()):
        by_url[url].spare = True


def incomplete(document: RequestRecord, scene: FailureContext, effect: Effect) -> Failure | None:
    """The failure of a page that came without a part that it needs; None if it is whole, or was told before."""
    if document.told or not document.unmet:
        return None
    found = missing_parts(document, tuple(scene.watch.exchanges))
    needed = [part for part in found if is_needed(part, document, scene.domains)]
    if not needed:
        return None
    document.told = True
    return _without(needed, document, scene, effect)


def _without(
    needed: Sequence[RequestRecord], document: RequestRecord, scene: FailureContext, effect: Effect
) -> Failure:
    part = needed[0]
    failure = status_failure(part.status or 0, part.url, part.headers, scene.clock.wall())
    failure = failure or net_failure(net_error(part.error or "") or "ERR_FAILED", part.url, scene.domains)
    more = f" and {len(needed) - 1} more" if len(needed) > 1 else ""
    message = f"the page {document.url} came without its {part.kind} {part.url}{more}: {_reason(part)}"
    details: dict[str, Any] = {
        **failure.details,
        "url": document.url,
        "method": document.method,
        "resource": part.url,
        "missing_parts": _describe(needed),
    }
    advice = failure.advice or _ADVICE.format(url=part.url)
    return replace(failure, message=message, details=details, effect=effect, advice=advice)


def _describe(parts: Sequence[RequestRecord]) -> list[str]:
    """The parts in one line each."""
    return [f"{part.kind} {part.url}: {_reason(part)}" for part in parts[:_SHOWN]]


def short_url(url: str) -> str:
    """A URL for a sentence, whose end is not to be cut: without its query, and of a long path only the end."""
    if len(url) <= LONGEST_URL:
        return url
    parts = urlsplit(url)
    origin, asked = f"{parts.scheme}://{parts.netloc}", "?…" if parts.query else ""
    room = max(FILE_NAME, LONGEST_URL - len(origin) - len(asked))
    end = parts.path[2 - room :]
    path = parts.path if len(parts.path) <= room else f"/…{end[max(0, end.find('/')) :]}"
    return f"{origin}{path}{asked}"


def _reason(part: RequestRecord) -> str:
    return f"HTTP {part.status}" if (part.status or 0) >= 400 else part.error or "no answer"


def posted(document: RequestRecord) -> bool:
    """Return whether the page is the answer to an unsafe request, also by a redirect."""
    request = document.asked
    while request is not None:
        if request.method not in SAFE_METHODS:
            return True
        request = request.redirected_from
    return False


def answers_a_write(failure: Failure) -> Failure:
    """The failure of a page whose write was answered: it was done, and its page is not requested again."""
    message = f"{failure.message}; the page is the answer to a request that is not sent again"
    return replace(failure, message=message, act_done=True).also(Circumstances(permanent=True))


def never_there(document: RequestRecord, scene: FailureContext) -> Failure | None:
    """The failure of a page that came without a part that it needs, if nothing was done on it since."""
    if document.acted or document.method not in SAFE_METHODS:
        return None
    cause = incomplete(document, scene, Effect.NONE)
    return cause and replace(cause, tainted=cause.retryable).also(Circumstances(opened_before=True))


def with_missing_parts(failure: Failure, scene: FailureContext) -> Failure:
    """A later step's failure, by the parts that its page did not get.

    If nothing was done on the page yet, that it is not there is the failure, and its page is requested again before the
    step. Otherwise the parts are named.
    """
    document = scene.watch.frame.latest
    if document is None or not document.unmet or failure.family in UNEXPLAINED or "resource" in failure.details:
        return failure
    if not failure.tainted and (cause := never_there(document, scene)):
        details = {**failure.details, **cause.details, "instead_of": failure.code}
        return replace(cause, details=details, selector=failure.selector)
    parts = sorted(missing_parts(document, tuple(scene.watch.exchanges)), key=_is_refused)
    if not parts:
        return failure
    listed = _describe(parts)
    first = f"{parts[0].kind} {short_url(parts[0].url)}: {_reason(parts[0])}"
    words = f"the page came without its {first}" + (f" and {len(parts) - 1} more" if len(parts) > 1 else "")
    details = {**failure.details, "missing_parts": listed}
    return replace(failure, message=f"{failure.message}; {words}", details=details, advice=_hint(failure, parts))


def _is_refused(part: RequestRecord) -> bool:
    """Return whether the site or the browser refused the part: the page is perhaps meant to do without it."""
    if (part.status or 0) >= 400:
        return (part.status or 0) < 500
    name = net_error(part.error or "")
    return name is None or code_of(name, policed=True) in _REFUSED


def _hint(failure: Failure, parts: Sequence[RequestRecord]) -> str:
    """The failure's own hint, after that about a part that was lost and before that about one that was refused."""
    part = parts[0]
    url = short_url(part.url)
    if not _is_refused(part):
        return f"Look first at {url}, which the page did not get ({_reason(part)}). {failure.hint}".rstrip()
    why = f"If the page needs {url} ({_reason(part)}), look there first."
    return f"{failure.hint} {why}".lstrip()
