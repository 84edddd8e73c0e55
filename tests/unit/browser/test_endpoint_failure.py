"""What a connection that failed is called."""

from __future__ import annotations

import pytest
from playwright.async_api import Error

from harness.browser.endpoints import DOWN, UNFIT, down, endpoint_failure, none_left, not_taken, refusal

URL = "ws://secret:word@browsers:3000/hidden"
MISMATCH = f"""BrowserType.connect: WebSocket error: {URL} 428 Precondition Required
╔═════════════════════════════════╗
║ Playwright version mismatch:    ║
║   - server version: v1.65       ║
║   - client version: v1.40       ║"""

WINDOW = """BrowserType.connect: Target page, context or browser has been closed
Browser logs:

╔════════════════════════════════════════════════════════════════════════════╗
║ Looks like you launched a headed browser without having a XServer running. ║"""


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        (MISMATCH, UNFIT, "its Playwright is 1.65, the one here is 1.40"),
        (
            f"BrowserType.connect: WebSocket error: {URL} 400 Bad Request\nCall log:",
            UNFIT,
            "it answers 400 Bad Request",
        ),
        (f"BrowserType.connect: WebSocket error: {URL} 403 Forbidden", UNFIT, "it answers 403 Forbidden"),
        (f"BrowserType.connect: WebSocket error: {URL} 429 Too Many Requests", DOWN, "429 Too Many Requests"),
        (f"BrowserType.connect: WebSocket error: {URL} 503 Service Unavailable", DOWN, "503 Service Unavailable"),
        ("BrowserType.connect: WebSocket error: read ECONNRESET\nCall log:", DOWN, "read ECONNRESET"),
        ("BrowserType.connect: Executable doesn't exist at /x\n╔═", UNFIT, "--unsafe"),
        ("BrowserType.connect: Failed to launch chromium because executable doesn't exist at /x", UNFIT, "no browser"),
        (WINDOW, UNFIT, "a browser window needs a display, and the server has none"),
        ("BrowserType.connect: Target page, context or browser has been closed", DOWN, "it ended at once"),
    ],
)
def test_an_error_of_playwright(text: str, code: str, reason: str) -> None:
    failure = refusal("ws://browsers:3000", Error(text))
    assert (failure.code, failure.retryable) == (code, code == DOWN)
    assert reason in failure.message
    assert "secret" not in failure.message
    assert "hidden" not in failure.message


def test_no_answer_in_time() -> None:
    assert "in time" in refusal("ws://a", TimeoutError()).message


def test_a_version_that_differs_says_how_to_mend_it_at_either_end() -> None:
    message = refusal("ws://a", Error(MISMATCH)).message
    assert "`pip install playwright==1.65.*` here" in message
    assert "playwright==1.40.* there" in message


def test_flags_that_were_not_taken() -> None:
    failure = not_taken("ws://a", ["a window (--headed)", "--task-browser-executable"])
    assert failure.code == UNFIT
    assert "without a window (--headed), --task-browser-executable: start it with" in failure.message
    assert "run-server --unsafe" in failure.message


def test_of_several_each_has_its_reason() -> None:
    failure = none_left([("ws://a", down("ws://a", "silent")), ("ws://b", endpoint_failure("ws://b", "too old"))])
    assert failure.code == DOWN
    assert failure.message == "no browser endpoint provides a browser: ws://a: silent; ws://b: too old"
    assert failure.details == {"ws://a": "silent", "ws://b": "too old"}


def test_where_none_can_come_back_nothing_is_worth_another_try() -> None:
    assert none_left([("ws://b", endpoint_failure("ws://b", "too old"))]).code == UNFIT
