"""Failure table 2.2: HTTP statuses, with a body and without."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import quote

import pytest

from harness.recovery.catalog import Effect
from tests.browser.stage import failed, passed
from tests.browser.table.case import Case, judge
from tests.browser.table.table_stage import TableStage
from tests.browser.table.test_navigation import LAST, LINKS, SITE, clicked, opened

NONE, POSSIBLE, DONE = Effect.NONE, Effect.POSSIBLE, Effect.DONE
CODES = {
    400: "HTTP_CLIENT_ERROR", 401: "AUTHENTICATION_FAILED", 403: "AUTHENTICATION_FAILED", 404: "HTTP_NOT_FOUND",
    408: "HTTP_TIMEOUT", 409: "HTTP_CLIENT_ERROR", 410: "HTTP_NOT_FOUND", 418: "HTTP_CLIENT_ERROR",
    429: "HTTP_RATE_LIMITED", 500: "HTTP_SERVER_ERROR", 501: "HTTP_SERVER_ERROR", 502: "HTTP_UNAVAILABLE",
    503: "HTTP_UNAVAILABLE", 504: "HTTP_UNAVAILABLE",
}  # fmt: skip
FAST = {"404", "429-empty", "503-empty"}
WAITS = (429, 503)
"""Statuses whose Retry-After counts."""


FOLLOWED = (
    ("error", "500", "HTTP_SERVER_ERROR"),
    ("error-bare", "500-empty", "HTTP_SERVER_ERROR"),
    ("missing", "404", "HTTP_NOT_FOUND"),
    ("missing-bare", "404-empty", "HTTP_NOT_FOUND"),
)
"""Links to error pages: link, status, what a step says that misses something there."""


def answered(status: int, *, empty: bool) -> Case:
    """`open` of a path that answers with the status, and asks for 7 seconds."""
    name = f"{status}-empty" if empty else f"{status}"
    url = f"{SITE}/status/{status}?retry=7{'&empty' if empty else ''}"
    return Case(
        f"2.2-{name}",
        opened(url),
        CODES[status],
        POSSIBLE if status >= 500 else NONE,
        {"status": status, "url": url},
        f"HTTP {status}",
        retry_after=7.0 if status in WAITS else None,
        fast=name in FAST,
    )


CASES = (
    *(answered(status, empty=empty) for status in CODES for empty in (False, True)),
    Case("2.2-401-asks", opened("/status/401?realm"), "AUTHENTICATION_FAILED", NONE, {"status": 401}),
    Case("2.2-407", opened("/status/407?proxy"), "AUTHENTICATION_FAILED", NONE, {"status": 407}),
    Case("2.2-407-bare", opened("/status/407?empty"), "AUTHENTICATION_FAILED", NONE, {"status": 407}),
    Case("2.2-304", opened("/status/304"), "NAVIGATION_INTERRUPTED", POSSIBLE, message="the browser gave up"),
    Case("2.2-click-503", clicked("busy"), "HTTP_UNAVAILABLE", DONE, {"status": 503, "method": "GET"}, retry_after=3.0),
    Case("2.2-click-403", clicked("forbidden"), "AUTHENTICATION_FAILED", DONE, {"status": 403}),
    Case("2.2-post-502", clicked("post-down"), "HTTP_UNAVAILABLE", DONE, {"status": 502, "method": "POST"}),
    *(
        Case(f"2.2-click-{status}-then-{act}", (*clicked(link), {"act": act, "selector": "#never"}), code, NONE,
             {"status": int(status[:3]), "instead_of": instead, "opened_before": True}, tainted=status[:3] == "500",
             fast=(status, act) == ("404", "click"))
        for link, status, code in FOLLOWED
        for act, instead in (("click", "ELEMENT_NOT_FOUND"), ("wait", "STEP_TIMEOUT"))
    ),
    Case("2.2-popup-503", (*clicked("popup-error"), LAST), "HTTP_UNAVAILABLE", DONE, {"status": 503}, retry_after=4.0),
    Case("2.2-open-a-file", opened("/file"), "INVALID_INPUT", NONE, message="is a download", fast=True),
    *(
        Case(f"2.2-download-{name}", (LINKS, {"act": "download", "selector": f"#{name}"}), code, effect, details)
        for name, code, effect, details in (
            ("file-reset", "DOWNLOAD_FAILED", POSSIBLE, {}),
            ("file-truncated", "DOWNLOAD_FAILED", POSSIBLE, {}),
            ("file-hang", "STEP_TIMEOUT", DONE, {"file": "a.csv"}),
            ("file-missing", "DOWNLOAD_FAILED", POSSIBLE, {}),
            ("refused", "NET_CONNECTION_REFUSED", POSSIBLE, {"instead_of": "DOWNLOAD_FAILED"}),
            ("reset", "NET_CONNECTION_RESET", POSSIBLE, {"instead_of": "DOWNLOAD_FAILED"}),
            ("missing", "HTTP_NOT_FOUND", POSSIBLE, {"status": 404}),
            ("error-bare", "HTTP_SERVER_ERROR", POSSIBLE, {"status": 500}),
            ("hang", "NET_TIMEOUT", DONE, {"url": f"{SITE}/hang"}),
            ("ok", "DOWNLOAD_FAILED", DONE, {}),
        )
    ),
)  # fmt: skip


def test_status(run: Any, stage: TableStage, case: Case) -> None:
    run(judge(stage, case))


@pytest.mark.parametrize("status", [200, 204, 205])
@pytest.mark.sampled(2)
async def test_what_is_no_failure(stage: TableStage, status: int) -> None:
    session = await stage.session()
    outcome = await passed(session, {"act": "open", "url": f"{SITE}/status/{status}?empty"})
    assert outcome.details["status"] == status


@pytest.mark.parametrize(("link", "status"), [("missing", 404), ("post-error", 500)])
@pytest.mark.sampled(1)
async def test_an_error_page_is_no_failure_of_the_click(stage: TableStage, link: str, status: int) -> None:
    session = await stage.session()
    for step in clicked(link):
        await passed(session, step)
    assert session.url == f"{SITE}/status/{status}"


@pytest.mark.parametrize("act", ["open", "api"])
@pytest.mark.parametrize("empty", ["", "&empty"])
@pytest.mark.sampled(2)
async def test_retry_after_may_be_a_date(stage: TableStage, act: str, empty: str) -> None:
    at = quote(format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True))
    step = {"act": act, "url": f"{SITE}/status/429?retry={at}{empty}"}
    failure = await failed(await stage.session(), step, within=2)
    assert failure.code == "HTTP_RATE_LIMITED"
    assert failure.retry_after is not None
    assert 60 < failure.retry_after <= 90
