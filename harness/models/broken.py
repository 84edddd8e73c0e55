"""What the error of a connection to a provider says."""

from __future__ import annotations

import socket

import httpx2

from harness.models.verdicts import WireFacts


def facts_of_transport(error: httpx2.HTTPError, *, begun: bool) -> WireFacts:
    """The facts of a request whose connection failed. `begun`: whether its answer had begun."""
    connecting = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
    cause = cause_of(error)
    return WireFacts(
        first_line(cause) or first_line(error) or type(error).__name__,
        phase="connect" if connecting else "read",
        timeout=isinstance(error, httpx2.TimeoutException),
        unresolved=isinstance(cause, socket.gaierror),
        begun=begun,
    )


def cause_of(error: BaseException) -> BaseException:
    """The innermost cause: the error of the socket, if there is one."""
    link = error
    for _ in range(10):
        inner = link.__cause__ or link.__context__
        if inner is None:
            break
        link = inner
    return link


def first_line(error: BaseException) -> str:
    """The first line of its text that is not empty."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")
