"""What errors mean: every row of the tables, and real errors of Python's."""

from __future__ import annotations

import asyncio
import errno
import http.client
import socket
import ssl
import subprocess
import sys
import urllib.error
from concurrent.futures import BrokenExecutor
from datetime import timedelta
from email.message import Message
from email.utils import format_datetime
from types import SimpleNamespace

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.resilience.breaker import CircuitOpen, describe_error
from harness.resilience.escalate import StillRunning
from harness.resilience.limit import LimitExceeded
from harness.resilience.retry import BACKOFF, retry
from harness.resilience.verdict import KINDS, CallErrorCategory, RetryVerdict, classifier, classify
from harness.values import replace
from tests.ports import free_port
from tests.unit.fakes import START, FakeClock
from tests.unit.resilience.virtual import LoopClock, Scripted, play


class Answered(Exception):
    """An error as HTTP clients raise it."""

    def __init__(self, status: int, headers: dict[str, str] | None = None, name: str = "status_code") -> None:
        super().__init__(f"status {status}")
        self.response = SimpleNamespace(**{name: status}, headers=headers or {})


def test_the_categories_of_specs_004() -> None:
    assert {str(category) for category in CallErrorCategory} - {"unknown"} == {
        *("rate_limit", "timeout", "network", "unavailable", "auth", "invalid", "not_found", "overflow"),
        *("tool_error", "agent_crash", "validation"),
    }


TABLES = [
    # of sites: error type, max retries
    ("network timeout", 3),
    ("dns failure", 2),
    ("element not found", 1),
    ("state not as asserted", 1),
    ("value not as asserted", 0),
    ("authentication failed", 0),
    ("task timeout", 0),
    # of machines, files and tools: retryable or not, "retry once, then fail", max_retries of a tool error
    ("file not found", 0),
    ("permission denied", 0),
    ("rate limited", 3),
    ("out of memory", 1),
    ("tool failed", 3),
    ("tls failed", 0),
    # of services: ECONNREFUSED, fetch failed, 401, 403, OAuth; a process is started again twice
    ("connection refused", 3),
    ("connection lost", 3),
    ("fetch failed", 3),
    ("unauthorized", 0),
    ("forbidden", 0),
    ("oauth failed", 0),
    ("agent crashed", 2),
    # transient, permanent
    ("service unavailable", 3),
    ("invalid request", 0),
    ("not found", 0),
    ("context overflow", 0),
    ("validation failed", 0),
    ("circuit open", 0),
    ("unknown", 0),
]


def test_the_tables_are_complete() -> None:
    assert {name for name, _ in TABLES} == set(KINDS)


def test_a_row_of_the_tables_is_retried_so_often() -> None:
    assert [(kind, retries_of(kind)) for kind, _ in TABLES] == TABLES


def retries_of(kind: str) -> int:
    call = Scripted([OSError("it went wrong")])
    policy = retry(BACKOFF, classify=lambda error: KINDS[kind].verdict(str(error)), clock=LoopClock())
    with pytest.raises(OSError, match="it went wrong"):
        play(policy(call)())
    return call.calls - 1


def test_an_http_status() -> None:
    meant = [
        (400, "invalid", False),
        (401, "auth", False),
        (403, "auth", False),
        (404, "not_found", False),
        (407, "auth", False),
        (408, "timeout", True),
        (410, "not_found", False),
        (413, "overflow", False),
        (418, "invalid", False),
        (422, "invalid", False),
        (425, "unavailable", True),
        (429, "rate_limit", True),
        (500, "unavailable", True),
        (501, "invalid", False),
        (502, "unavailable", True),
        (503, "unavailable", True),
        (504, "timeout", True),
        (529, "unavailable", True),
        (302, "unknown", False),
    ]
    found = [(status, classify(Answered(status))) for status, _, _ in meant]
    assert [(status, verdict.category, verdict.retryable) for status, verdict in found] == meant
    assert {verdict.suggested_delay for _, verdict in found} == {None}
    assert [verdict.message for _, verdict in found] == [f"Answered: status {status}" for status, _, _ in meant]


ERRORS: list[tuple[BaseException, str, bool, int | None]] = [
    (TimeoutError("slow"), "timeout", True, None),
    (OSError(errno.ETIMEDOUT, "timed out"), "timeout", True, None),
    (subprocess.TimeoutExpired("sh", 1), "timeout", True, None),
    (LimitExceeded("tool-execution", 120), "timeout", True, None),
    (StillRunning("audit", 30, SimpleNamespace(id="audit-1")), "timeout", False, None),  # type: ignore[arg-type]
    (OSError(errno.ECONNREFUSED, "refused"), "network", True, None),
    (ConnectionResetError("Connection lost"), "network", True, None),
    (BrokenPipeError(), "network", True, None),
    (OSError(errno.ENETUNREACH, "no way there"), "network", True, None),
    (OSError(errno.EHOSTUNREACH, "no way there"), "network", True, None),
    (OSError("Multiple exceptions: [Errno 111] one, [Errno 111] two"), "network", True, None),
    (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "network", True, 2),
    (asyncio.IncompleteReadError(b"", 10), "network", True, None),
    (http.client.BadStatusLine("garbage"), "network", True, None),
    (http.client.RemoteDisconnected("gone"), "network", True, None),
    (ssl.SSLCertVerificationError("certificate has expired"), "network", False, None),
    (ssl.SSLError("WRONG_VERSION_NUMBER"), "network", False, None),
    (ssl.SSLEOFError("EOF occurred"), "network", True, None),
    (FileNotFoundError(errno.ENOENT, "none"), "not_found", False, None),
    (PermissionError(errno.EACCES, "denied"), "auth", False, None),
    (MemoryError(), "tool_error", True, 1),
    (OSError(errno.ENOMEM, "full"), "tool_error", True, 1),
    (OSError(errno.EMFILE, "too many files"), "unavailable", True, None),
    (OSError(errno.ENOSPC, "disk full"), "unknown", False, None),
    (subprocess.CalledProcessError(1, "sh"), "tool_error", True, None),
    (subprocess.CalledProcessError(-9, "sh"), "agent_crash", True, 2),
    (BrokenExecutor("died"), "agent_crash", True, 2),
    (AssertionError("1 != 2"), "validation", False, None),
    (CircuitOpen("provider:claude", 12.0, "ConnectionError", 5), "unavailable", False, None),
    (ValueError("what?"), "unknown", False, None),
    (KeyError("x"), "unknown", False, None),
    (asyncio.CancelledError(), "unknown", False, None),
    (KeyboardInterrupt(), "unknown", False, None),
]


def test_an_error_of_pythons() -> None:
    found = [(error, classify(error)) for error, _, _, _ in ERRORS]
    assert [(error, each.category, each.retryable, each.max_retries) for error, each in found] == ERRORS


@pytest.mark.parametrize("code", ["invalid_grant", "invalid_token", "access_denied"])
def test_oauth_errors_are_not_retried(code: str) -> None:
    class OAuthError(Exception):
        error = code

    verdict = classify(OAuthError("refresh token revoked"))
    assert (verdict.category, verdict.retryable) == ("auth", False)


def test_an_error_may_bring_its_own_verdict() -> None:
    class Busy(Exception):
        verdict = RetryVerdict(CallErrorCategory.UNAVAILABLE, retryable=True, message="busy", suggested_delay=3.0)

    busy = Busy()
    assert classify(busy) == replace(Busy.verdict, error=busy)


def test_an_error_is_what_it_was_raised_from_and_keeps_its_own_words() -> None:
    wrapped = RuntimeError("could not fetch the model")
    wrapped.__cause__ = KeyError("inner")
    wrapped.__cause__.__cause__ = socket.gaierror(-2, "Name or service not known")
    verdict = KINDS["dns failure"].verdict("RuntimeError: could not fetch the model")
    assert classify(wrapped) == replace(verdict, error=wrapped), "the error itself is kept, not the one that it wraps"


def test_an_error_raised_while_handling_another_is_not_that_other() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        try:
            raise ConnectionResetError
        except ConnectionResetError:
            1 / 0  # noqa: B018
    assert classify(caught.value).category is CallErrorCategory.UNKNOWN


def test_causes_that_go_in_a_circle_end() -> None:
    error = RuntimeError("round")
    error.__cause__ = error
    assert classify(error).category is CallErrorCategory.UNKNOWN


def test_of_errors_in_a_group_the_least_hopeful_holds() -> None:
    slow, dns, wrong = TimeoutError("slow"), socket.gaierror(-3, "Try again"), ValueError("no")
    assert classify(ExceptionGroup("two", [slow, dns])).max_retries == 2
    assert classify(ExceptionGroup("three", [slow, ExceptionGroup("", [wrong]), dns])).retryable is False


@pytest.mark.parametrize("name", ["Retry-After", "retry-after"])
@pytest.mark.parametrize("status", [429, 503])
def test_a_delay_that_the_server_suggests(status: int, name: str) -> None:
    delays = {"7": 7.0, " 120 ": 120.0, "1.5": 1.5, "0": 0.0} | dict.fromkeys(("-5", "nan", "inf", "soon", ""))
    assert {value: classify(Answered(status, {name: value})).suggested_delay for value in delays} == delays


def test_a_date_is_measured_from_the_answers_own_date_else_from_the_clock() -> None:
    judge = classifier(FakeClock())
    later = {"Retry-After": format_datetime(START + timedelta(seconds=40), usegmt=True)}
    assert judge(Answered(503, later)).suggested_delay == 40.0
    slow_clock = format_datetime(START + timedelta(seconds=30), usegmt=True)
    assert judge(Answered(503, {**later, "Date": slow_clock})).suggested_delay == 10.0
    assert judge(Answered(503, {**later, "Date": "not a date"})).suggested_delay == 40.0
    past = {"Retry-After": format_datetime(START - timedelta(hours=1), usegmt=True)}
    assert judge(Answered(429, past)).suggested_delay == 0.0


def test_a_delay_suggested_with_an_error_that_no_retry_helps_is_no_suggestion() -> None:
    assert classify(Answered(403, {"Retry-After": "5"})).suggested_delay is None


@pytest.mark.parametrize("name", ["status_code", "status", "code"])
def test_an_answer_by_whatever_name_the_client_gives_its_status(name: str) -> None:
    assert classify(Answered(429, {"Retry-After": "2"}, name)).suggested_delay == 2.0


def test_an_error_of_urllib() -> None:
    headers = Message()
    headers["Retry-After"] = "4"
    with urllib.error.HTTPError("http://shop.local/", 429, "slow down", headers, None) as error:
        assert classify(error).suggested_delay == 4.0
    refused = urllib.error.URLError(ConnectionRefusedError(111, "Connection refused"))
    assert (classify(refused).category, classify(refused).retryable) == ("network", True)
    assert classify(urllib.error.URLError("unknown url type: ftpx")).retryable is False


def test_a_real_answer_of_httpx() -> None:
    answer = httpx2.Response(429, headers={"Retry-After": "9"}, request=httpx2.Request("GET", "http://shop.local/"))
    with pytest.raises(httpx2.HTTPStatusError) as caught:
        answer.raise_for_status()
    assert classify(caught.value).suggested_delay == 9.0


def test_a_real_refused_connection_raw_and_of_httpx() -> None:
    async def raw() -> None:
        await asyncio.open_connection("localhost", free_port())

    with pytest.raises(OSError) as caught:
        asyncio.run(raw())
    assert (classify(caught.value).category, classify(caught.value).retryable) == ("network", True)
    with pytest.raises(httpx2.ConnectError) as wrapped:
        httpx2.get(f"http://127.0.0.1:{free_port()}/", trust_env=False)
    assert (classify(wrapped.value).category, classify(wrapped.value).retryable) == ("network", True)


def test_a_real_server_that_does_not_answer_httpx() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(httpx2.ReadTimeout) as caught:
        httpx2.get(f"http://127.0.0.1:{silent.getsockname()[1]}/", trust_env=False, timeout=0.2)
    assert (classify(caught.value).category, classify(caught.value).retryable) == ("timeout", True)


def test_a_real_process_that_fails() -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        subprocess.run([sys.executable, "-c", "raise SystemExit(3)"], check=True)
    assert classify(caught.value).category is CallErrorCategory.TOOL_ERROR


def _raised_from(cause: BaseException) -> BaseException:
    error = RuntimeError("several\nlines\n" + "x" * 1000)
    error.__cause__ = cause
    return error


@given(st.recursive(st.sampled_from([error for error, *_ in ERRORS]), lambda inner: inner.map(_raised_from)))
def test_every_error_gets_a_verdict_in_one_line(error: BaseException) -> None:
    verdict = classify(error)
    assert verdict.category in set(CallErrorCategory)
    assert len(verdict.message.splitlines()) == 1


def test_a_description_is_short() -> None:
    assert describe_error(ValueError()) == "ValueError"
    assert describe_error(_raised_from(KeyError())) == "RuntimeError: several"
    assert len(describe_error(ValueError("x" * 1000))) == len("ValueError: ") + 200


def test_a_number_without_headers_is_no_http_status() -> None:
    assert classify(SystemExit(404)).category is CallErrorCategory.UNKNOWN
