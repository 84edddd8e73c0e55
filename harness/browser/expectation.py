"""`expect_request` of a step: waits for a request that a page must send, and says what it sent instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from harness.browser.acts.attempt import ActContext
from harness.browser.exchanges import RequestRecord
from harness.criteria import contains, difference, lookup
from harness.criteria.texts import in_sentence
from harness.model.record import PageRequest
from harness.recovery.catalog import Effect
from harness.recovery.failure import Assertion, Failed, Failure
from harness.resilience import poll_until
from harness.spec.step_keys import ExpectedRequest
from harness.spec.url_patterns import RequestPattern, UrlPattern

_POLL = 0.02
"""Seconds between two looks at the requests."""
_SHOWN = 20
"""The number of requests that a failure lists."""


def page_request(exchange: RequestRecord) -> PageRequest:
    """A request as criteria read it."""
    asked = exchange.asked
    kind = asked.headers.get("content-type", "") if asked is not None else ""
    body = asked.post_data_buffer if asked is not None else None
    return PageRequest(exchange.method, exchange.url, exchange.status, body, kind)


async def await_request(
    attempt: ActContext, expected: ExpectedRequest, sent: Callable[[], Sequence[RequestRecord]]
) -> PageRequest:
    """Wait for the expected request; `sent` gives those since the act began. Raises Failed."""
    seconds = attempt.left() if expected.within is None else min(expected.within, attempt.left())
    pattern = UrlPattern.parse(expected.url)
    found: list[PageRequest] = []

    def look() -> bool:
        named = (each for each in sent() if RequestPattern((), pattern).matches(each.method, each.url))
        record = next((each for each in named if mismatch(expected, page_request(each)) is None), None)
        if record is not None:
            found[:] = [page_request(record)]
            record.wanted = expected.status is not None
        return record is not None

    if await poll_until(attempt.clock, look, _POLL, seconds):
        return found[0]
    raise Failed(_not_sent(expected, [page_request(each) for each in sent()], seconds))


class Mismatch(Struct, frozen=True):
    """The first difference between a request and the expected one."""

    part: str
    expected: Any
    actual: Any
    closeness: int
    """How far the request agrees: the larger, the nearer."""


def mismatch(expected: ExpectedRequest, request: PageRequest) -> Mismatch | None:
    """The first difference of a request whose URL matches; None if it is the expected one. Pure."""
    if expected.method and request.method != expected.method:
        return Mismatch("method", expected.method, request.method, 0)
    document = request.json if expected.json else None
    for number, (path, wanted) in enumerate(expected.json.items(), 1):
        matches = lookup(document, path)
        if not any(contains(each, wanted) for each in matches):
            return Mismatch(path or "body", wanted, matches[0] if matches else None, number)
    if expected.status is not None and request.status != expected.status:
        return Mismatch("status", expected.status, request.status, len(expected.json) + 1)
    return None


def _not_sent(expected: ExpectedRequest, sent: Sequence[PageRequest], seconds: float) -> Failure:
    """The failure, with the nearest request and its first difference, and the list of all requests."""
    pattern = RequestPattern((), UrlPattern.parse(expected.url))
    named = [(each, mismatch(expected, each)) for each in sent if pattern.matches(each.method, each.url)]
    near = max(
        ((request, wrong) for request, wrong in named if wrong is not None),
        key=lambda pair: pair[1].closeness,
        default=None,
    )
    shown = [each.describe() for each in sent[-_SHOWN:]]
    details: dict[str, Any] = {"expected_request": expected.model_dump(exclude_unset=True), "requests": shown}
    message = f"no request {expected.describe()} was sent within {seconds:.3g} s after the act"
    if near is None:
        listed = f"sent were {len(sent)}: {'; '.join(shown)}" if sent else "no request was sent at all"
        assertion = Assertion(f"expect_request {expected.describe()}", expected.describe(), shown)
        return _failure(f"{message}; {listed}", details, assertion)
    request, wrong = near
    details["nearest"] = request.describe()
    is_, wanted = (in_sentence(each) for each in (wrong.actual, wrong.expected))
    message += f" as expected; the nearest, {request.describe()}, differs: {wrong.part} is {is_}, expected {wanted}"
    diff = difference(wrong.expected, wrong.actual)
    return _failure(message, details, Assertion(wrong.part, wrong.expected, wrong.actual, diff))


def _failure(message: str, details: dict[str, Any], assertion: Assertion) -> Failure:
    """The act was done: a retry only looks again."""
    return Failure("REQUEST_EXPECTED", message, details=details, assertion=assertion, effect=Effect.DONE, act_done=True)
