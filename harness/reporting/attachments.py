"""What of a finished task is shown in a report, under which name and type."""

from __future__ import annotations

import csv
import io
import json
import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.model.ports import Json
from harness.model.record import Score, TaskResult
from harness.reporting.attempt_page import attempt_page
from harness.reporting.documents import read_json, read_regular
from harness.reporting.har_page import har_page
from harness.reporting.redaction import Redactor
from harness.reporting.side_by_side import side_by_side

TEXT, JSON, CSV, HTML = "text/plain", "application/json", "text/csv", "text/html"
EXPECTED, ACTUAL = "expected", "actual"
TRACE = "application/vnd.allure.playwright-trace"
IN_FULL = "Playwright trace of the second run, in full"


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
    (IN_FULL, "trace_full.zip", TRACE, "zip"),
    ("DOM snapshot", "dom_snapshot.html", "text/html", "html"),
    ("memory", "memory_snapshot.json", JSON, "json"),
    ("environment", "env_snapshot.json", JSON, "json"),
    ("console", "console_logs.txt", TEXT, "txt"),
    ("network (HAR)", "network_logs.har", JSON, "json"),
    ("step trace", "partial_trace.json", JSON, "json"),
    ("manifest", "manifest.json", JSON, "json"),
)
_AT_THE_STEP = ("screenshot.png",)


def on_test(result: TaskResult, redactor: Redactor) -> Iterator[Content]:
    """Everything, what explains most first; for a passing task its warnings, and how it got there."""
    folder = result.artifacts
    if attempts := attempt_page(result, redactor):
        yield Content("attempts", HTML, "html", data=attempts)
    if folder is not None:
        yield from _explained(folder)
        yield from _there(folder, tuple(file for _, file, _, _ in _FILES))
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
        yield Content(EXPECTED, TEXT, "txt", data=redactor.text(_shown(assertion.expected)))
        yield Content(ACTUAL, TEXT, "txt", data=redactor.text(_shown(assertion.actual)))
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


def _shown(value: Json) -> str:
    """A text as it is, else as JSON writes it: one line for each entry, so that two can be compared."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1, default=str)


def _explained(folder: Path) -> Iterator[Content]:
    """The kept files in a form for people; they were redacted when they were kept."""
    if page := side_by_side(_bytes(folder / "screenshot.png"), _text(folder / "dom_snapshot.html")):
        yield Content("page at the failure", HTML, "html", data=page)
    try:
        table = har_page(read_json(folder / "network_logs.har"))
    except (OSError, ValueError):
        return
    if table:
        yield Content("requests", HTML, "html", data=table)


def _bytes(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except OSError:
        return None


def _text(path: Path) -> str | None:
    found = _bytes(path)
    return None if found is None else found.decode("utf-8", "replace")
