"""What a task asked for outside of its `allowed_domains`. Nothing of it was sent. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from harness.browser.arrival import document_of, since
from harness.browser.exchange import Exchange
from harness.browser.network import POLICY_ERRORS, net_error
from harness.browser.watch import Line
from harness.spec.hosts import host_of, reaches

_SOCKET = re.compile(r"^WebSocket connection to '(wss?://[^']*)' failed: ")


def allows(url: str, allowed: Sequence[str]) -> bool:
    """Whether the host is an allowed one or below one. Nothing declared allows all; what has no host is not sent."""
    host = host_of(url)
    return not host or reaches(host, allowed)


def refused_hosts(
    exchanges: Sequence[Exchange], lines: Iterable[Line], page: str, allowed: Sequence[str]
) -> tuple[str, ...]:
    """Hosts that were refused since the page with the URL `page` was asked for, in alphabetical order.

    Of WebSockets only the console tells, and not of which page: theirs are of the whole session.
    """
    if not allowed:
        return ()
    urls: list[str] = []
    if any(exchange.error for exchange in exchanges):  # seldom: most pages pay for nothing more
        asked = since(exchanges, document_of(exchanges, page))
        urls += [exchange.url for exchange in asked if refused(exchange.error)]
    urls += filter(None, map(_refused_socket, lines))
    return tuple(sorted({host_of(url) for url in urls if not allows(url, allowed)}))


def refused(error: str | None) -> bool:
    """Whether the closed proxy, which stands for all other hosts, got the request."""
    return error is not None and net_error(error) in POLICY_ERRORS


def _refused_socket(line: Line) -> str | None:
    found = _SOCKET.match(line.text)
    return found[1] if found and refused(line.text) else None


def strayed(navigations: Iterable[Exchange], allowed: Sequence[str]) -> Exchange | None:
    """The first navigation to a host that is not allowed.

    The host decides, not the error: a popup's refusal may become known only after the click is over.
    """
    return next((exchange for exchange in navigations if not allows(exchange.url, allowed)), None)
