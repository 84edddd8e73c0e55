"""manifest.json: each artifact taken, skipped or missed, and why (DESIGN 4.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.ports import Item, Json
from harness.report import ErrorReport

NAMES = (
    "error_report.json",
    "screenshot.png",
    "dom_snapshot.html",
    "memory_snapshot.json",
    "env_snapshot.json",
    "console_logs.txt",
    "network_logs.har",
    "partial_trace.json",
    "trace.zip",
)
"""The artifacts of a failed task, in the order in which people look at them."""

MANIFEST = "manifest.json"
STRATEGY = "strategy"


@dataclass(frozen=True, slots=True)
class Entry:
    """What became of one artifact."""

    name: str
    status: Literal["taken", "skipped", "missed"]
    reason: str = ""
    seconds: float = 0.0
    bytes: int = 0

    def as_json(self) -> dict[str, Json]:
        found = {"name": self.name, "status": self.status, "seconds": round(self.seconds, 3), "bytes": self.bytes}
        return found | ({"reason": self.reason} if self.reason else {})


def taken(path: Path, seconds: float) -> Entry:
    return Entry(path.name, "taken", "", seconds, path.stat().st_size)


def absent(name: str, item: Item | None) -> Entry:
    """An artifact that is not there, with the reason the evidence gives."""
    if item is None:
        return Entry(name, "missed", "the browser gave none")
    if item.status == "taken":
        return Entry(name, "missed", "said to be taken, but its file is not there", item.seconds)
    reason = item.reason or (STRATEGY if item.status == "skipped" else "no reason known")
    return Entry(name, item.status, reason, item.seconds)


def manifest(
    report: ErrorReport, key: str, run: str, entries: Sequence[Entry], files: Sequence[Entry]
) -> dict[str, Json]:
    """The document; `run` is the run that wrote the directory."""
    order = {name: place for place, name in enumerate(NAMES)}
    return {
        "task_id": report.task_id,
        "key": key,
        "run": run,
        "source": report.source,
        "final_state": report.final_state,
        "code": report.code,
        "expected": report.expected,
        "artifacts": [entry.as_json() for entry in sorted(entries, key=lambda entry: order[entry.name])],
        "files": [entry.as_json() for entry in files],
    }
