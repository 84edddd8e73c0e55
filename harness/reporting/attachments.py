"""What of a finished task is shown in a report, under which name and type."""

from __future__ import annotations

import csv
import io
import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.ports import Json
from harness.record import Score, TaskResult
from harness.reporting.documents import read_json
from harness.reporting.har import failed_requests
from harness.reporting.redaction import Redactor

TEXT, JSON, CSV = "text/plain", "application/json", "text/csv"
TRACE = "application/vnd.allure.playwright-trace"


@dataclass(frozen=True, slots=True)
class Content:
    """One attachment: a file, or a text."""

    name: str
    mime: str
    extension: str
    path: Path | None = None
    data: str = ""

    @classmethod
    def of(cls, path: Path) -> Content:
        """A file that a step kept, by its own name."""
        guessed = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        mime = TRACE if path.name == "trace.zip" else guessed
        return cls(path.name, mime, path.suffix.lstrip(".") or "bin", path)


_FILES = (
    ("error report", "error_report.json", JSON, "json"),
    ("screenshot", "screenshot.png", "image/png", "png"),
    ("Playwright trace", "trace.zip", TRACE, "zip"),
    ("DOM snapshot", "dom_snapshot.html", "text/html", "html"),
    ("memory", "memory_snapshot.json", JSON, "json"),
    ("environment", "env_snapshot.json", JSON, "json"),
    ("console", "console_logs.txt", TEXT, "txt"),
    ("network (HAR)", "network_logs.har", JSON, "json"),
    ("step trace", "partial_trace.json", JSON, "json"),
    ("manifest", "manifest.json", JSON, "json"),
)
_AT_THE_STEP = ("error_report.json", "screenshot.png")


def on_test(result: TaskResult, redactor: Redactor) -> Iterator[Content]:
    """Everything; for a passing task its warnings."""
    folder = result.artifacts
    if folder is not None:
        yield from _there(folder, tuple(file for _, file, _, _ in _FILES))
        yield from _failed_requests(folder / "network_logs.har")
        yield from (Content.of(path) for path in sorted((folder / "files").rglob("*")) if path.is_file())
    if result.score is not None:
        yield Content("score", CSV, "csv", data=_score(result.score, redactor))
    if result.faults:
        yield Content("faults", TEXT, "txt", data=redactor.text("\n".join(met.describe() for met in result.faults)))
    if result.warnings:
        lines = (f"step {w.step_index}: {w.type}: {w.message}" for w in result.warnings)
        yield Content("warnings", TEXT, "txt", data=redactor.text("\n".join(lines)))


def on_failing_step(result: TaskResult, redactor: Redactor) -> Iterator[Content]:
    """What explains the failure at a glance."""
    assertion = result.failure.assertion if result.failure else None
    if assertion is not None:
        yield Content("expected", TEXT, "txt", data=redactor.text(str(assertion.expected)))
        yield Content("actual", TEXT, "txt", data=redactor.text(str(assertion.actual)))
        if assertion.diff:
            yield Content("difference", TEXT, "diff", data=redactor.text(assertion.diff))
    if result.artifacts is not None:
        yield from _there(result.artifacts, _AT_THE_STEP)


def _there(folder: Path, names: tuple[str, ...]) -> Iterator[Content]:
    for name, file, mime, extension in _FILES:
        if file in names and (folder / file).is_file():
            yield Content(name, mime, extension, folder / file)


def _score(score: Score, redactor: Redactor) -> str:
    """A table: the metrics, each part with its weight, and the whole. Redacted before CSV doubles the quotes."""
    rows = [
        ("part", "weight", "value", "required", "why"),
        *((part.name, f"{part.weight:g}", int(part.met), part.required, part.reason) for part in score.parts),
        *((name, "", f"{value:g}", "", "rubric") for name, value in score.rubrics.items()),
        ("score", "", f"{score.total:g}", "", ""),
    ]
    table = io.StringIO()
    csv.writer(table).writerows([redactor.text(str(cell)) for cell in row] for row in rows)
    return table.getvalue()


def _failed_requests(har: Path) -> Iterator[Content]:
    """A small table; the HAR itself was redacted when it was kept."""
    try:
        document: Json = read_json(har)
    except (OSError, ValueError):
        return
    rows = [(r.method, r.url, r.status or "-", round(r.milliseconds), r.why) for r in failed_requests(document)]
    if rows:
        table = io.StringIO()
        csv.writer(table).writerows([("method", "url", "status", "ms", "why"), *rows])
        yield Content("failed requests", CSV, "csv", data=table.getvalue())
