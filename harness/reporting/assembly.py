"""Fills one artifact directory: what the evidence has, redacted and inert; each artifact on its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from harness.model.plan import Plan
from harness.model.ports import Evidence, Json, Snapshot
from harness.model.record import TaskResult
from harness.model.report import ErrorReport
from harness.reporting.copying import UNREADABLE, copy_files, redacted_copy
from harness.reporting.documents import write_json, write_text
from harness.reporting.grading import grading
from harness.reporting.manifest import MANIFEST, NAMES, Entry, absent, manifest, taken
from harness.reporting.redaction import Redactor, masked_step
from harness.reporting.trace import write_trace
from harness.reporting.tracezip import redact_trace
from harness.reporting.whole_trace import TRACE, write_whole_trace


def assemble(
    folder: Path, plan: Plan, result: TaskResult, report: ErrorReport, evidence: Evidence, state: Snapshot,
    redactor: Redactor, run: str,
) -> None:  # fmt: skip
    """Everything of a failed task. Report, trace and manifest always; an OSError there is the caller's."""
    writers = _writers(result, evidence, state, redactor)
    entries = [_always(folder / "error_report.json", lambda path: write_json(path, report_json(report, redactor)))]
    entries.append(_always(folder / "partial_trace.json", lambda path: write_trace(result, path, redactor)))
    for name in NAMES:
        if name not in ("error_report.json", "partial_trace.json"):
            entries.append(_artifact(folder / name, writers.get(name), evidence, state))
    files = list(copy_files(evidence.folder, folder / "files", redactor))
    document = manifest(report, plan.key, run, entries, files)
    document["grading"] = grading(folder, plan, result, evidence, redactor)
    write_json(folder / MANIFEST, redactor.json(document))


def report_json(report: ErrorReport, redactor: Redactor) -> Json:
    """The report's document. Optional fields without a value are left out: specs/003 3.1 allows no null there."""
    whole = report.model_dump(mode="json")
    whole["context"] = _without_null(whole["context"])
    if whole["step"]:
        whole["step"] = masked_step(whole["step"])
    return redactor.json(_without_null(whole))


def _without_null(document: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in document.items() if value is not None}


def _always(path: Path, write: Callable[[Path], None]) -> Entry:
    began = time.perf_counter()
    write(path)
    return taken(path, time.perf_counter() - began)


Writer = Callable[[Path], None]


def _writers(result: TaskResult, evidence: Evidence, state: Snapshot, redactor: Redactor) -> dict[str, Writer]:
    """How each artifact that there is material for is written."""
    found: dict[str, Writer] = {}
    if state.memory is not None:
        found["memory_snapshot.json"] = lambda path: write_json(path, redactor.json(state.memory))
    if state.environment is not None:
        found["env_snapshot.json"] = lambda path: write_json(path, redactor.json(state.environment))
    said = any(item.name == "console_logs.txt" and item.status == "taken" for item in evidence.items)
    if (evidence.console or said) and not (evidence.folder / "console_logs.txt").is_file():
        text = "".join(f"{line}\n" for line in evidence.console)
        found["console_logs.txt"] = lambda path: write_text(path, redactor.text(text))
    traced = any(item.name == TRACE and item.status != "skipped" for item in evidence.items)
    if traced and (result.history or (evidence.folder / TRACE).is_file()):  # else the task never began
        found[TRACE] = lambda path: _whole_trace(path, result, evidence, redactor)
    for name in NAMES:
        source = evidence.folder / name
        if name not in found and source.is_file():
            found[name] = lambda path, source=source: redacted_copy(source, path, redactor)  # type: ignore[misc]
    return found


def _whole_trace(path: Path, result: TaskResult, evidence: Evidence, redactor: Redactor) -> None:
    whole = evidence.folder / "whole-trace.zip"
    write_whole_trace(whole, result, evidence)
    redact_trace(whole, path, redactor)


def _artifact(path: Path, write: Writer | None, evidence: Evidence, state: Snapshot) -> Entry:
    item = next((item for item in evidence.items if item.name == path.name), None)
    if item is not None and item.status == "skipped":
        return absent(path.name, item, evidence.why)
    if write is None:
        unwanted = item is None and path.name in ("memory_snapshot.json", "env_snapshot.json")
        return Entry(path.name, "skipped", state.why) if unwanted else absent(path.name, item, evidence.why)
    began = time.perf_counter()
    try:
        write(path)
    except UNREADABLE as error:
        path.unlink(missing_ok=True)
        why = f"could not be redacted: {type(error).__name__}: {error}"
        return Entry(path.name, "missed", why, at=item.at if item else None)
    return taken(path, time.perf_counter() - began, item)
