"""Rewrites a Playwright trace.zip without secrets; entry names stay, so that the trace viewer still opens it."""

from __future__ import annotations

import json
import mimetypes
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from harness.model.ports import Json
from harness.reporting.addresses import MARK
from harness.reporting.bodies import mask_named, redact_bytes
from harness.reporting.har import redact_entry
from harness.reporting.redaction import Redactor
from harness.reporting.secrets import is_secret_name

_LINES = (".trace", ".network")
_FILL = re.compile(r'(\b(?:fill|type|press_sequentially|pressSequentially)\()".+"(\))', re.DOTALL)
_WORTH_SEARCHING = 6
"""A typed password of this length is looked for everywhere; a shorter one only where it was typed."""


def redact_trace(source: Path, target: Path, redactor: Redactor) -> None:
    """Raises zipfile.BadZipFile, zlib.error, OSError or ValueError when the trace cannot be read."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
        typed = {value for name in old.namelist() if name.endswith(".trace") for value in _typed(old.read(name))}
        redactor = redactor.plus(value for value in typed if len(value) >= _WORTH_SEARCHING)
        for info in old.infolist():
            if not info.is_dir():
                new.writestr(info.filename, _entry(info.filename, old.read(info), redactor))


def _entry(name: str, data: bytes, redactor: Redactor) -> bytes:
    if name.endswith(_LINES):
        return "".join(_lines(data, redactor)).encode()
    mime = mimetypes.guess_type(PurePosixPath(name).name)[0] or ""
    if name.startswith("screencast/"):  # pictures that the browser took: pixels, which may show anything
        return data
    return redact_bytes(data, mime, redactor)


def _events(data: bytes) -> Iterator[Json]:
    for line in data.decode().split("\n"):
        if line.strip():
            yield json.loads(line)


def _lines(data: bytes, redactor: Redactor) -> Iterator[str]:
    secret_calls: set[str] = set()
    addresses = redactor.for_addresses()
    for event in _events(data):
        if event.get("type") == "before" and _fills_secret(event):
            secret_calls.add(event["callId"])
        masked = redactor.strings(_event(event, secret_calls, addresses))
        yield json.dumps(masked, ensure_ascii=False, separators=(",", ":")) + "\n"


def _event(event: Json, secret_calls: set[str], addresses: Redactor) -> Json:
    match event.get("type"):
        case "resource-snapshot":
            return {**event, "snapshot": redact_entry(event["snapshot"], addresses)}
        case "frame-snapshot":
            return {**event, "snapshot": {**event["snapshot"], "html": _tree(event["snapshot"].get("html"))}}
        case "before" if event["callId"] in secret_calls:
            params = {key: MARK if key in ("value", "text") and item else item for key, item in event["params"].items()}
            return {**event, "params": params}
        case "log" if event.get("callId") in secret_calls:
            return {**event, "message": _FILL.sub(rf'\1"{MARK}"\2', str(event.get("message", "")))}
        case "before" | "context-options":
            return mask_named(event)
        case _:
            return event


def _fills_secret(event: Json) -> bool:
    params = event.get("params") or {}
    return event.get("method") in ("fill", "type") and is_secret_name(str(params.get("selector", "")))


def _tree(node: Json) -> Json:
    """A DOM snapshot (`[name, attributes, ...children]`) without what password fields hold; an empty one stays so."""
    if not isinstance(node, list):
        return node
    if _is_password(node):
        values = ("value", "__playwright_value_")
        hidden = {key: MARK if key in values and item else item for key, item in node[1].items()}
        return [node[0], hidden, *node[2:]]
    return [_tree(item) for item in node]


def _is_password(node: list[Json]) -> bool:
    return (
        len(node) > 1 and node[0] == "INPUT" and isinstance(node[1], dict)
        and str(node[1].get("type", "")).lower() == "password"
    )  # fmt: skip


def _typed(data: bytes) -> Iterator[str]:
    """What was typed into password fields, as the actions and the snapshots have it."""
    for event in _events(data):
        if event.get("type") == "before" and _fills_secret(event):
            yield from (str(event["params"][key]) for key in ("value", "text") if key in event["params"])
        elif event.get("type") == "frame-snapshot":
            yield from _passwords(event["snapshot"].get("html"))


def _passwords(node: Json) -> Iterator[str]:
    if isinstance(node, list):
        if _is_password(node):
            yield from (str(node[1][key]) for key in ("value", "__playwright_value_") if node[1].get(key))
        for item in node:
            yield from _passwords(item)
