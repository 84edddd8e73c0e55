"""The joined trace: our steps, requests and console lines beside what Playwright has written, each once."""

from __future__ import annotations

import json
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.model.ports import Evidence
from harness.model.record import ConsoleLine, StepRecord, TaskResult
from harness.recovery import Retry
from harness.recovery.failure import Failure
from harness.reporting.whole_trace import write_whole_trace
from harness.values import replace
from tests.unit.reporting import sample

ORIGIN = sample.START.timestamp() * 1000 - 5000
"""Playwright's clock showed five seconds when the task began."""
MISSING = Failure("ELEMENT_NOT_FOUND", "no element matches #a", "#a")


def at(seconds: float) -> float:
    """On Playwright's clock, in milliseconds."""
    return 5000 + seconds * 1000


def result() -> TaskResult:
    """Two steps that pass, and one that fails twice, at 1.0 s and 2.0 s."""
    plan = sample.plan()
    records = sample.passed_records(plan, 2)
    step = plan.steps[3]
    first = sample.attempt(step, 1.0, 0.5, MISSING)
    records.append(StepRecord(3, step, (first, sample.attempt(step, 2.0, 0.5, MISSING, Retry(0.5)))))
    return replace(sample.failed(plan), history=tuple(records), failure=MISSING, failed_index=3, started=sample.START)


def request(seconds: float, url: str, **content: Any) -> dict[str, Any]:
    moment = (sample.START + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
    return {
        "startedDateTime": moment, "pageref": "page_1", "time": 1,
        "request": {"method": "GET", "url": url}, "response": {"status": 200, "content": content},
    }  # fmt: skip


def playwright(path: Path, events: list[dict[str, Any]], network: list[dict[str, Any]], start: float) -> None:
    options = {
        "version": 10, "type": "context-options", "origin": "library", "monotonicTime": at(start),
        "wallTime": ORIGIN + at(start), "playwrightVersion": "1.65.2", "platform": "linux",
    }  # fmt: skip
    with zipfile.ZipFile(path, "w") as made:
        lines = (json.dumps(each, separators=(",", ":")) for each in (options, *events))
        made.writestr("trace.trace", "".join(f"{line}\n" for line in lines))
        seen = ({"type": "resource-snapshot", "snapshot": each} for each in network)
        made.writestr("trace.network", "".join(json.dumps(each) + "\n" for each in seen))
        made.writestr("resources/a.css", "body{}")


CLICK = {"type": "before", "callId": "c1", "startTime": at(2.1), "method": "click", "params": {}}
LOOK = {
    "type": "before", "callId": "c2", "startTime": at(2.9), "params": {"expression": "() => document.readyState"}
}  # fmt: skip
SAID = {"type": "console", "messageType": "error", "text": "it broke", "time": at(2.2)}
STYLE = request(2.3, "http://shop.local/late.css")
FIRST = request(0.1, "http://shop.local/", text="<p>shop", mimeType="text/html; charset=utf-8", size=7)


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    """As after a failure at 1.0 s: Playwright has recorded from 1.5 s on, our records have everything."""
    playwright(tmp_path / "trace.zip", [CLICK, LOOK, SAID], [STYLE], start=1.5)
    har = {"log": {"entries": [FIRST, request(0.2, "http://shop.local/a.png", text="AAEC", encoding="base64"), STYLE]}}
    (tmp_path / "network_logs.har").write_text(json.dumps(har))
    lines = ((0.3, "LOG", "hello"), (2.2, "ERROR", "it broke"), (0.4, "ERROR", "it broke"))
    said = (
        ConsoleLine(sample.START + timedelta(seconds=t), level, text, "http://x/a.js:7") for t, level, text in lines
    )
    return Evidence(tmp_path, console=tuple(said))


def joined(evidence: Evidence) -> dict[str, Any]:
    target = evidence.folder / "whole.zip"
    write_whole_trace(target, result(), evidence)
    with zipfile.ZipFile(target) as made:
        assert len(made.namelist()) == len(set(made.namelist()))
        return {name: made.read(name) for name in made.namelist()}


def events(found: dict[str, Any], name: str, kind: str) -> list[dict[str, Any]]:
    return [each for each in map(json.loads, found[name].splitlines()) if each["type"] == kind]


def test_every_step_of_the_task_is_an_action_on_playwrights_clock(evidence: Evidence) -> None:
    found = joined(evidence)
    began = {each["callId"]: each for each in events(found, "test.trace", "before")}
    assert [began[call]["startTime"] for call in ("step@0", "step@1", "step@2")] == [at(0), at(0.5), at(1)]
    assert began["step@0"]["title"] == "0  open http://shop.local/"
    assert began["step@2.1"]["parentId"] == "step@2"
    assert began["step@2.1"]["title"].startswith("RETRY (after 0.5s): FAILED")
    ended = {each["callId"]: each for each in events(found, "test.trace", "after")}
    assert ended["step@2"]["error"] == {"name": "ELEMENT_NOT_FOUND", "message": "no element matches #a"}
    assert "error" not in ended["step@0"]
    assert [each["message"] for each in events(found, "test.trace", "error")] == [
        "ELEMENT_NOT_FOUND: no element matches #a"
    ]


def test_playwrights_actions_stand_under_the_attempt_they_belong_to(evidence: Evidence) -> None:
    click, look = events(joined(evidence), "trace.trace", "before")
    assert click["parentId"] == "step@2.1"
    assert (look.get("parentId"), look["title"]) == (None, "The page at the end")


def test_requests_and_console_lines_stand_there_once(evidence: Evidence) -> None:
    found = joined(evidence)
    ours = [each["snapshot"] for each in events(found, "test.network", "resource-snapshot")]
    assert [each["request"]["url"] for each in ours] == ["http://shop.local/", "http://shop.local/a.png"]
    assert [each["_monotonicTime"] for each in ours] == [at(0.1), at(0.2)]
    bodies = [found[each["response"]["content"]["_file"]] for each in ours]
    assert bodies == [b"<p>shop", b"\0\1\2"]
    assert ours[0]["response"]["content"]["_file"].endswith(".html")
    assert found["resources/a.css"] == b"body{}"
    said = events(found, "test.trace", "console")
    assert [(each["text"], each["messageType"], each["time"]) for each in said] == [
        ("hello", "log", at(0.3)),
        ("it broke", "error", at(0.4)),
    ]
    assert said[0]["location"] == {"url": "http://x/a.js", "lineNumber": 7, "columnNumber": 0}


def test_the_contexts_before_are_kept(evidence: Evidence) -> None:
    playwright(evidence.folder / "trace-1.zip", [CLICK], [], start=0.5)
    found = joined(evidence)
    assert {"test.trace", "1-trace.trace", "trace.trace", "1-trace.network"} <= found.keys()
    assert [each["callId"] for each in events(found, "1-trace.trace", "before")] == ["c1"]


def test_without_any_trace_of_playwrights_our_records_make_one(tmp_path: Path) -> None:
    found = joined(Evidence(tmp_path))
    assert set(found) == {"test.trace", "test.network"}
    assert events(found, "test.trace", "before")[1]["startTime"] == 500


def test_a_trace_of_playwrights_that_cannot_be_read_is_left_out_and_said(evidence: Evidence) -> None:
    (evidence.folder / "trace.zip").write_bytes(b"PK no zip")
    found = joined(evidence)
    assert "trace.trace" not in found
    assert "Playwright's own trace could not be read" in events(found, "test.trace", "error")[-1]["message"]
