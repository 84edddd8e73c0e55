"""HARs lose their secrets and keep their use."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from harness.reporting.redact_files import redact_har
from harness.reporting.redaction import MARK, Redactor

SECRETS = ("Bearer zzz", "sid=abc", "sid-value", "hunter2", "tok-99", "qqq-url", "frame-pw")


def har(**entry: Any) -> dict[str, Any]:
    first = {
        "startedDateTime": "2025-11-16T09:00:00Z",
        "time": 12.4,
        "request": {
            "method": "POST",
            "url": "http://x.local/p?token=qqq-url&q=1",
            "headers": [
                {"name": "Authorization", "value": "Bearer zzz"},
                {"name": "cookie", "value": "sid=abc"},
                {"name": "Referer", "value": "http://x.local/?token=qqq-url"},
                {"name": "Accept", "value": "*/*"},
            ],
            "cookies": [{"name": "sid", "value": "sid-value"}],
            "queryString": [{"name": "token", "value": "qqq-url"}, {"name": "q", "value": "1"}],
            "postData": {
                "mimeType": "application/x-www-form-urlencoded",
                "text": "password=hunter2&u=ann",
                "params": [{"name": "password", "value": "hunter2"}, {"name": "u", "value": "ann"}],
            },
        },
        "response": {
            "status": 200,
            "statusText": "OK",
            "headers": [{"name": "Set-Cookie", "value": "sid=abc"}],
            "cookies": [{"name": "sid", "value": "sid-value"}],
            "content": {
                "mimeType": "application/json",
                "encoding": "base64",
                "text": base64.b64encode(b'{"ok":true,"token":"tok-99"}').decode(),
            },
        },
        "_webSocketMessages": [{"type": "send", "time": 1, "opcode": 1, "data": '{"password":"frame-pw"}'}],
    }
    return {"log": {"version": "1.2", "pages": [{"title": "Shop"}], "entries": [first | entry]}}


def test_nothing_secret_is_left() -> None:
    document: Any = redact_har(har(), Redactor())
    entry = document["log"]["entries"][0]
    text = json.dumps(document) + base64.b64decode(entry["response"]["content"]["text"]).decode()
    assert not [secret for secret in SECRETS if secret in text]


def test_the_rest_stays() -> None:
    entry = redact_har(har(), Redactor())["log"]["entries"][0]
    assert entry["request"]["url"] == f"http://x.local/p?token={MARK}&q=1"
    assert entry["request"]["postData"]["text"] == f"password={MARK}&u=ann"
    assert entry["request"]["headers"][3] == {"name": "Accept", "value": "*/*"}
    assert (entry["time"], entry["response"]["status"]) == (12.4, 200)


def test_secrets_by_value_anywhere() -> None:
    document = redact_har(har(comment="the-value"), Redactor(["the-value", "Shop"]))
    assert document["log"]["entries"][0]["comment"] == MARK
    assert document["log"]["pages"] == [{"title": MARK}]


def test_no_har_is_refused() -> None:
    documents: list[Any] = [{}, [], {"log": {"entries": [1]}}, {"log": {"entries": None}}]
    for document in documents:
        with pytest.raises(ValueError, match="not a HAR"):
            redact_har(document, Redactor())


PIECES = "first-part&second-part=third+part"


def test_the_pieces_of_a_secret_that_an_address_has_split() -> None:
    pairs = [
        {"name": "k", "value": "first-part"},
        {"name": "second-part", "value": "third part"},
        {"name": "q", "value": "mouse"},
    ]
    request = {"method": "GET", "url": f"http://x.local/p?k={PIECES}&q=mouse", "headers": [], "queryString": pairs}
    shown = redact_har(har(request=request), Redactor([PIECES]))["log"]["entries"][0]["request"]
    assert shown["url"] == f"http://x.local/p?k={MARK}&q=mouse"
    assert shown["queryString"] == [{"name": "k", "value": MARK}, {"name": "q", "value": "mouse"}]


def test_the_pieces_of_a_secret_that_begins_in_the_path() -> None:
    pairs = [{"name": "second-part", "value": "x"}]
    request = {"method": "GET", "url": "http://x.local/first?second-part=x", "headers": [], "queryString": pairs}
    shown = redact_har(har(request=request), Redactor(["first?second-part"]))["log"]["entries"][0]["request"]
    assert (shown["url"], shown["queryString"]) == (f"http://x.local/{MARK}=x", [])


def test_the_pieces_of_a_secret_that_a_form_has_split() -> None:
    pairs = [{"name": "pieces", "value": "first-part"}, {"name": "second-part", "value": "third part"}]
    body = {"mimeType": "application/x-www-form-urlencoded", "text": f"pieces={PIECES}", "params": pairs}
    request = {"method": "POST", "url": "http://x.local/", "headers": [], "postData": body}
    shown = redact_har(har(request=request), Redactor([PIECES]))["log"]["entries"][0]["request"]["postData"]
    assert (shown["text"], shown["params"]) == (f"pieces={MARK}", [{"name": "pieces", "value": MARK}])
