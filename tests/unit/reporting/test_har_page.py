"""A HAR as people read it."""

from __future__ import annotations

import re
from typing import Any

from harness.reporting.attachments import MOST_REQUESTS, har_page, requests_of


def entry(url: str, status: int = 200, at: str = "2026-05-01T12:00:00.000Z", **response: Any) -> dict[str, Any]:
    request = {"method": "GET", "url": url}
    answer = {"status": status, "statusText": "OK", "content": {"size": 2048, "mimeType": "text/html; x"}, **response}
    return {"startedDateTime": at, "time": 12.4, "request": request, "response": answer}


def har(*entries: Any) -> dict[str, Any]:
    return {"log": {"entries": list(entries)}}


def rows(page: str | None) -> list[list[str]]:
    assert page is not None
    return [re.findall(r"<td[^>]*>(.*?)</td>", line) for line in page.splitlines() if line.startswith("<tr class")]


def test_what_failed_comes_first_and_the_rest_by_time() -> None:
    page = har_page(
        har(
            entry("http://x/2", at="2026-05-01T12:00:02.500Z"),
            entry("http://x/1"),
            entry("http://x/503", 503, "2026-05-01T12:00:03.000Z", statusText="down"),
            entry("http://x/gone", -1, "2026-05-01T12:00:01.000Z", _failureText="net::ERR_CONNECTION_REFUSED"),
        )
    )
    assert rows(page) == [
        ["no answer", "GET", "http://x/gone", "1.00 s", "12", "2.0 KiB", "text/html", "net::ERR_CONNECTION_REFUSED"],
        ["503", "GET", "http://x/503", "3.00 s", "12", "2.0 KiB", "text/html", "down"],
        ["200", "GET", "http://x/1", "0.00 s", "12", "2.0 KiB", "text/html", "OK"],
        ["200", "GET", "http://x/2", "2.50 s", "12", "2.0 KiB", "text/html", "OK"],
    ]
    assert "4 requests; 2 failed, shown first" in (page or "")


def test_what_a_site_says_is_shown_and_never_acts() -> None:
    page = har_page(har(entry("http://x/<script>alert(1)</script>", 500, statusText='"><img src=x onerror=alert(2)>')))
    assert page is not None
    assert "<script" not in page
    assert "<img" not in page
    assert "default-src 'none'" in page


def test_odd_entries_are_read_as_far_as_they_go() -> None:
    odd = har(
        7, {}, {"request": "?", "response": {"status": "x", "content": None}}, {"time": 1e300, "startedDateTime": 5}
    )
    assert [request.status for request in requests_of(odd)] == [0, 0, 0]
    assert len(rows(har_page(odd))) == 3


def test_nothing_is_made_of_nothing() -> None:
    for document in ({}, [], {"log": 1}, {"log": {"entries": None}}, har()):
        assert har_page(document) is None


def test_a_very_long_har_is_cut_and_says_so() -> None:
    page = har_page(har(*(entry(f"http://x/{n}") for n in range(MOST_REQUESTS + 5)), entry("http://x/bad", 404)))
    assert len(rows(page)) == MOST_REQUESTS
    assert rows(page)[0][2] == "http://x/bad"
    assert f"{MOST_REQUESTS + 6} requests, the first {MOST_REQUESTS} of them shown; 1 failed" in (page or "")
