"""Network errors and statuses as Failures."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.browser.network_errors import (
    REFUSED_STATUSES,
    api_failure,
    code_of,
    names_cause,
    net_error,
    net_failure,
    refuses,
    retry_after,
    status_failure,
)
from harness.recovery.catalog import CATALOG, Effect
from harness.spec.names import Domains

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("ERR_NAME_NOT_RESOLVED", "NET_DNS"),
        ("ERR_CONNECTION_REFUSED", "NET_CONNECTION_REFUSED"),
        ("ERR_INVALID_CHUNKED_ENCODING", "NET_PROTOCOL"),
        ("ERR_CERT_DATE_INVALID", "NET_TLS"),
        ("ERR_SSL_PROTOCOL_ERROR", "NET_TLS"),
        ("ERR_BLOCKED_BY_CLIENT", "NET_BLOCKED"),
        ("ERR_CONNECTION_TIMED_OUT", "NET_TIMEOUT"),
        ("ERR_PROXY_CONNECTION_FAILED", "NET_PROXY"),
        ("ERR_TUNNEL_CONNECTION_FAILED", "NET_PROXY"),
        ("ERR_INVALID_HTTP_RESPONSE", "NET_PROTOCOL"),
        ("ERR_RESPONSE_HEADERS_TOO_BIG", "NET_PROTOCOL"),
        ("ERR_ADDRESS_UNREACHABLE", "NET_UNREACHABLE"),
        ("ERR_CERT_COMMON_NAME_INVALID", "NET_TLS"),
        ("ERR_SOCKS_CONNECTION_FAILED", "NET_PROXY"),
        ("ERR_NEVER_HEARD_OF", "NET_FAILED"),
    ],
)
def test_code_of_net_errors(error: str, code: str) -> None:
    assert code_of(error) == code


def test_the_closed_proxy_means_policy() -> None:
    failure = net_failure("ERR_PROXY_CONNECTION_FAILED", "http://evil.test/x", Domains(("good.test",)))
    assert (failure.code, failure.effect) == ("POLICY_DOMAIN", Effect.NONE)
    assert failure.message == ("evil.test is outside the task's allowed_domains: http://evil.test/x was not opened")
    assert failure.details == {
        "url": "http://evil.test/x",
        "host": "evil.test",
        "net_error": "net::ERR_PROXY_CONNECTION_FAILED",
    }


@given(st.from_regex(r"ERR_[A-Z_]{1,30}", fullmatch=True), st.booleans())
def test_every_net_error_has_a_row(error: str, policed: bool) -> None:
    assert code_of(error, policed) in CATALOG


def test_net_error_is_found_in_any_text() -> None:
    assert net_error("Page.goto: net::ERR_FAILED at http://a/") == "ERR_FAILED"
    assert net_error("nothing of the kind") is None


@pytest.mark.parametrize(
    ("text", "code", "effect"),
    [
        ("connect ECONNREFUSED 127.0.0.1:1", "NET_CONNECTION_REFUSED", Effect.NONE),
        ("read ECONNRESET", "NET_CONNECTION_RESET", Effect.POSSIBLE),
        ("socket hang up", "NET_EMPTY_RESPONSE", Effect.POSSIBLE),
        ("Timeout 2500ms exceeded.", "NET_TIMEOUT", Effect.POSSIBLE),
        ("getaddrinfo ENOTFOUND nowhere", "NET_DNS", Effect.NONE),
        ("self-signed certificate", "NET_TLS", Effect.NONE),
        ("connect EHOSTUNREACH 10.0.0.1:80", "NET_UNREACHABLE", Effect.NONE),
        ("Parse Error: Expected HTTP/", "NET_PROTOCOL", Effect.POSSIBLE),
        ("Parse Error: Invalid character in chunk size", "NET_PROTOCOL", Effect.POSSIBLE),
        ("failed to decompress 'gzip' encoding", "NET_PROTOCOL", Effect.POSSIBLE),
        ("Invalid URL", "INVALID_INPUT", Effect.NONE),
        ("something new", "NET_FAILED", Effect.POSSIBLE),
    ],
)
def test_api_failures(text: str, code: str, effect: Effect) -> None:
    failure = api_failure(text, "http://a/")
    assert (failure.code, failure.effect) == (code, effect)


@pytest.mark.parametrize(
    ("error", "reason", "hint"),
    [
        ("ERR_CERT_DATE_INVALID", "expired_or_not_yet_valid", "Renew the certificate of shop.local"),
        ("ERR_CERT_AUTHORITY_INVALID", "unknown_issuer", "whole chain"),
        ("ERR_CERT_COMMON_NAME_INVALID", "wrong_host", "does not name shop.local"),
        ("ERR_CERT_REVOKED", "revoked", "revoked the certificate of shop.local"),
        ("ERR_SSL_PINNED_KEY_NOT_IN_CERT_CHAIN", "not_pinned", "pinned"),
        ("ERR_CERT_WEAK_SIGNATURE_ALGORITHM", "weak_certificate", "too weak"),
        ("ERR_CERT_INVALID", "certificate_not_accepted", "Fix the certificate"),
        ("ERR_SSL_VERSION_OR_CIPHER_MISMATCH", "no_common_protocol", "TLS 1.2"),
        ("ERR_SSL_PROTOCOL_ERROR", "no_tls", "use http://"),
        ("certificate has expired", "expired_or_not_yet_valid", "Renew"),
        ("self-signed certificate", "unknown_issuer", "whole chain"),
        ("unable to verify the first certificate", "unknown_issuer", "whole chain"),
        ("Hostname/IP does not match certificate's altnames", "wrong_host", "does not name"),
        ("write EPROTO ... wrong version number", "no_tls", "use http://"),
    ],
)
def test_what_is_wrong_with_tls_and_what_to_do(error: str, reason: str, hint: str) -> None:
    url = "https://shop.local:8443/cart"
    failure = net_failure(error, url) if error.startswith("ERR_") else api_failure(error, url)
    assert failure.code == "NET_TLS"
    assert failure.details["tls"] == {"reason": reason, "host": "shop.local", "suggested_action": failure.hint}
    assert hint in failure.hint


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("Thu, 01 Jan 2026 12:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("", None),
        ("-3", None),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


def test_status_failure() -> None:
    assert status_failure(399, "http://a/", {}, NOW) is None
    limited = status_failure(429, "http://a/", {"retry-after": "2"}, NOW)
    assert limited is not None
    assert (limited.code, limited.retry_after, limited.details["status"]) == ("HTTP_RATE_LIMITED", 2.0, 429)
    ignored = status_failure(500, "http://a/", {"retry-after": "2"}, NOW)
    assert ignored is not None
    assert (ignored.code, ignored.retry_after) == ("HTTP_SERVER_ERROR", None)


@pytest.mark.parametrize("status", REFUSED_STATUSES)
def test_a_refusal_is_never_retried(status: int) -> None:
    failure = status_failure(status, "http://a/", {"retry-after": "2"}, NOW, Effect.DONE)
    assert failure is not None
    assert (failure.code, failure.effect) == ("AUTHENTICATION_FAILED", Effect.DONE)
    assert (failure.retryable, failure.retry_after) == (False, None)


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (400, "HTTP_CLIENT_ERROR", False),
        (404, "HTTP_NOT_FOUND", False),
        (410, "HTTP_NOT_FOUND", False),
        (407, "AUTHENTICATION_FAILED", False),
        (408, "HTTP_TIMEOUT", True),
        (429, "HTTP_RATE_LIMITED", True),
        (501, "HTTP_SERVER_ERROR", True),
        (504, "HTTP_UNAVAILABLE", True),
    ],
)
def test_statuses_that_are_treated_differently(status: int, code: str, retryable: bool) -> None:
    failure = status_failure(status, "http://a/", {}, NOW)
    assert failure is not None
    assert (failure.code, failure.retryable) == (code, retryable)


def test_which_pages_fail_the_act_that_opened_them() -> None:
    assert [status for status in range(400, 600) if refuses(status)] == [401, 403, 429, 502, 503, 504]


def test_which_pages_tell_why_an_element_is_not_there() -> None:
    told = [status for status in range(200, 500) if names_cause(status)]
    assert told == [401, 403, 404, 407, 408, 410, 429]
    assert all(names_cause(status) for status in range(500, 600))


def test_a_proxy_that_asks_for_a_login_has_a_status() -> None:
    failure = net_failure("ERR_UNEXPECTED_PROXY_AUTH", "http://a/")
    assert (failure.code, failure.details["status"], failure.effect) == ("AUTHENTICATION_FAILED", 407, Effect.NONE)


@given(st.integers(400, 599))
def test_every_status_has_a_row(status: int) -> None:
    failure = status_failure(status, "http://a/", {}, NOW)
    assert failure is not None
    assert failure.code in CATALOG
