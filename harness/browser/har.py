"""network_logs.har: Playwright's recordings as one file, or the observed requests of a context without a recording."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from harness.browser.exchanges import RequestRecord
from harness.browser.flood import Newest

BODY_CHARACTERS = 100_000
MOST_ENTRIES = 2000
"""The number of newest requests that are kept: a page that sends them without end would fill the disk."""
MOST_BYTES = 128 * 2**20
"""A longer recording is not read; the newest observed requests replace it."""
_CREATOR = {"name": "pytest-taskspec", "version": "1"}


class HarSegment(Struct, frozen=True):
    """The requests of one context: the file that Playwright writes when it closes, and those observed until then."""

    path: Path
    seen: Newest[RequestRecord]

    def copy(self) -> HarSegment:
        """The same as it is now: pages may still send, and what they send is appended on the loop's thread."""
        return HarSegment(self.path, self.seen.copy())


def merge_har(segments: Sequence[HarSegment]) -> dict[str, Any]:
    """One HAR of all contexts in their order; `log.comment` says which parts were only observed, or left out."""
    logs, watched, dropped = [], 0, 0
    for segment in segments:
        written = load([segment.path])
        logs += written or [of_exchanges(segment.seen)["log"]]
        watched += 0 if written else len(segment.seen)
        dropped += 0 if written else segment.seen.dropped
    document = merge_logs(logs)
    log, comments = document["log"], []
    if watched:
        older = f" ({dropped} older ones were dropped)" if dropped else ""
        comments.append(
            f"only what was seen of {watched} requests{older}, without bodies: the browser ended before it "
            "wrote more, or wrote more than can be read"
        )
    if (left_out := len(log["entries"]) - MOST_ENTRIES) > 0:
        log["entries"] = log["entries"][left_out:]
        comments.append(f"{left_out} older requests were left out: the last {MOST_ENTRIES} are kept")
    if comments:
        log["comment"] = "; ".join(comments)
    return document


def load(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """The `log` objects of the files that can be read and are not longer than MOST_BYTES."""
    logs = []
    for path in paths:
        with suppress(OSError, ValueError, KeyError):
            if path.stat().st_size <= MOST_BYTES:
                logs.append(json.loads(path.read_text(encoding="utf-8"))["log"])
    return logs


def merge_logs(logs: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge several logs in order; long bodies are left out."""
    entries = [_shortened(entry) for log in logs for entry in log.get("entries", [])]
    pages = [page for log in logs for page in log.get("pages", [])]
    head = {"version": "1.2", "creator": _CREATOR}
    if browsers := [log["browser"] for log in logs if "browser" in log]:
        head["browser"] = browsers[-1]
    return {"log": {**head, "pages": pages, "entries": entries}}


def _shortened(entry: dict[str, Any]) -> dict[str, Any]:
    content = entry.get("response", {}).get("content", {})
    text = content.get("text")
    if text is None or len(text) <= BODY_CHARACTERS:
        return entry
    kept = {key: value for key, value in content.items() if key not in ("text", "encoding")}
    kept["comment"] = f"body of {len(text)} characters left out"
    return {**entry, "response": {**entry["response"], "content": kept}}


def of_exchanges(exchanges: Iterable[RequestRecord]) -> dict[str, Any]:
    """A HAR 1.2 without bodies, for when the browser can no longer write its own."""
    return {"log": {"version": "1.2", "creator": _CREATOR, "pages": [], "entries": [_entry(e) for e in exchanges]}}


def _entry(exchange: RequestRecord) -> dict[str, Any]:
    unknown = {"httpVersion": "", "cookies": [], "headersSize": -1, "bodySize": -1}
    return {
        "startedDateTime": exchange.started.isoformat().replace("+00:00", "Z"),
        "time": 0,
        "request": {"method": exchange.method, "url": exchange.url, "headers": [], "queryString": [], **unknown},
        "response": {
            "status": exchange.status if exchange.status is not None else -1,
            "statusText": "",
            "headers": [{"name": name, "value": value} for name, value in exchange.headers.items()],
            "content": {"size": -1, "mimeType": exchange.headers.get("content-type", "x-unknown")},
            "redirectURL": "",
            **unknown,
            **({"_failureText": exchange.error} if exchange.error else {}),
        },
        "cache": {},
        "timings": {"send": -1, "wait": -1, "receive": -1},
    }
