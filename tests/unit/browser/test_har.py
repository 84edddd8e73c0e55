"""network_logs.har."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.browser.exchanges import RequestRecord
from harness.browser.flood import Newest
from harness.browser.har import BODY_CHARACTERS, MOST_ENTRIES, HarSegment, load, merge_har, merge_logs, of_exchanges


def kept(*exchanges: RequestRecord, most: int = 10) -> Newest[RequestRecord]:
    found: Newest[RequestRecord] = Newest(most)
    for exchange in exchanges:
        found.append(exchange)
    return found


def entry(url: str, text: str) -> dict[str, Any]:
    return {"request": {"url": url}, "response": {"status": 200, "content": {"size": len(text), "text": text}}}


def test_recordings_become_one_in_order() -> None:
    logs: list[dict[str, Any]] = [
        {"entries": [entry("a", "x")], "pages": [1]},
        {"entries": [entry("b", "y")], "browser": {"name": "c"}},
    ]
    log = merge_logs(logs)["log"]
    assert [each["request"]["url"] for each in log["entries"]] == ["a", "b"]
    assert (log["version"], log["pages"], log["browser"]) == ("1.2", [1], {"name": "c"})


def test_long_bodies_are_left_out_and_said() -> None:
    long, short = entry("a", "x" * (BODY_CHARACTERS + 1)), entry("b", "x" * BODY_CHARACTERS)
    contents = [each["response"]["content"] for each in merge_logs([{"entries": [long, short]}])["log"]["entries"]]
    assert "text" not in contents[0]
    assert str(BODY_CHARACTERS + 1) in contents[0]["comment"]
    assert contents[1]["text"] == "x" * BODY_CHARACTERS


def test_files_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "good").write_text(json.dumps({"log": {"entries": []}}))
    (tmp_path / "cut").write_text('{"log": {"entr')
    (tmp_path / "other").write_text("{}")
    assert load([tmp_path / name for name in ("missing", "cut", "other", "good")]) == [{"entries": []}]


def test_a_har_of_what_was_seen() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    exchanges = [
        RequestRecord("http://a/", "GET", start, status=200, headers={"content-type": "text/html"}),
        RequestRecord("http://b/", "POST", start, error="net::ERR_FAILED"),
    ]
    entries = of_exchanges(exchanges)["log"]["entries"]
    assert entries[0]["startedDateTime"] == "2026-01-01T00:00:00Z"
    assert entries[0]["response"]["status"] == 200
    assert entries[0]["response"]["content"]["mimeType"] == "text/html"
    assert (entries[1]["response"]["status"], entries[1]["response"]["_failureText"]) == (-1, "net::ERR_FAILED")


def test_contexts_that_wrote_nothing_are_told_by_the_watch(tmp_path: Path) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    written = {"entries": [{"request": {"url": "http://b/"}}], "browser": {"name": "chromium"}}
    (tmp_path / "second").write_text(json.dumps({"log": written}))
    lost = HarSegment(tmp_path / "first", kept(RequestRecord("http://a/", "GET", start, status=200)))
    log = merge_har([lost, HarSegment(tmp_path / "second", kept())])["log"]
    assert [entry["request"]["url"] for entry in log["entries"]] == ["http://a/", "http://b/"]
    assert log["browser"] == {"name": "chromium"}
    assert log["comment"].startswith("only what was seen of 1 requests")
    assert "comment" not in merge_har([HarSegment(tmp_path / "second", kept())])["log"]


def test_requests_that_fell_out_are_counted(tmp_path: Path) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    asked = [RequestRecord(f"http://a/{number}", "GET", start) for number in range(9)]
    log = merge_har([HarSegment(tmp_path / "lost", kept(*asked, most=4))])["log"]
    assert [entry["request"]["url"] for entry in log["entries"]] == [f"http://a/{number}" for number in range(5, 9)]
    assert log["comment"].startswith("only what was seen of 4 requests (5 older ones were dropped)")


def test_of_a_flood_the_newest_requests_are_kept_and_the_others_counted(tmp_path: Path) -> None:
    entries = [entry(str(number), "") for number in range(MOST_ENTRIES + 7)]
    (tmp_path / "flood").write_text(json.dumps({"log": {"entries": entries}}))
    log = merge_har([HarSegment(tmp_path / "flood", kept())])["log"]
    assert [each["request"]["url"] for each in log["entries"]] == [each["request"]["url"] for each in entries[7:]]
    assert log["comment"] == f"7 older requests were left out: the last {MOST_ENTRIES} are kept"


def test_a_recording_that_is_too_long_is_told_by_the_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.browser.har.MOST_BYTES", 10)
    (tmp_path / "long").write_text(json.dumps({"log": {"entries": [entry("long", "")]}}))
    seen = RequestRecord("http://a/", "GET", datetime(2026, 1, 1, tzinfo=UTC))
    log = merge_har([HarSegment(tmp_path / "long", kept(seen))])["log"]
    assert [each["request"]["url"] for each in log["entries"]] == ["http://a/"]
    assert "wrote more than can be read" in log["comment"]


def test_a_copy_of_a_segment_stays_as_it_was_while_pages_send_on(tmp_path: Path) -> None:
    """A thread writes the HAR: a page that went on sending made it fail (`deque mutated during iteration`)."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    seen = kept(*(RequestRecord(f"http://a/{number}", "GET", start) for number in range(3)), most=2)
    copy = HarSegment(tmp_path / "none.har", seen).copy()
    entries = iter(copy.seen)
    next(entries)
    seen.append(RequestRecord("http://a/late", "POST", start))
    assert [next(entries).url, copy.seen.dropped, copy.seen.maxlen] == ["http://a/2", 1, 2]
    assert [each["request"]["url"] for each in merge_har([copy])["log"]["entries"]] == ["http://a/1", "http://a/2"]
