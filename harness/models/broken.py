"""What the error of a connection to a provider says."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx2

from harness.models.exchange import Exchange
from harness.models.verdicts import WireFacts


class TooLongError(httpx2.DecodingError):
    """The body of an answer has no end, or is larger than any answer of a model."""


def facts_of_transport(error: httpx2.HTTPError, exchange: Exchange) -> WireFacts:
    """The facts of a request whose connection failed."""
    connecting = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
    cause = cause_of(error)
    unreadable = is_unreadable(error, exchange)
    return WireFacts(
        first_line(cause) or first_line(error) or type(error).__name__,
        phase="connect" if connecting else None if unreadable else "read",
        timeout=isinstance(error, httpx2.TimeoutException),
        unresolved=isinstance(cause, socket.gaierror),
        begun=exchange.first is not None or unreadable,
    )


def is_unreadable(error: BaseException, exchange: Exchange) -> bool:
    """Return whether an answer came that is no whole answer of HTTP: cut off, without end, or against the protocol.

    No answer at all, and a stream that has begun and breaks off between its events, are failures of the connection.
    """
    broken = ("Server disconnected", *([_CUT] if exchange.first is not None or "event-stream" in exchange.head else []))
    return any(
        isinstance(link, httpx2.DecodingError)
        or (isinstance(link, httpx2.RemoteProtocolError) and not any(words in str(link) for words in broken))
        for link in chain(error)
    )


_CUT = "incomplete chunked read"


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes."""
    link: BaseException | None = error
    for _ in range(10):
        if link is None:
            return
        yield link
        link = link.__cause__ or link.__context__


def cause_of(error: BaseException) -> BaseException:
    """The innermost cause: the error of the socket, if there is one."""
    *_, innermost = chain(error)
    return innermost


def first_line(error: BaseException) -> str:
    """The first line of its text that is not empty."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")
