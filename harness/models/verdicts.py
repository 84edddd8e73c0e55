"""What the failure of a request to a model means: its code, whether a retry or another model can help, the delay."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import httpx2
from msgspec import Struct

from harness.models.exchange import Exchange
from harness.recovery.failure import Failed, Failure
from harness.resilience.breaker import CircuitOpen
from harness.resilience.pace import FloorTooHigh
from harness.resilience.verdict import CallErrorCategory, Kind, RetryVerdict

LONGEST_TEXT: Final = 300
"""Letters of a provider's message that are kept."""


class ModelVerdict(Struct, frozen=True):
    """What holds for all failures of one code."""

    kind: Kind
    counts: bool = False
    """Whether the provider's circuit counts it: the provider is ill, whoever asks."""
    slows: bool = False
    """Whether fewer requests at once can help."""
    leads_on: bool = True
    """Whether the fallback models are asked."""


_C = CallErrorCategory
VERDICTS: Final[Mapping[str, ModelVerdict]] = {
    "MODEL_RATE_LIMITED": ModelVerdict(Kind(_C.RATE_LIMIT, retryable=True), counts=True, slows=True),
    "MODEL_OVERLOADED": ModelVerdict(Kind(_C.UNAVAILABLE, retryable=True), counts=True, slows=True),
    "MODEL_UNAVAILABLE": ModelVerdict(Kind(_C.UNAVAILABLE, retryable=True), counts=True),
    "MODEL_TIMEOUT": ModelVerdict(Kind(_C.TIMEOUT, retryable=True), counts=True),
    "MODEL_AUTH": ModelVerdict(Kind(_C.AUTH)),
    "MODEL_QUOTA": ModelVerdict(Kind(_C.AUTH)),
    "MODEL_REJECTED": ModelVerdict(Kind(_C.INVALID)),
    "MODEL_NOT_FOUND": ModelVerdict(Kind(_C.NOT_FOUND)),
    "MODEL_CONTEXT_OVERFLOW": ModelVerdict(Kind(_C.OVERFLOW)),
    "MODEL_REFUSED": ModelVerdict(Kind(_C.VALIDATION)),
    "MODEL_GARBLED": ModelVerdict(Kind(_C.VALIDATION, retryable=True), counts=True),
    "MODEL_CASSETTE_MISS": ModelVerdict(Kind(_C.INVALID), leads_on=False),
}
"""The verdict of each code. What a fallback cannot cure (`leads_on`) is told to the agent, or to a person."""
SAID_WRONG: Final = ModelVerdict(Kind(_C.VALIDATION, retryable=True, max_retries=1), leads_on=False)
"""MODEL_GARBLED of an answer that can be read, and is not what was asked for: the provider is well, and the model is
told.
"""
_UNREADABLE: Final = "unreadable"
"""The detail of a failure that says that an answer could not be read at all, so that no model has said it."""


class ModelError(Exception):
    """A request that brought no usable answer. `verdict` is what `resilience.retry` reads."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        max_retries: int | None = None,
        rule: ModelVerdict | None = None,
        billed: bool = False,
    ) -> None:
        """`retry_after`: seconds that the provider asks to wait. `billed`: the provider may have worked for it.

        `rule`: its verdict, if it is not that of its code.
        """
        super().__init__(message)
        self.code = code
        self.status = status
        self.retry_after = retry_after
        self.billed = billed
        self.rule = rule or VERDICTS[code]
        self._max_retries = max_retries

    @property
    def verdict(self) -> RetryVerdict:
        kind = self.rule.kind
        most = kind.max_retries if self._max_retries is None else self._max_retries
        delay = self.retry_after if kind.retryable else None
        return RetryVerdict(kind.category, kind.retryable, str(self), delay, most, self.code)


def is_the_providers(error: BaseException) -> bool:
    """Return whether the provider's circuit counts the error."""
    return isinstance(error, ModelError) and error.rule.counts


def leads_to_fallback(error: BaseException) -> bool:
    """Return whether another model is asked after this error."""
    return isinstance(error, CircuitOpen | FloorTooHigh) or (isinstance(error, ModelError) and error.rule.leads_on)


def slows_down(error: BaseException) -> bool:
    """Return whether all calls to the provider go slower after this error."""
    return isinstance(error, ModelError) and (error.rule.slows or error.retry_after is not None)


def asked_to_wait(error: BaseException) -> float | None:
    """Seconds that the provider asks to wait."""
    return error.retry_after if isinstance(error, ModelError) else None


Phase = Literal["connect", "write", "read"]


class WireFacts(Struct, frozen=True):
    """What a client's error says of a request that failed."""

    text: str
    """The provider's message, or the error of the connection."""
    status: int | None = None
    """The HTTP status; of an error inside a stream, that of the same error before it."""
    code: str = ""
    """The provider's code, such as `insufficient_quota`."""
    kind: str = ""
    """The provider's type of error, such as `overloaded_error`."""
    retry_after: float | None = None
    phase: Phase | None = None
    """The stage at which the connection failed; None: it did not."""
    timeout: bool = False
    """Whether the connection took too long."""
    unresolved: bool = False
    """Whether the host name has no address."""
    begun: bool = False
    """Whether the answer had begun."""


# What the error of a connection to a provider says.


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


_QUOTA = frozenset({"insufficient_quota", "billing_error", "billing_hard_limit_reached", "billing_not_active"})
_QUOTA_TEXT = re.compile(r"(?i)credit balance is too low|exceeded your current quota|billing hard limit")
_OVERFLOW = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
_OVERFLOW_TEXT = re.compile(
    r"(?i)prompt is too long|maximum context length|exceeds? (?:the )?(?:available )?context|context (?:window|length) "
    r"exceeded|exceed(?:s|ed)? (?:the )?(?:model'?s )?context|input is too long|too many (?:input )?tokens|"
    r"request (?:is )?too large for"
)
_REFUSED = frozenset({"content_filter", "content_policy_violation", "refusal"})
_CODES_OF_STATUS: Final[Mapping[int, str]] = {
    401: "MODEL_AUTH", 402: "MODEL_QUOTA", 403: "MODEL_AUTH", 404: "MODEL_NOT_FOUND", 408: "MODEL_TIMEOUT",
    409: "MODEL_UNAVAILABLE", 413: "MODEL_CONTEXT_OVERFLOW", 425: "MODEL_UNAVAILABLE", 429: "MODEL_RATE_LIMITED",
    504: "MODEL_UNAVAILABLE", 529: "MODEL_OVERLOADED",
}  # fmt: skip
_DNS_RETRIES: Final = 2
"""The number of retries for a host name without an address, as for sites."""


def judged(facts: WireFacts, model: str) -> ModelError:
    """The error of a request that failed on the wire. `model`: the name in the settings."""
    code = _code_of(facts)
    if facts.status is not None:
        head = f"Model `{model}` answered {facts.status}"
    elif facts.timeout:
        head = f"Model `{model}` did not answer in time"
    elif facts.phase is not None:
        head = (
            f"Model `{model}` could not be reached"
            if facts.phase == "connect"
            else f"The connection to model `{model}` broke"
        )
    else:
        head = f"The answer of model `{model}` cannot be read"
    said = bounded(facts.text)
    return ModelError(
        code,
        f"{head}: {said}" if said else head,
        status=facts.status,
        retry_after=facts.retry_after,
        max_retries=_DNS_RETRIES if facts.unresolved else None,
        billed=facts.begun or (facts.status is None and facts.phase != "connect"),
    )


def bounded(text: str, longest: int = LONGEST_TEXT) -> str:
    """The text in one line, cut off."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def _code_of(facts: WireFacts) -> str:
    names = {facts.code, facts.kind}
    if facts.status is None:
        return _code_without_status(facts, names)
    if code := _code_of_words(facts, facts.status, names):
        return code
    if facts.status in _CODES_OF_STATUS:
        return _CODES_OF_STATUS[facts.status]
    if facts.status < 400:  # a redirection is not followed: the key would go along
        return "MODEL_GARBLED"
    return "MODEL_UNAVAILABLE" if facts.status >= 500 else "MODEL_REJECTED"


def _code_of_words(facts: WireFacts, status: int, names: set[str]) -> str:
    """The code of an answer whose words say more than its status; empty if they do not."""
    if names & _QUOTA or (status in (400, 429) and _QUOTA_TEXT.search(facts.text)):
        return "MODEL_QUOTA"
    if status in (400, 413, 422) and (names & _OVERFLOW or _OVERFLOW_TEXT.search(facts.text)):
        return "MODEL_CONTEXT_OVERFLOW"
    if names & _REFUSED:
        return "MODEL_REFUSED"
    return "MODEL_OVERLOADED" if "overloaded_error" in names else ""


def _code_without_status(facts: WireFacts, names: set[str]) -> str:
    if names & _QUOTA:
        return "MODEL_QUOTA"
    if names & _OVERFLOW or _OVERFLOW_TEXT.search(facts.text):
        return "MODEL_CONTEXT_OVERFLOW"
    if facts.timeout:
        return "MODEL_TIMEOUT"
    return "MODEL_GARBLED" if facts.phase is None else "MODEL_UNAVAILABLE"


def failure_of(error: Exception, model: str) -> Failed:
    """The failure of a call that no retry and no fallback has helped."""
    notes = [note for note in getattr(error, "__notes__", ()) if note]
    more = f"; {'; '.join(notes)}" if notes else ""
    if isinstance(error, CircuitOpen):
        message = f"Model `{model}` was not asked: {error}{more}"
        details = {"model": model, "circuit": error.name, "last_error": error.error}
        return Failed(Failure("MODEL_UNAVAILABLE", message, details=details, cause=error))
    if isinstance(error, FloorTooHigh):
        message = f"Model `{model}` was not asked: {error}{more}"
        wait = Failure("MODEL_RATE_LIMITED", message, details={"model": model}, retry_after=error.seconds, cause=error)
        return Failed(wait)
    if not isinstance(error, ModelError):
        raise error
    known: dict[str, Any] = {"model": model} | ({} if error.status is None else {"status": error.status})
    known |= {_UNREADABLE: True} if error.code == "MODEL_GARBLED" and error.rule.counts else {}
    return Failed(Failure(error.code, f"{error}{more}", details=known, retry_after=error.retry_after, cause=error))
