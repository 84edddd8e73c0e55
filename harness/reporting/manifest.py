"""manifest.json: each artifact taken, skipped or missed, why, and when (DESIGN 4.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from harness.model.ports import Item, Json
from harness.model.report import ErrorReport

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


@dataclass(frozen=True, slots=True)
class Entry:
    """What became of one artifact."""

    name: str
    status: Literal["taken", "skipped", "missed"]
    reason: str = ""
    """Why not; of one that was taken: what is special about it."""
    seconds: float = 0.0
    """How long it took, redaction included."""
    bytes: int = 0
    at: datetime | None = None
    """When it was taken, or tried; None: it never was."""

    def as_json(self) -> dict[str, Json]:
        found = {"name": self.name, "status": self.status, "seconds": round(self.seconds, 3), "bytes": self.bytes}
        when = {"at": self.at.astimezone(UTC).isoformat().replace("+00:00", "Z")} if self.at else {}
        return found | when | ({"reason": self.reason} if self.reason else {})


def taken(path: Path, seconds: float, item: Item | None = None) -> Entry:
    """A file that is there. `item`: what the evidence says of it; without one it was made as it was written."""
    state = path.stat()
    spent, reason, at = (item.seconds, item.reason, item.at) if item else (0.0, "", None)
    at = at or datetime.fromtimestamp(state.st_mtime, UTC)
    return Entry(path.name, "taken", reason, spent + seconds, state.st_size, at)


def absent(name: str, item: Item | None, why: str) -> Entry:
    """An artifact that is not there, with the reason the evidence gives; `why` where it names none."""
    if item is None:
        return Entry(name, "missed", why)
    if item.status == "taken":
        return Entry(name, "missed", "said to be taken, but its file is not there", item.seconds, at=item.at)
    return Entry(name, item.status, item.reason or "no reason known", item.seconds, at=item.at)


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
