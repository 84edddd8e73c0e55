"""The requests of pages and their outcomes, and which of them belong to a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urljoin

from playwright.async_api import APIRequestContext, Request

_PARTS = ("script", "stylesheet", "document")
"""The kinds of requests without whose answers a page is not whole; a `document` is that of a frame."""
_MOST_UNMET = 50


@dataclass(slots=True)
class RequestRecord:
    """One request and its result."""

    url: str
    method: str
    started: datetime
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers of the answer; names in lower case."""
    error: str | None = None
    loading: dict[Request, str] = field(default_factory=dict, compare=False, repr=False)
    """Request -> URL of what a document's page requested and does not have yet, itself among them."""
    asked: Request | None = field(default=None, compare=False, repr=False)
    """Playwright's own object, which has the body."""
    routed: int | None = None
    """The number of the route that answered it."""
    patched: bool = False
    """Whether its site answered, and that route only changed the answer."""
    promised: bool = False
    """Whether a route was to answer it when it was sent."""
    parsed: bool = False
    """Whether a document's page exists (DOMContentLoaded), though parts of it may still be missing."""
    loaded: bool = False
    """Whether a document's page has loaded with all its parts (the load event)."""
    wanted: bool = False
    """Whether the step that caused it declares its status: the answer is no refusal, whatever it says."""
    acted: bool = False
    """Whether a step has acted on a document's page."""
    touched: datetime | None = None
    """When the first step that does more than look began on a document's page."""
    told: bool = False
    """Whether a failure has said that a document's page came without a part."""
    unmet: list[RequestRecord] = field(default_factory=list, compare=False, repr=False)
    """The scripts, stylesheets and frames of a document's page that did not come, the first `_MOST_UNMET`."""
    of: RequestRecord | None = field(default=None, compare=False, repr=False)
    """The document whose page sent it; None if that is not known."""
    spare: bool = False
    """Whether its page can do without it: a preload that nothing uses, a stylesheet for another medium."""
    late: bool = False
    """Whether that page had already loaded when it failed."""

    @property
    def answered(self) -> bool:
        """Whether the request is settled: an answer came, or it failed."""
        return self.status is not None or self.error is not None

    @property
    def kind(self) -> str:
        """What the page wants it for: `script`, `stylesheet`, `document`, ..."""
        return self.asked.resource_type if self.asked is not None else ""

    def lacks(self, part: RequestRecord) -> None:
        """Note that this document's page did not get a request."""
        if len(self.unmet) < _MOST_UNMET and part not in self.unmet and part.kind in _PARTS:
            self.unmet.append(part)


@dataclass(slots=True)
class ApiSender:
    """What sends the requests of a task's `api` steps."""

    context: APIRequestContext
    spent: bool = False
    """Whether an answer has put a cookie into it, which it would send by itself: the browser has those that count."""
    kept: int = 0
    """The bytes of the answers that the driver keeps as long as it is open."""


def document_of(exchanges: Sequence[RequestRecord], url: str) -> RequestRecord | None:
    """The last request for the page with this URL; None if a script has only changed the URL, or it was long ago."""
    bare = _bare(url)
    return next((exchange for exchange in reversed(exchanges) if _bare(exchange.url) == bare), None)


def hops_to(exchanges: Sequence[RequestRecord], url: str) -> tuple[RequestRecord, ...]:
    """The request for the page and the requests that were redirected to it, the last one first."""
    hops: list[RequestRecord] = []
    for exchange in reversed(exchanges):
        same = _bare(exchange.url) == _bare(hops[-1].url if hops else url)
        if (same and not hops) or (hops and _target(exchange) == _bare(hops[-1].url)):
            hops.append(exchange)
        elif same:  # it belongs to an earlier visit
            break
    return tuple(hops)


def requests_since(exchanges: Sequence[RequestRecord], document: RequestRecord | None) -> Iterator[RequestRecord]:
    """The requests after that for the page, newest first; all if there is no such page."""
    for exchange in reversed(exchanges):
        if exchange is document:
            return
        yield exchange


def requests_before(exchanges: Sequence[RequestRecord], document: RequestRecord) -> Iterator[RequestRecord]:
    """The requests of the page before it, newest first, up to the one for that page itself."""
    asked = iter(reversed(exchanges))
    for exchange in asked:
        if exchange is document:
            break
    for exchange in asked:
        yield exchange
        if exchange.headers.get("content-type", "").startswith("text/html"):
            return


def _target(exchange: RequestRecord) -> str | None:
    """The URL that an answer redirects to; None if it does not."""
    if not 300 <= (exchange.status or 0) < 400 or "location" not in exchange.headers:
        return None
    try:
        return _bare(urljoin(exchange.url, exchange.headers["location"]))
    except ValueError:
        return None


def _bare(url: str) -> str:
    return url.partition("#")[0]
