"""Requests that the browser itself sends again after a fault."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.faults.pattern import plain
from harness.spec.faults import Hang, Reset, SocketFault

FRESH = 0.01
"""Seconds; a request that came so soon was sent over a connection that was opened for it."""
WITHIN = 1.0
"""Seconds in which a request is sent again, if at all."""


@dataclass(frozen=True, slots=True)
class _Broken:
    """A request that was ended without a byte."""

    urls: frozenset[str]
    fault: SocketFault
    t: float


@dataclass
class Resends:
    """A connection may stand open before there is a request for it. When one breaks without a byte of an answer,
    Chromium takes it for outdated, and sends the request again over a new one: nobody above learns of the fault.

    So the same request, coming again before the browser said that it failed, is struck again and not counted again.
    """

    _broken: dict[bytes, _Broken] = field(default_factory=dict)

    def remember(self, head: bytes, urls: Iterable[str], fault: SocketFault, t: float) -> None:
        """A request that came over a connection which was no fresh one ends without a byte at `t`."""
        kept = {each: broken for each, broken in self._broken.items() if t <= broken.t + WITHIN}
        self._broken = kept | {head: _Broken(frozenset(urls), _once_more(fault), t)}

    def again(self, head: bytes, t: float) -> SocketFault | None:
        """What strikes the request when it is one that the browser sends again."""
        broken = self._broken.get(head)
        return broken.fault if broken and t <= broken.t + WITHIN else None

    def failed(self, url: str) -> None:
        """The browser has learnt that a request failed: what comes now is a new one."""
        gone = plain(url.partition("#")[0])
        self._broken = {head: broken for head, broken in self._broken.items() if gone not in broken.urls}


def _once_more(fault: SocketFault) -> SocketFault:
    """At once, and the site gets no request twice."""
    match fault:
        case Hang():
            return fault.model_copy(update={"seconds": 0.0})
        case Reset():
            return fault.model_copy(update={"commit": False})
        case _:
            return fault
