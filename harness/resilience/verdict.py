"""What an error means for a retry: its category, whether a retry can help, how many are allowed, and the delay."""

from __future__ import annotations

import errno
import http.client
import math
import socket
import ssl
import subprocess
from asyncio import IncompleteReadError
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from harness.resilience.breaker import CircuitOpen, describe_error
from harness.resilience.clock import Clock, SystemClock
from harness.resilience.outside import seconds_of
from harness.values import replace

# The kind of an error: names of rows of `verdict.KINDS`, from types, errnos and HTTP statuses.

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
"""Exception types and their kinds; the first row that fits counts."""
_ERRNOS: Final[Mapping[int, str]] = {
    errno.ENOMEM: "out of memory",
    **dict.fromkeys((errno.EAGAIN, errno.EBUSY, errno.EMFILE, errno.ENFILE, errno.ENOBUFS), "service unavailable"),
    **dict.fromkeys((errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET), "fetch failed"),
    **dict.fromkeys((errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.EADDRNOTAVAIL, errno.ENOTCONN), "fetch failed"),
}
OAUTH: Final = frozenset(
    {"invalid_grant", "invalid_client", "unauthorized_client", "invalid_token", "access_denied", "insufficient_scope"}
)
"""Error codes of RFC 6749 and RFC 6750, as clients put them into `error`."""


def _kind_of_status(status: int) -> str:
    """The kind of an HTTP status."""
    if status in _STATUSES:
        return _STATUSES[status]
    if status >= 500:
        return "service unavailable"
    return "invalid request" if status >= 400 else "unknown"


def _kind_of_error(error: BaseException) -> str | None:
    """The kind of one of Python's own errors, by its type, exit status and errno; None for any other error."""
    if isinstance(error, subprocess.CalledProcessError):
        return "agent crashed" if error.returncode < 0 else "tool failed"
    of_type = next((name for types, name in _TYPES if isinstance(error, types)), None)
    if of_type:
        return of_type
    if isinstance(error, OSError):
        if error.errno is None:
            # asyncio raises a plain OSError if it tried several addresses and none accepted.
            return "fetch failed" if type(error) is OSError else None
        return _ERRNOS.get(error.errno)
    code = getattr(error, "error", None)
    return "oauth failed" if isinstance(code, str) and code in OAUTH else None


# The HTTP answer that an error carries, whichever client raised it.


class HttpReply(Struct, frozen=True):
    """An HTTP answer with its status."""

    status: int
    retry_after: float | None = None
    """Seconds that the server asks to wait (`Retry-After`), never below zero."""


def _reply(error: BaseException, now: datetime) -> HttpReply | None:
    """Return the answer of an error: `error.response` (httpx, requests) or the error itself (urllib, aiohttp).

    `now` is the time of day, timezone-aware. A `Retry-After` with a date is measured from the answer's own `Date`, else
    from `now`.
    """
    for carrier in (getattr(error, "response", None), error):
        headers = getattr(carrier, "headers", None)
        values = (getattr(carrier, name, None) for name in ("status_code", "status", "code"))
        status = next((value for value in values if isinstance(value, int) and 100 <= value <= 599), None)
        if status is not None and headers is not None:
            return HttpReply(status, retry_after(headers, now))
    return None


def retry_after(headers: Mapping[str, Any], now: datetime) -> float | None:
    """Seconds that a server asks to wait, by `retry-after-ms` (as providers of models send it) or `Retry-After`.

    `now` is the time of day, for a date in an answer without its own `Date`.
    """
    told = {str(name).lower(): str(value).strip() for name, value in headers.items()}
    milliseconds = _seconds_after(told.get("retry-after-ms", ""), told, now)
    return _seconds_after(told.get("retry-after", ""), told, now) if milliseconds is None else milliseconds / 1000


def _seconds_after(value: str, headers: Mapping[str, str], now: datetime) -> float | None:
    at = _date(value)
    if at is None:
        return seconds_of(value)
    return seconds_of(max(0.0, (at - (_date(headers.get("date", "")) or now)).total_seconds()))


def _date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


class CallErrorCategory(StrEnum):
    """The categories of errors, and one for unknown errors."""

    RATE_LIMIT = "rate_limit"
    TIMEOUT = "timeout"
    NETWORK = "network"
    UNAVAILABLE = "unavailable"
    AUTH = "auth"
    INVALID = "invalid"
    NOT_FOUND = "not_found"
    OVERFLOW = "overflow"
    TOOL_ERROR = "tool_error"
    AGENT_CRASH = "agent_crash"
    VALIDATION = "validation"
    UNKNOWN = "unknown"


class RetryVerdict(Struct, frozen=True):
    """The judgement of one error."""

    category: CallErrorCategory
    retryable: bool
    message: str
    suggested_delay: float | None = None
    """Seconds that the server asks to wait; None: it does not say."""
    max_retries: int | None = None
    """The largest number of retries for errors of this kind; None: as many as the schedule has."""
    code: str = ""
    """The code of the failure, if its classifier has one."""
    error: BaseException | None = None
    """The error that was judged, as it was raised."""


Classify = Callable[[BaseException], RetryVerdict]


class Kind(Struct, frozen=True):
    """A row of the tables: what holds for every error of one kind."""

    category: CallErrorCategory
    retryable: bool = False
    max_retries: int | None = None

    def verdict(self, message: str, suggested_delay: float | None = None) -> RetryVerdict:
        return RetryVerdict(self.category, self.retryable, message, suggested_delay, self.max_retries)


KINDS: Final[Mapping[str, Kind]] = {
    # transient and permanent
    "rate limited": Kind(CallErrorCategory.RATE_LIMIT, retryable=True),
    "service unavailable": Kind(CallErrorCategory.UNAVAILABLE, retryable=True),
    "invalid request": Kind(CallErrorCategory.INVALID),
    "not found": Kind(CallErrorCategory.NOT_FOUND),
    "context overflow": Kind(CallErrorCategory.OVERFLOW),
    "validation failed": Kind(CallErrorCategory.VALIDATION),
    "circuit open": Kind(CallErrorCategory.UNAVAILABLE),
    # errors of machines, files and tools
    "tool failed": Kind(CallErrorCategory.TOOL_ERROR, retryable=True),
    "file not found": Kind(CallErrorCategory.NOT_FOUND),
    "permission denied": Kind(CallErrorCategory.AUTH),
    "out of memory": Kind(CallErrorCategory.TOOL_ERROR, retryable=True, max_retries=1),
    "tls failed": Kind(CallErrorCategory.NETWORK),
    # errors of processes; a dead one is restarted twice, its third death within five minutes is permanent
    "connection refused": Kind(CallErrorCategory.NETWORK, retryable=True),
    "connection lost": Kind(CallErrorCategory.NETWORK, retryable=True),
    "fetch failed": Kind(CallErrorCategory.NETWORK, retryable=True),
    "unauthorized": Kind(CallErrorCategory.AUTH),
    "forbidden": Kind(CallErrorCategory.AUTH),
    "oauth failed": Kind(CallErrorCategory.AUTH),
    "agent crashed": Kind(CallErrorCategory.AGENT_CRASH, retryable=True, max_retries=2),
    # errors of sites; "retry 3" is the number of retries that a schedule has by default
    "network timeout": Kind(CallErrorCategory.TIMEOUT, retryable=True),
    "dns failure": Kind(CallErrorCategory.NETWORK, retryable=True, max_retries=2),
    "element not found": Kind(CallErrorCategory.NOT_FOUND, retryable=True, max_retries=1),
    "state not as asserted": Kind(CallErrorCategory.VALIDATION, retryable=True, max_retries=1),
    "value not as asserted": Kind(CallErrorCategory.VALIDATION),
    "authentication failed": Kind(CallErrorCategory.AUTH),
    "task timeout": Kind(CallErrorCategory.TIMEOUT),
    "unknown": Kind(CallErrorCategory.UNKNOWN),
}
"""The verdict for each kind of error. A custom classifier picks from it: `KINDS[name].verdict(message)`."""

_DEEPEST = 10
"""The number of causes of an error that are examined."""


def classifier(clock: Clock) -> Classify:
    """Return the default classifier; `clock` is used for `Retry-After` dates.

    It knows Python's own errors, errors that carry an HTTP answer, and errors that wrap one of these (`__cause__`,
    `reason`). An error may have its own `verdict`. An unknown error is not retried: it may be a defect, and repeating
    the call may do harm.
    """
    return lambda error: _judge(error, clock)


classify: Classify = classifier(SystemClock())


def _judge(error: BaseException, clock: Clock) -> RetryVerdict:
    message = describe_error(error)
    verdicts = (_verdict_of(link, message, clock) for link in _chain(error))
    return replace(next((verdict for verdict in verdicts if verdict), KINDS["unknown"].verdict(message)), error=error)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes, also those that `from None` hides, as httpcore does."""
    link: BaseException | None = error
    for _ in range(_DEEPEST):
        if link is None:
            return
        yield link
        reason = getattr(link, "reason", None)
        inner = link.__cause__ or (reason if isinstance(reason, BaseException) else None)
        link = inner or (link.__context__ if link.__suppress_context__ else None)


def _verdict_of(error: BaseException, message: str, clock: Clock) -> RetryVerdict | None:
    own = getattr(error, "verdict", None)
    if isinstance(own, RetryVerdict):
        return own
    if isinstance(error, BaseExceptionGroup):
        return min((_judge(member, clock) for member in error.exceptions), key=_rank_verdict)
    answer = _reply(error, clock.wall())
    if answer:
        kind = KINDS[_kind_of_status(answer.status)]
        return kind.verdict(message, answer.retry_after if kind.retryable else None)
    name = _kind_of_error(error)
    return KINDS[name].verdict(message) if name else None


def _rank_verdict(verdict: RetryVerdict) -> tuple[bool, float]:
    """Rank a verdict of an error group: a retry must help every error in it, and the shortest allowance counts."""
    return verdict.retryable, math.inf if verdict.max_retries is None else verdict.max_retries
