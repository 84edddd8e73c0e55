"""Redacts a HAR."""

from __future__ import annotations

from urllib.parse import parse_qsl

from harness.model.ports import Json
from harness.reporting.addresses import MARK
from harness.reporting.bodies import redact_base64, redact_body
from harness.reporting.redaction import HEADERS, Redactor
from harness.reporting.secrets import is_secret_name


def redact_har(har: Json, redactor: Redactor) -> Json:
    """The document without secrets. ValueError when it is no HAR."""
    try:
        entries = [redact_entry(entry, redactor) for entry in har["log"]["entries"]]
        rest = redactor.strings({key: value for key, value in har["log"].items() if key != "entries"})
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a HAR: {error!r}") from error
    return {"log": {**rest, "entries": entries}}


def redact_entry(entry: Json, redactor: Redactor) -> Json:
    """One request with its response; also the form in which Playwright's traces keep them."""
    masked = dict(entry)
    for side in ("request", "response"):
        if isinstance(entry.get(side), dict):
            masked[side] = _message(entry[side], redactor)
    if "_webSocketMessages" in entry:
        frames = entry["_webSocketMessages"]
        masked["_webSocketMessages"] = [
            {**frame, "data": redact_body(str(frame.get("data", "")), "", redactor)} for frame in frames
        ]
    bodies = {"request", "response", "_webSocketMessages"}
    return {key: value if key in bodies else redactor.strings(value) for key, value in masked.items()}


def _message(message: Json, redactor: Redactor) -> Json:
    masked = dict(message)
    masked["headers"] = [_header(header, redactor) for header in message.get("headers", ())]
    masked["cookies"] = [{**cookie, "value": MARK} for cookie in message.get("cookies", ())]
    for key in ("url", "redirectURL"):
        if key in message:
            masked[key] = redactor.text(str(message[key]))
    if "queryString" in message:
        url = str(masked.get("url", "")).partition("#")[0]
        masked["queryString"] = _pairs(message["queryString"], url, url.partition("?")[2], redactor)
    for key in ("postData", "content"):
        if isinstance(message.get(key), dict):
            masked[key] = _body(message[key], redactor)
    treated = {"headers", "cookies", "url", "redirectURL", "queryString", "postData", "content"}
    return {key: value if key in treated else redactor.strings(value) for key, value in masked.items()}


def _header(header: Json, redactor: Redactor) -> Json:
    name, value = str(header.get("name", "")), str(header.get("value", ""))
    secret = name.lower() in HEADERS or is_secret_name(name)
    return {**header, "name": redactor.text(name), "value": MARK if secret else redactor.text(value)}


def _pairs(pairs: Json, redacted: str, form: str, redactor: Redactor) -> Json:
    """The pairs of an address or a body; they are read anew from its redacted `form` when a secret was in there.

    A `&`, `=` or `+` of the secret has split it into pieces, which do not show where they come from.
    """
    if MARK in redacted:
        found = parse_qsl(form, keep_blank_values=True)
        pairs = [{"name": name, "value": value} for name, value in found]
    return [_pair(pair, redactor) for pair in pairs]


def _pair(pair: Json, redactor: Redactor) -> Json:
    if is_secret_name(str(pair.get("name", ""))) and pair.get("value"):
        return {**redactor.strings(pair), "value": MARK}
    return redactor.strings(pair)


def _body(body: Json, redactor: Redactor) -> Json:
    mime = str(body.get("mimeType", ""))
    masked = dict(body)
    if isinstance(text := body.get("text"), str):
        change = redact_base64 if body.get("encoding") == "base64" else redact_body
        masked["text"] = change(text, mime, redactor)
    if "params" in body:
        form = str(masked.get("text", ""))
        masked["params"] = _pairs(body["params"], form, form, redactor)
    treated = {"text", "params"}
    return {key: value if key in treated else redactor.strings(value) for key, value in masked.items()}
