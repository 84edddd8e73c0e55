"""Which kind of error this is: names of rows of `verdict.KINDS`, out of types, errnos and HTTP statuses."""

from __future__ import annotations

import errno
import http.client
import socket
import ssl
import subprocess
from asyncio import IncompleteReadError
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor
from typing import Final

from harness.resilience.breaker_state import CircuitOpen

_STATUSES: Final[Mapping[int, str]] = {
    401: "unauthorized",
    403: "forbidden",
    404: "not found",
    407: "unauthorized",
    408: "network timeout",
    410: "not found",
    413: "context overflow",
    425: "service unavailable",
    429: "rate limited",
    501: "invalid request",
    504: "network timeout",
    505: "invalid request",
}
_TYPES: Final[tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...]] = (
    ((ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError), "connection lost"),
    (ssl.SSLError, "tls failed"),
    ((socket.gaierror, socket.herror), "dns failure"),
    ((TimeoutError, subprocess.TimeoutExpired), "network timeout"),
    (ConnectionRefusedError, "connection refused"),
    (ConnectionError, "connection lost"),
    ((IncompleteReadError, http.client.IncompleteRead, http.client.BadStatusLine), "fetch failed"),
    ((FileNotFoundError, NotADirectoryError, IsADirectoryError), "file not found"),
    (PermissionError, "permission denied"),
    (CircuitOpen, "circuit open"),
    (MemoryError, "out of memory"),
    (BrokenExecutor, "agent crashed"),
    (AssertionError, "value not as asserted"),
)
"""The first row that fits holds."""
_ERRNOS: Final[Mapping[int, str]] = {
    errno.ENOMEM: "out of memory",
    **dict.fromkeys((errno.EAGAIN, errno.EBUSY, errno.EMFILE, errno.ENFILE, errno.ENOBUFS), "service unavailable"),
    **dict.fromkeys((errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET), "fetch failed"),
    **dict.fromkeys((errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.EADDRNOTAVAIL, errno.ENOTCONN), "fetch failed"),
}
_OAUTH: Final = frozenset(
    {"invalid_grant", "invalid_client", "unauthorized_client", "invalid_token", "access_denied", "insufficient_scope"}
)
"""Error codes of RFC 6749 and RFC 6750, as clients put them into `error`."""


def kind_of_status(status: int) -> str:
    """The kind of an HTTP status."""
    if status in _STATUSES:
        return _STATUSES[status]
    if status >= 500:
        return "service unavailable"
    return "invalid request" if status >= 400 else "unknown"


def kind_of_error(error: BaseException) -> str | None:
    """The kind of one of Python's own errors, judged by its type, exit status and errno; None: it is none of these."""
    if isinstance(error, subprocess.CalledProcessError):
        return "agent crashed" if error.returncode < 0 else "tool failed"
    of_type = next((name for types, name in _TYPES if isinstance(error, types)), None)
    if of_type:
        return of_type
    return _os_kind(error) if isinstance(error, OSError) else _oauth_kind(error)


def _oauth_kind(error: BaseException) -> str | None:
    code = getattr(error, "error", None)
    return "oauth failed" if isinstance(code, str) and code in _OAUTH else None


def _os_kind(error: OSError) -> str | None:
    if error.errno is None:
        # asyncio says so when it tried several addresses, and none of them let it in.
        return "fetch failed" if type(error) is OSError else None
    return _ERRNOS.get(error.errno)
