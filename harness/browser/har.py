"""network_logs.har: Playwright's recordings as one, or one made of what the watch saw. Pure but for `load`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.browser.exchange import Exchange

BODY_CHARACTERS = 100_000
CREATOR = {"name": "pytest-taskspec", "version": "1"}


def load(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """The `log` objects of the files that can be read."""
    logs = []
    for path in paths:
        try:
            logs.append(json.loads(path.read_text(encoding="utf-8"))["log"])
        except (OSError, ValueError, KeyError):
            continue
    return logs


def merged(logs: list[dict[str, Any]]) -> dict[str, Any]:
    """One HAR of several, in order; long bodies are left out."""
    entries = [_shortened(entry) for log in logs for entry in log.get("entries", [])]
    pages = [page for log in logs for page in log.get("pages", [])]
    head = {"version": "1.2", "creator": CREATOR}
    if logs and "browser" in logs[-1]:
        head["browser"] = logs[-1]["browser"]
    return {"log": {**head, "pages": pages, "entries": entries}}


def _shortened(entry: dict[str, Any]) -> dict[str, Any]:
    content = entry.get("response", {}).get("content", {})
    text = content.get("text")
    if text is not None and len(text) > BODY_CHARACTERS:
        kept = {key: value for key, value in content.items() if key not in ("text", "encoding")}
        kept["comment"] = f"body of {len(text)} characters left out"
        return {**entry, "response": {**entry["response"], "content": kept}}
    return entry


def of_exchanges(exchanges: Iterable[Exchange]) -> dict[str, Any]:
    """A HAR 1.2 without bodies, for when the browser can no longer write its own."""
    return {"log": {"version": "1.2", "creator": CREATOR, "pages": [], "entries": [_entry(e) for e in exchanges]}}


def _entry(exchange: Exchange) -> dict[str, Any]:
    nothing = {"headersSize": -1, "bodySize": -1}
    return {
        "startedDateTime": exchange.started.isoformat().replace("+00:00", "Z"),
        "time": 0,
        "request": {
            "method": exchange.method,
            "url": exchange.url,
            "httpVersion": "",
            "cookies": [],
            "headers": [],
            "queryString": [],
            **nothing,
        },
        "response": {
            "status": exchange.status if exchange.status is not None else -1,
            "statusText": "",
            "httpVersion": "",
            "cookies": [],
            "headers": _pairs(exchange.headers),
            "content": {"size": -1, "mimeType": exchange.headers.get("content-type", "x-unknown")},
            "redirectURL": "",
            **nothing,
            **({"_failureText": exchange.error} if exchange.error else {}),
        },
        "cache": {},
        "timings": {"send": -1, "wait": -1, "receive": -1},
    }


def _pairs(headers: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in headers.items()]
