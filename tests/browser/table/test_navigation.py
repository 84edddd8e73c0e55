"""Failure table 2.1: what ends a navigation, or keeps it from its end."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.browser import PlaywrightSession
from harness.recovery.catalog import Effect
from tests.browser.stage import DEAD
from tests.browser.table.case import PRESENT, Case, judge
from tests.browser.table.table_stage import FAULTY, TableStage

NONE, POSSIBLE, DONE = Effect.NONE, Effect.POSSIBLE, Effect.DONE
SITE = f"http://{FAULTY}"
LINKS = {"act": "open", "url": f"{SITE}/links"}
LAST = {"act": "switch_page", "value": -1}
FINE = {"act": "open", "url": f"{SITE}/"}


def opened(path: str) -> tuple[dict[str, Any]]:
    """Open a path of the faulty site, or any other URL."""
    return ({"act": "open", "url": f"{SITE}{path}" if path.startswith("/") else path},)


def clicked(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Follow a link of the page of links."""
    return (LINKS, {"act": "click", "selector": f"#{name}"})


def net(error: str, **more: object) -> dict[str, object]:
    """The details of a network error."""
    return {"net_error": f"net::{error}", "url": PRESENT, **more}


async def offline(session: PlaywrightSession) -> None:
    await session.tab.context.set_offline(True)


async def lost(session: PlaywrightSession) -> None:
    """The page goes, by itself, to what is not there."""
    page = session.tab.page
    await page.evaluate(f"setTimeout(() => location = 'http://{DEAD}/', 0)")
    while not page.url.startswith("chrome-error:"):
        await asyncio.sleep(0.02)


CASES = (
    Case("2.1-dns", opened("http://nowhere.invalid/"), "NET_DNS", NONE, net("ERR_NAME_NOT_RESOLVED"), fast=True),
    Case("2.1-refused", opened(f"http://{DEAD}/"), "NET_CONNECTION_REFUSED", NONE, net("ERR_CONNECTION_REFUSED"),
         then=FINE),
    Case("2.1-reset", opened("/reset"), "NET_CONNECTION_RESET", POSSIBLE, net("ERR_CONNECTION_RESET"), then=FINE,
         fast=True),
    Case("2.1-empty", opened("/empty"), "NET_EMPTY_RESPONSE", POSSIBLE, net("ERR_EMPTY_RESPONSE")),
    Case("2.1-syn-dropped", opened("http://127.0.0.1:{dropped}/"), "NET_TIMEOUT", POSSIBLE, {"method": "GET"},
         "no answer from"),
    Case("2.1-hang", opened("/hang"), "NET_TIMEOUT", POSSIBLE, {"method": "GET", "url": f"{SITE}/hang"},
         "no answer from", then=FINE, fast=True),
    Case("2.1-slow-headers", opened("/slow-headers"), "NET_TIMEOUT", POSSIBLE, {"method": "GET"}, then=FINE),
    Case("2.1-slow-body", opened("/slow-body"), "STEP_TIMEOUT", None,
         {"status": 200, "pending": [f"{SITE}/slow-body"]}, "/slow-body has not ended"),
    Case("2.1-slow-image", opened("/slow-image"), "STEP_TIMEOUT", None,
         {"status": 200, "pending": [f"{SITE}/hang"], "usable": True}, "/hang has not ended",
         then={"act": "wait", "selector": "#ok"}),
    Case("2.1-slow-script", opened("/slow-script"), "STEP_TIMEOUT", None,
         {"pending": [f"{SITE}/slow-headers"], "usable": False}),
    Case("2.1-slow-style", opened("/slow-style"), "STEP_TIMEOUT", None, {"pending": [f"{SITE}/slow-body"]}),
    Case("2.1-slow-frame", opened("/slow-frame"), "STEP_TIMEOUT", None,
         {"pending": [f"{SITE}/hang"], "usable": True}, then={"act": "wait", "selector": "#ok"}),
    Case("2.1-reset-body", opened("/reset-body"), "NET_CONNECTION_RESET", POSSIBLE,
         net("ERR_CONNECTION_RESET", status=200), fast=True),
    Case("2.1-truncated", opened("/truncated"), "NET_CONNECTION_RESET", POSSIBLE,
         net("ERR_CONTENT_LENGTH_MISMATCH", status=200)),
    Case("2.1-bad-chunk", opened("/bad-chunk"), "NET_CONNECTION_RESET", POSSIBLE,
         net("ERR_INVALID_CHUNKED_ENCODING", status=200)),
    Case("2.1-cut-chunk", opened("/cut-chunk"), "NET_CONNECTION_RESET", POSSIBLE,
         net("ERR_INCOMPLETE_CHUNKED_ENCODING", status=200)),
    Case("2.1-bad-encoding", opened("/bad-encoding"), "NET_PROTOCOL", POSSIBLE, net("ERR_CONTENT_DECODING_FAILED")),
    Case("2.1-garbage", opened("http://127.0.0.1:{plain}/garbage"), "NET_PROTOCOL", POSSIBLE,
         net("ERR_INVALID_HTTP_RESPONSE")),
    Case("2.1-two-lengths", opened("/two-lengths"), "NET_PROTOCOL", POSSIBLE,
         net("ERR_RESPONSE_HEADERS_MULTIPLE_CONTENT_LENGTH")),
    Case("2.1-http-to-tls", opened("http://127.0.0.1:{tls}/"), "NET_EMPTY_RESPONSE", POSSIBLE),
    Case("2.1-https-to-plain", opened("https://127.0.0.1:{plain}/"), "NET_TLS", NONE, net("ERR_SSL_PROTOCOL_ERROR")),
    Case("2.1-https-to-silence", opened("https://127.0.0.1:{dropped}/"), "NET_TIMEOUT", POSSIBLE),
    Case("2.1-tls-issuer", opened("https://127.0.0.1:{tls}/"), "NET_TLS", NONE, net("ERR_CERT_AUTHORITY_INVALID"),
         fast=True),
    Case("2.1-tls-expired", opened("https://127.0.0.1:{expired}/"), "NET_TLS", NONE, net("ERR_CERT_AUTHORITY_INVALID")),
    Case("2.1-tls-host", opened("https://127.0.0.1:{other_host}/"), "NET_TLS", NONE,
         net("ERR_CERT_AUTHORITY_INVALID")),
    Case("2.1-https-host-down", opened(f"https://{DEAD}/"), "NET_CONNECTION_RESET", POSSIBLE),
    Case("2.1-offline", opened("/"), "NET_OFFLINE", NONE, net("ERR_INTERNET_DISCONNECTED"), before=offline),
    Case("2.1-redirect-loop", opened("/loop"), "NET_TOO_MANY_REDIRECTS", POSSIBLE, net("ERR_TOO_MANY_REDIRECTS")),
    Case("2.1-redirect-to-refused", opened("/to-refused"), "NET_CONNECTION_REFUSED", NONE,
         net("ERR_CONNECTION_REFUSED", url=f"http://{DEAD}/")),
    Case("2.1-redirect-to-unsafe-port", opened("/to-unsafe"), "NET_BLOCKED", NONE),
    Case("2.1-redirect-to-nonsense", opened("/to-nonsense"), "NET_PROTOCOL", POSSIBLE, net("ERR_INVALID_REDIRECT")),
    Case("2.1-redirect-to-scheme", opened("/to-scheme"), "NET_BLOCKED", NONE, {"url": "foo://bar/"}),
    Case("2.1-unsafe-port", opened(f"http://{FAULTY}:25/"), "NET_BLOCKED", NONE, net("ERR_UNSAFE_PORT")),
    Case("2.1-bad-scheme", opened("foo://bar"), "INVALID_INPUT", NONE, {"url": "foo://bar"}, "only http and https"),
    Case("2.1-invalid-url", opened("http://:99999/x"), "INVALID_INPUT", NONE, {"url": "http://:99999/x"}),
    Case("2.1-invalid-port", opened(f"{SITE}:99999/"), "INVALID_INPUT", NONE, message="invalid URL"),
    Case("2.1-file", opened("file:///no/such/file"), "INVALID_INPUT", NONE, {"url": "file:///no/such/file"}),
    Case("2.1-not-allowed", opened(f"{SITE}/"), "POLICY_DOMAIN", NONE, {"host": FAULTY},
         options={"allowed_domains": ("shop.test",)}),
    Case("2.1-redirect-not-allowed", opened("/to-refused"), "POLICY_DOMAIN", NONE, {"host": DEAD},
         options={"allowed_domains": (FAULTY,)}),
    Case("2.1-click-refused", clicked("refused"), "NET_CONNECTION_REFUSED", DONE, net("ERR_CONNECTION_REFUSED"),
         then=FINE, fast=True),
    Case("2.1-click-dns", clicked("unknown"), "NET_DNS", DONE, net("ERR_NAME_NOT_RESOLVED")),
    Case("2.1-click-reset", clicked("reset"), "NET_CONNECTION_RESET", DONE, net("ERR_CONNECTION_RESET")),
    Case("2.1-click-empty", clicked("empty"), "NET_EMPTY_RESPONSE", DONE, net("ERR_EMPTY_RESPONSE")),
    Case("2.1-click-hang", clicked("hang"), "NET_TIMEOUT", DONE, {"method": "GET", "url": f"{SITE}/hang"}, then=FINE),
    Case("2.1-click-loop", clicked("loop"), "NET_TOO_MANY_REDIRECTS", DONE, net("ERR_TOO_MANY_REDIRECTS")),
    Case("2.1-click-garbage", clicked("garbage"), "NET_PROTOCOL", DONE, net("ERR_INVALID_HTTP_RESPONSE")),
    Case("2.1-click-unsafe-port", clicked("unsafe"), "NET_BLOCKED", DONE, net("ERR_UNSAFE_PORT")),
    Case("2.1-click-tls", clicked("tls"), "NET_TLS", DONE, net("ERR_CERT_AUTHORITY_INVALID")),
    Case("2.1-post-reset", clicked("post-reset"), "NET_CONNECTION_RESET", DONE,
         net("ERR_CONNECTION_RESET", method="POST")),
    Case("2.1-post-hang", clicked("post-hang"), "NET_TIMEOUT", DONE, {"method": "POST"}),
    Case("2.1-page-goes-on-to-refused", opened("/elsewhere-refused"), "NET_CONNECTION_REFUSED", DONE,
         {"url": f"http://{DEAD}/"}),
    Case("2.1-page-goes-on-to-hang", opened("/elsewhere-at-once"), "NET_TIMEOUT", POSSIBLE, {"url": f"{SITE}/hang"}),
    Case("2.1-popup-refused", (*clicked("popup-refused"), LAST), "NET_CONNECTION_REFUSED", DONE,
         net("ERR_CONNECTION_REFUSED", method="GET"), fast=True),
    Case("2.1-popup-hang", (*clicked("popup-hang"), LAST), "NET_TIMEOUT", NONE, {"url": f"{SITE}/hang"}),
    Case("2.1-step-on-a-lost-page", (LINKS, FINE, {"act": "click", "selector": "#ok"}), "NET_CONNECTION_REFUSED", NONE,
         net("ERR_CONNECTION_REFUSED", url=f"http://{DEAD}/"), before=lost, tainted=True),
)  # fmt: skip


def test_navigation(run: Any, stage: TableStage, case: Case) -> None:
    run(judge(stage, case))
