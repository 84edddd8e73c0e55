"""How a page was come to, out of the requests that were seen. Pure; `exchanges` are in the order of their requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urljoin

from harness.browser.exchange import Exchange


def document_of(exchanges: Sequence[Exchange], url: str) -> Exchange | None:
    """The last request for the page with this URL; None for one that a script has only renamed, or long ago."""
    bare = _bare(url)
    return next((exchange for exchange in reversed(exchanges) if _bare(exchange.url) == bare), None)


def hops_to(exchanges: Sequence[Exchange], url: str) -> tuple[Exchange, ...]:
    """The request for the page, and before it those that were redirected there, last one first."""
    hops: list[Exchange] = []
    for exchange in reversed(exchanges):
        same = _bare(exchange.url) == _bare(hops[-1].url if hops else url)
        if (same and not hops) or (hops and _target(exchange) == _bare(hops[-1].url)):
            hops.append(exchange)
        elif same:  # an earlier visit
            break
    return tuple(hops)


def since(exchanges: Sequence[Exchange], document: Exchange | None) -> Iterator[Exchange]:
    """What was asked for after the page was, newest first; everything when there is no such page."""
    for exchange in reversed(exchanges):
        if exchange is document:
            return
        yield exchange


def before(exchanges: Sequence[Exchange], document: Exchange) -> Iterator[Exchange]:
    """What the page before it had asked for, newest first, up to that page itself."""
    asked = iter(reversed(exchanges))
    for exchange in asked:
        if exchange is document:
            break
    for exchange in asked:
        yield exchange
        if exchange.headers.get("content-type", "").startswith("text/html"):
            return


def _target(exchange: Exchange) -> str | None:
    """Where an answer sends the page; None when it does not."""
    if not 300 <= (exchange.status or 0) < 400 or "location" not in exchange.headers:
        return None
    try:
        return _bare(urljoin(exchange.url, exchange.headers["location"]))
    except ValueError:
        return None


def _bare(url: str) -> str:
    return url.partition("#")[0]
