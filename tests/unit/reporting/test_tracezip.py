"""A Playwright trace without secrets. The events are those that Playwright 1.65 writes."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from harness.reporting.redact_files import redact_trace
from harness.reporting.redaction import MARK, Redactor

EVENTS: list[dict[str, Any]] = [
    {"type": "context-options", "options": {"httpCredentials": {"username": "ann", "password": "basic-pw"}}},
    {"type": "before", "callId": "c1", "method": "fill", "params": {"selector": "#pw", "value": "hunter2xyz"}},
    {"type": "log", "callId": "c1", "message": '  fill("hunter2xyz")'},
    {"type": "before", "callId": "c2", "method": "fill", "params": {"selector": "#pin", "value": "12"}},
    {"type": "log", "callId": "c2", "message": '  fill("12")'},
    {"type": "before", "callId": "c3", "method": "fill", "params": {"selector": "#q", "value": "mouse 12"}},
    {"type": "frame-snapshot", "snapshot": {"html": ["HTML", {}, [[1, 2]], ["BODY", {}, [
        "INPUT", {"type": "password", "__playwright_value_": "typed-pw", "value": "old"}]]]}},
    {"type": "before", "callId": "c4", "method": "setStorageState", "params": {"storageState": {
        "cookies": [{"name": "sid", "value": "put-cookie", "domain": "x"}],
        "origins": [{"origin": "http://x", "localStorage": [{"name": "tok", "value": "put-local"}],
                     "indexedDB": [{"stores": [{"records": [{"key": "k", "value": "put-db"}]}]}]}]}}},
    {"type": "before", "callId": "c5", "method": "storageState", "params": {"indexedDB": True}},
    {"type": "after", "callId": "c5", "result": {"cookies": [{"name": "sid", "value": "read-cookie"}], "origins": []}},
    {"type": "console", "text": "saved env-secret and typed-pw"},
]  # fmt: skip
NETWORK = {"type": "resource-snapshot", "snapshot": {
    "request": {"url": "http://x/p", "headers": [{"name": "Authorization", "value": "Bearer zzz"}], "cookies": [],
                "postData": {"mimeType": "application/json", "text": "", "_file": "resources/b.json"}},
    "response": {"status": 200, "headers": [{"name": "set-cookie", "value": "sid=abc"}], "content": {}}}}  # fmt: skip
PICTURE = b"\xff\xd8\xff env-secret"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "raw.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("trace.trace", "".join(json.dumps(event) + "\n" for event in EVENTS))
        made.writestr("trace.network", json.dumps(NETWORK) + "\n")
        made.writestr("resources/b.json", '{"password":"hunter2xyz","u":"env-secret"}')
        made.writestr("resources/c.dat", "u=&pw=form-pw")
        made.writestr("screencast/p.jpeg", PICTURE)
    return path


def _read(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as made:
        assert made.testzip() is None
        return {name: made.read(name) for name in made.namelist()}


def test_secrets_go_from_every_entry(trace: Path, tmp_path: Path) -> None:
    redact_trace(trace, tmp_path / "out.zip", Redactor(["env-secret"]))
    found = _read(tmp_path / "out.zip")
    del found["screencast/p.jpeg"]
    everything = b"\n".join(found.values()).decode()
    for secret in ("basic-pw", "hunter2xyz", "typed-pw", '"old"', "env-secret", "Bearer zzz", "sid=abc", "form-pw"):
        assert secret not in everything
    assert f'fill(\\"{MARK}\\")' in everything


def test_a_session_cannot_be_taken_from_a_trace(trace: Path, tmp_path: Path) -> None:
    redact_trace(trace, tmp_path / "out.zip", Redactor([]))
    found = _read(tmp_path / "out.zip")["trace.trace"].decode()
    assert [each for each in ("put-cookie", "put-local", "put-db", "read-cookie") if each in found] == []
    assert '"name":"tok"' in found


def test_entries_events_and_pictures_stay(trace: Path, tmp_path: Path) -> None:
    redact_trace(trace, tmp_path / "out.zip", Redactor(["env-secret"]))
    found = _read(tmp_path / "out.zip")
    assert list(found) == list(_read(trace))
    events = [json.loads(line) for line in found["trace.trace"].splitlines()]
    assert [event["type"] for event in events] == [event["type"] for event in EVENTS]
    assert events[5]["params"]["value"] == "mouse 12"
    assert found["screencast/p.jpeg"] == PICTURE


def test_an_empty_password_field_stays_empty(tmp_path: Path) -> None:
    """Dots in a field that nobody has typed into would send whoever looks for the cause the wrong way."""
    html = ["HTML", {}, ["INPUT", {"type": "password", "__playwright_value_": "", "value": ""}]]
    events: list[dict[str, Any]] = [
        {"type": "before", "callId": "c1", "method": "fill", "params": {"selector": "#password", "value": ""}},
        {"type": "log", "callId": "c1", "message": '  fill("")'},
        {"type": "frame-snapshot", "snapshot": {"html": html}},
    ]
    with zipfile.ZipFile(tmp_path / "raw.zip", "w") as made:
        made.writestr("trace.trace", "".join(json.dumps(event) + "\n" for event in events))
        made.writestr("resources/page.html", "<input type=password value=''>")
        made.writestr("resources/form.dat", "user=ann&password=")
        made.writestr("resources/login.json", '{"password":""}')
    redact_trace(tmp_path / "raw.zip", tmp_path / "out.zip", Redactor(["env-secret"]))
    assert MARK.encode() not in b"".join(_read(tmp_path / "out.zip").values())


def test_a_broken_trace_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_bytes(b"PK no zip")
    with pytest.raises(zipfile.BadZipFile):
        redact_trace(tmp_path / "bad.zip", tmp_path / "out.zip", Redactor())
