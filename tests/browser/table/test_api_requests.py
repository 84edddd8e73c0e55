"""Failure table 2.7: `api` requests that get no answer, or not a good one."""

from __future__ import annotations

from typing import Any

from harness.recovery.catalog import Effect
from tests.browser.stage import DEAD
from tests.browser.table.case import Case, judge
from tests.browser.table.table_stage import FAULTY, TableStage
from tests.browser.table.test_navigation import SITE
from tests.browser.table.test_status import CODES, WAITS

NONE, POSSIBLE, DONE = Effect.NONE, Effect.POSSIBLE, Effect.DONE
LOCAL = "127.0.0.1"


def asked(path: str, **fields: Any) -> tuple[dict[str, Any]]:
    """A request for a path of the faulty site, or any other URL."""
    return ({"act": "api", "url": f"{SITE}{path}" if path.startswith("/") else path, **fields},)


def status(code: int, *, empty: bool) -> Case:
    """A status, which also asks for 7 seconds."""
    name = f"2.7-api-{code}{'-empty' if empty else ''}"
    steps = asked(f"/status/{code}?retry=7{'&empty' if empty else ''}")
    waits = 7.0 if code in WAITS else None
    fast = (code, empty) in ((404, False), (503, True))
    return Case(name, steps, CODES[code], DONE, {"status": code}, retry_after=waits, fast=fast)


CASES = (
    Case("2.7-api-refused", asked(f"http://{DEAD}/"), "NET_CONNECTION_REFUSED", NONE, {"url": f"http://{DEAD}/"},
         fast=True),
    Case("2.7-api-dns", asked("http://nowhere.invalid/"), "NET_DNS", NONE),
    Case("2.7-api-reset", asked("/reset"), "NET_CONNECTION_RESET", POSSIBLE, fast=True),
    Case("2.7-api-post-reset", asked("/reset", method="POST", value={}), "NET_CONNECTION_RESET", POSSIBLE),
    Case("2.7-api-empty", asked("/empty"), "NET_EMPTY_RESPONSE", POSSIBLE),
    Case("2.7-api-hang", asked("/hang"), "NET_TIMEOUT", POSSIBLE, message="no answer from"),
    Case("2.7-api-syn-dropped", asked(f"http://{LOCAL}:{{dropped}}/"), "NET_TIMEOUT", POSSIBLE),
    Case("2.7-api-slow-headers", asked("/slow-headers"), "NET_TIMEOUT", POSSIBLE),
    Case("2.7-api-slow-body", asked("/slow-body"), "NET_TIMEOUT", POSSIBLE),
    Case("2.7-api-body-reset", asked("/reset-body"), "NET_CONNECTION_RESET", POSSIBLE),
    Case("2.7-api-body-cut", asked("/truncated"), "NET_CONNECTION_RESET", POSSIBLE, fast=True),
    Case("2.7-api-bad-chunk", asked("/bad-chunk"), "NET_CONNECTION_RESET", POSSIBLE),
    Case("2.7-api-cut-chunk", asked("/cut-chunk"), "NET_CONNECTION_RESET", POSSIBLE),
    Case("2.7-api-garbage", asked("/garbage"), "NET_PROTOCOL", POSSIBLE, message="Parse Error", fast=True),
    Case("2.7-api-bad-status", asked("/bad-status"), "NET_PROTOCOL", POSSIBLE),
    Case("2.7-api-two-lengths", asked("/two-lengths"), "NET_PROTOCOL", POSSIBLE),
    Case("2.7-api-bad-encoding", asked("/bad-encoding"), "NET_PROTOCOL", POSSIBLE),
    Case("2.7-api-loop", asked("/loop"), "NET_TOO_MANY_REDIRECTS", POSSIBLE),
    Case("2.7-api-redirect-to-refused", asked("/to-refused"), "NET_CONNECTION_REFUSED", NONE,
         {"url": f"http://{DEAD}/"}),
    Case("2.7-api-redirect-to-nonsense", asked("/to-nonsense"), "NET_BLOCKED", POSSIBLE, {"location": "http://[bad/"}),
    Case("2.7-api-redirect-to-scheme", asked("/to-scheme"), "NET_BLOCKED", POSSIBLE, {"location": "foo://bar/"}),
    Case("2.7-api-redirect-not-allowed", asked("/to-refused"), "POLICY_DOMAIN", NONE, {"host": DEAD},
         options={"allowed_domains": (FAULTY,)}),
    Case("2.7-api-tls-issuer", asked(f"https://{LOCAL}:{{tls}}/"), "NET_TLS", NONE, message="self-signed", fast=True),
    Case("2.7-api-tls-expired", asked(f"https://{LOCAL}:{{expired}}/"), "NET_TLS", NONE, message="expired"),
    Case("2.7-api-tls-host", asked(f"https://{LOCAL}:{{other_host}}/"), "NET_TLS", NONE),
    Case("2.7-api-https-to-plain", asked(f"https://{LOCAL}:{{plain}}/"), "NET_TLS", NONE, message="wrong version"),
    Case("2.7-api-http-to-tls", asked(f"http://{LOCAL}:{{tls}}/"), "NET_EMPTY_RESPONSE", POSSIBLE),
    Case("2.7-api-bad-port", asked(f"{SITE}:99999/"), "INVALID_INPUT", NONE, {"url": f"{SITE}:99999/"}, "Invalid URL"),
    Case("2.7-api-bad-url", asked("http://:99999/x"), "INVALID_INPUT", NONE, message="names no host"),
    Case("2.7-api-bad-scheme", asked("foo://bar"), "INVALID_INPUT", NONE, message="only http and https"),
    *(status(code, empty=empty) for code in CODES for empty in (False, True)),
    Case("2.7-api-407", asked("/status/407?proxy"), "AUTHENTICATION_FAILED", DONE, {"status": 407}),
    Case("2.7-api-401-asks", asked("/status/401?realm"), "AUTHENTICATION_FAILED", DONE, {"status": 401}),
    Case("2.7-api-another-status", asked("/", status=201), "HTTP_UNEXPECTED_STATUS", DONE, {"status": 200},
         "expected 201"),
)  # fmt: skip


def test_api_request(run: Any, stage: TableStage, case: Case) -> None:
    run(judge(stage, case))
