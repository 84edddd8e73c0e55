"""Fills one artifact directory: what the evidence has, redacted and inert; each artifact on its own."""

from __future__ import annotations

import json
import os
import shutil
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.plan import Plan
from harness.ports import Evidence, Json, Snapshot
from harness.record import TaskResult
from harness.report import ErrorReport
from harness.reporting.documents import write_json, write_text
from harness.reporting.har import redact_har
from harness.reporting.inert import inert
from harness.reporting.manifest import MANIFEST, NAMES, STRATEGY, Entry, absent, manifest, taken
from harness.reporting.names import inside
from harness.reporting.redaction import Redactor, masked_step
from harness.reporting.trace import write_trace
from harness.reporting.tracezip import redact_trace

_LARGEST = 64 * 1024 * 1024
"""Bytes of a file that a step kept; a larger one is not copied, since it could not be redacted in memory."""

_UNREADABLE = (
    OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError, EOFError,
    NotImplementedError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What a broken file can raise while it is redacted: then it is left out, never kept unredacted."""

_VIEWED = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".webm")


def assemble(
    folder: Path, plan: Plan, result: TaskResult, report: ErrorReport, evidence: Evidence, state: Snapshot,
    redactor: Redactor, run: str,
) -> None:  # fmt: skip
    """Everything of a failed task. Report, trace and manifest always; an OSError there is the caller's."""
    writers = _writers(evidence, state, redactor)
    entries = [_always(folder / "error_report.json", lambda path: write_json(path, report_json(report, redactor)))]
    entries.append(_always(folder / "partial_trace.json", lambda path: write_trace(result, path, redactor)))
    for name in NAMES:
        if name not in ("error_report.json", "partial_trace.json"):
            entries.append(_artifact(folder / name, writers.get(name), evidence, state))
    files = list(copy_files(evidence.folder, folder / "files", redactor))
    write_json(folder / MANIFEST, redactor.json(manifest(report, plan.key, run, entries, files)))


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


def _writers(evidence: Evidence, state: Snapshot, redactor: Redactor) -> dict[str, Writer]:
    """How each artifact that there is material for is written."""
    found: dict[str, Writer] = {}
    if state.memory is not None:
        found["memory_snapshot.json"] = lambda path: write_json(path, redactor.json(state.memory))
    if state.environment is not None:
        found["env_snapshot.json"] = lambda path: write_json(path, redactor.json(state.environment))
    if evidence.console and not (evidence.folder / "console_logs.txt").is_file():
        text = "\n".join(evidence.console) + "\n"
        found["console_logs.txt"] = lambda path: write_text(path, redactor.text(text))
    for name in NAMES:
        source = evidence.folder / name
        if name not in found and source.is_file():
            found[name] = lambda path, source=source: redacted_copy(source, path, redactor)  # type: ignore[misc]
    return found


def _artifact(path: Path, write: Writer | None, evidence: Evidence, state: Snapshot) -> Entry:
    item = next((item for item in evidence.items if item.name == path.name), None)
    if item is not None and item.status == "skipped":
        return absent(path.name, item)
    if write is None:
        wanted = {"memory_snapshot.json": state.memory, "env_snapshot.json": state.environment}
        return Entry(path.name, "skipped", STRATEGY) if item is None and path.name in wanted else absent(path.name, item)
    began = time.perf_counter()
    try:
        write(path)
    except _UNREADABLE as error:
        path.unlink(missing_ok=True)
        return Entry(path.name, "missed", f"could not be redacted: {type(error).__name__}: {error}")
    entry = taken(path, (item.seconds if item else 0.0) + time.perf_counter() - began)
    return entry if item is None or item.status == "taken" else _late(entry, item.reason)


def _late(entry: Entry, reason: str) -> Entry:
    """Missed at the end, but an earlier one lies there: from the last good step."""
    return Entry(entry.name, "taken", reason or "from the last good step", entry.seconds, entry.bytes)


def redacted_copy(source: Path, target: Path, redactor: Redactor) -> None:
    """One file by its kind. Raises one of `_UNREADABLE` for a broken one."""
    match source.suffix.lower():
        case ".html" | ".htm":
            write_text(target, redactor.text(inert(source.read_text("utf-8", "replace"))))
        case ".har":
            write_json(target, redact_har(json.loads(source.read_text("utf-8")), redactor))
        case ".zip" if source.name == "trace.zip":
            redact_trace(source, target, redactor)
        case suffix if suffix in _VIEWED:
            shutil.copyfile(source, target)
        case ".json":
            write_json(target, redactor.json(json.loads(source.read_text("utf-8"))))
        case _:
            target.write_bytes(redactor.data(source.read_bytes()))


def copy_files(scratch: Path, target: Path, redactor: Redactor) -> list[Entry]:
    """Named screenshots and downloads: what lies in the scratch folder beside the artifacts."""
    return [_copied(scratch, source, target, redactor) for source in sorted(_kept(scratch))]


def _kept(scratch: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(scratch):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(folder, name)
            artifact = path.parent == scratch and name in (*NAMES, MANIFEST)
            if not artifact and not name.startswith(".") and not path.is_symlink() and inside(scratch, path):
                yield path


def _copied(scratch: Path, source: Path, target: Path, redactor: Redactor) -> Entry:
    parts = source.relative_to(scratch).parts
    name = Path(*(parts[1:] if parts[0] == "files" else parts))
    if source.stat().st_size > _LARGEST:
        return Entry(str(name), "missed", f"larger than {_LARGEST} bytes")
    path = target / redactor.text(str(name)).replace("\\", "_")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _file_copy(source, path, redactor)
    except _UNREADABLE as error:
        path.unlink(missing_ok=True)
        return Entry(str(name), "missed", f"could not be redacted: {type(error).__name__}: {error}")
    return Entry(str(name), "taken", bytes=path.stat().st_size)


def _file_copy(source: Path, target: Path, redactor: Redactor) -> None:
    """A download stays as the site gave it, but for the secrets."""
    if source.suffix.lower() == ".har":
        redacted_copy(source, target, redactor)
    elif source.suffix.lower() in _VIEWED:
        shutil.copyfile(source, target)
    else:
        target.write_bytes(redactor.data(source.read_bytes()))
