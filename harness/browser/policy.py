"""What a task asked for outside of its `allowed_domains`. Nothing of it was sent. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from harness.browser.arrival import document_of, since
from harness.browser.exchange import Exchange
from harness.browser.network import BLOCKED, POLICY_ERRORS, net_error
from harness.browser.watch import Line
from harness.spec.names import Domains

_SOCKET = re.compile(r"^WebSocket connection to '(wss?://[^']*)' failed: ")


def refused_hosts(exchanges: Sequence[Exchange], lines: Iterable[Line], page: str, domains: Domains) -> tuple[str, ...]:
    """Hosts that were refused since the page with the URL `page` was asked for, in alphabetical order.

    Of WebSockets only the console tells, and not of which page: theirs are of the whole session.
    """
    if not domains.allowed:
        return ()
    urls: list[str] = []
    if any(exchange.error for exchange in exchanges):  # seldom: most pages pay for nothing more
        asked = since(exchanges, document_of(exchanges, page))
        urls += [exchange.url for exchange in asked if refused(exchange.error)]
    urls += filter(None, map(_refused_socket, lines))
    return tuple(sorted({domains.host(url) for url in urls if not domains.allows(url)}))


def refused(error: str | None) -> bool:
    """Whether the closed proxy, which stands for all other hosts, got the request, or it was held back here."""
    return error is not None and net_error(error) in (*POLICY_ERRORS, BLOCKED)


def _refused_socket(line: Line) -> str | None:
    found = _SOCKET.match(line.text)
    return found[1] if found and refused(line.text) else None


def strayed(navigations: Iterable[Exchange], domains: Domains) -> Exchange | None:
    """The first navigation to a host that is not allowed.

    The host decides, not the error: a popup's refusal may become known only after the click is over.
    """
    return next((exchange for exchange in navigations if not domains.allows(exchange.url)), None)
