"""`errors/<task>/`: one complete, redacted, inert directory for every failed task, published by a rename."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.criteria import difference
from harness.model.agent_events import shown
from harness.model.diagnosis import trace
from harness.model.plan import Plan
from harness.model.ports import Evidence, Json, Snapshot
from harness.model.record import TaskResult
from harness.model.report import OF_AGENTS, OF_TOOLS, ErrorReport
from harness.model.settings import Settings
from harness.model.tool_evidence import bounded, bounded_call
from harness.reporting.files import (
    MANIFEST,
    NAMES,
    UNREADABLE,
    ManifestEntry,
    absent_entry,
    copy_files,
    copy_trace,
    manifest,
    names_of,
    read_json,
    redacted_copy,
    safe_name,
    shown_path,
    taken_entry,
    write_json,
    write_text,
)
from harness.reporting.grading import grading
from harness.reporting.redact_files import redact_trace
from harness.reporting.redaction import Redactor, masked_call, masked_fields, masked_step
from harness.reporting.whole_trace import TRACE, write_whole_trace
from harness.resilience.owner import Owner, is_abandoned

_KEPT = ".kept"
_REPORT = "error_report.json"
_FULL_TRACE = "trace_full.zip"
"""The trace of a second run that was made for it (`--task-retrace`)."""


class DirectoryArchive:
    """The archive on disk. Several threads may call its methods, and several processes may have the same root."""

    def __init__(self, root: Path, run_id: str, redactor: Redactor, keep_previous: int) -> None:
        """Raises ValueError for a run id that is no safe directory name."""
        self._root = root.absolute()
        self._run_id = safe_name(run_id)
        self._redactor = redactor
        self._root.mkdir(parents=True, exist_ok=True)
        self._workspace = Workspace(self._root, run_id)
        self._previous = Previous(self._root, keep_previous, self._workspace)
        self._scratch: dict[str, list[Path]] = {}
        self._held: dict[str, Path] = {}
        """Key of a task that is judged later -> its directory, which is complete and not published."""
        self._lock = threading.Lock()

    @property
    def workspace(self) -> Path:
        """The folder of this process for unfinished files; nothing in it outlives the process."""
        return self._workspace.own

    def scratch(self, plan: Plan) -> Path:
        """Make an empty folder for the files that the task writes while it runs.

        The task's secrets are redacted from everything written from now on, since other tasks of its episode share its
        memory.
        """
        self._redactor.learn(plan.all_secrets)
        folder = self._workspace.folder(safe_name(plan.key))
        with self._lock:
            self._scratch.setdefault(plan.key, []).append(folder)
        return folder

    def keep(self, plan: Plan, result: TaskResult, report: ErrorReport, evidence: Evidence, state: Snapshot) -> Path:
        """Write `errors/<key>` completely, then rename it. Raises ValueError if the key would lead out of the root."""
        target = self._root / safe_name(plan.key)
        build = self._workspace.folder(f"{plan.key}-whole")
        self._redactor.learn(plan.all_secrets)  # one-time passwords were not known before
        assemble(build, plan, result, report, evidence, state, self._redactor, self._run_id)
        with self._lock:
            self._previous.take(target)
            build.rename(target)
        self._forget(plan, evidence.folder)
        return target

    def hold(self, plan: Plan, result: TaskResult, report: ErrorReport, evidence: Evidence, state: Snapshot) -> None:
        """Write the directory of a task that passed; `judged` publishes or deletes it. Raises OSError."""
        build = self._workspace.folder(f"{plan.key}-held")
        self._redactor.learn(plan.all_secrets)
        assemble(build, plan, result, report, evidence, state, self._redactor, self._run_id)
        with self._lock:
            self._held[plan.key] = build

    def judged(self, key: str, failed: str | None) -> Path | None:
        """Publish what is held of a task if a fixture `failed` after it, with the reason; else delete it."""
        with self._lock:
            build = self._held.pop(key, None)
        if build is None:
            return None
        if failed is None:
            self._workspace.discard(build)
            return None
        target, report = self._root / safe_name(key), build / _REPORT
        document = read_json(report)
        document["error_message"] = self._redactor.text(f"{document['error_message']}: {failed}")
        write_json(report, document)
        with self._lock:
            self._previous.take(target)
            build.rename(target)
        return target

    def skipped(self, plan: Plan) -> None:
        """The task was left out: delete its scratch folder, and keep an old `errors/<key>`."""
        self._forget(plan)

    def passed(self, plan: Plan, result: TaskResult) -> None:  # noqa: ARG002 - the port has it
        """Keep the old directory of a passed task in `.previous`, and its steps' files in `.kept`; delete the rest."""
        with self._lock:
            self._previous.take(self._root / safe_name(plan.key))
            folders = tuple(self._scratch.get(plan.key, ()))
        self._redactor.learn(plan.all_secrets)
        build = self._workspace.folder(f"{plan.key}-kept")
        for folder in folders:
            copy_files(folder, build, self._redactor)
            copy_trace(folder, build, self._redactor)
        kept = self._root / _KEPT / plan.key
        self._workspace.discard(kept)
        if any(build.iterdir()):
            kept.parent.mkdir(exist_ok=True)
            build.rename(kept)
        self._forget(plan, build)

    def outdated(self, plan: Plan) -> None:
        """Move what an earlier run has left of a task to `.previous`; what this run has left stays."""
        target = self._root / safe_name(plan.key)
        with self._lock:
            if _run_of(target) != self._run_id:
                self._previous.take(target)

    def retraced(self, first: Plan, second: Plan, result: TaskResult) -> Path | None:
        """Move the trace of a second run next to the artifacts of the first; returns None if there is none.

        The manifest of the first says so, and how the second run ended. Everything else of the second is deleted.
        """
        target, name = self._root / safe_name(first.key), safe_name(second.key)
        places = (self._root / name, self._root / _KEPT / name)
        found = next((place / TRACE for place in places if (place / TRACE).is_file()), None)
        if found is not None:
            found.replace(target / _FULL_TRACE)
        manifest = read_json(target / MANIFEST)
        code = result.failure.code if result.failure else None
        told = {"passed": result.failure is None, "final_state": result.final_state, "code": code}
        manifest["retrace"] = {"trace": _FULL_TRACE if found else None, **told}
        write_json(target / MANIFEST, manifest)
        for place in places:
            self._workspace.discard(place)
        return target / _FULL_TRACE if found else None

    def incoming(self, key: str) -> Path:
        """Make an empty folder for what another process has assembled of a task: `errors/` and `kept/` (`adopt`)."""
        return self._workspace.folder(f"{safe_name(key)}-incoming")

    def adopt(self, key: str, incoming: Path) -> Path | None:
        """Publish what another process has assembled of a task; returns its directory, if it failed."""
        name, failed, files = safe_name(key), incoming / "errors", incoming / "kept"
        target, kept = self._root / name, self._root / _KEPT / name
        with self._lock:
            self._previous.take(target)
            if failed.is_dir():
                failed.rename(target)
        self._workspace.discard(kept)
        if files.is_dir():
            kept.parent.mkdir(exist_ok=True)
            files.rename(kept)
        return target if target.is_dir() else None

    def discard(self, folder: Path) -> None:
        """Delete a folder of `incoming`."""
        self._workspace.discard(folder)

    def kept_files(self, key: str) -> tuple[Path, ...]:
        """The named screenshots and downloads of the last passed run of the task with this key."""
        folder = self._root / _KEPT / safe_name(key)
        return tuple(sorted(path for path in folder.rglob("*") if path.is_file()))

    def _forget(self, plan: Plan, *more: Path) -> None:
        with self._lock:
            folders = self._scratch.pop(plan.key, [])
        for folder in {*folders, *more}:
            if folder.is_relative_to(self._root / ".tmp"):
                self._workspace.discard(folder)


# Fills one artifact directory with the evidence, redacted and inert; each artifact separately.


def assemble(
    folder: Path, plan: Plan, result: TaskResult, report: ErrorReport, evidence: Evidence, state: Snapshot,
    redactor: Redactor, run: str,
) -> None:  # fmt: skip
    """Write all artifacts of a failed task. Report, trace and manifest are always written, or OSError is raised."""
    writers = _writers(result, evidence, state, redactor)
    entries = [_always(folder / _REPORT, lambda path: write_json(path, _report_json(report, redactor)))]
    entries.append(_always(folder / "partial_trace.json", lambda path: write_json(path, trace_json(result, redactor))))
    for name in NAMES:
        if name not in names_of("report"):
            entries.append(_artifact(folder / name, writers.get(name), evidence, state))
    files = list(copy_files(evidence.folder, folder / "files", redactor))
    document = manifest(report, plan.key, run, entries, files)
    document["grading"] = grading(folder, plan, result, evidence, redactor)
    write_json(folder / MANIFEST, redactor.json(document))


def _report_json(report: ErrorReport, redactor: Redactor) -> Json:
    """The report's document. Optional fields without a value are left out: the schema allows no null there."""
    unused = (set() if report.agent else OF_AGENTS) | (set() if report.tools_total else OF_TOOLS)
    whole = report.model_dump(mode="json", exclude=unused)
    whole["context"] = _without_null(whole["context"])
    if whole["step"]:
        whole["step"] = masked_step(whole["step"])
    if whole.get("tool_error"):
        whole["tool_error"]["payload"] = _masked_error(whole["tool_error"]["payload"])
    redacted: dict[str, Json] = redactor.json(_without_null(whole))
    if told := redacted.get("tool_error"):
        told["payload"] = _bounded_error(told["payload"])
    compared = redacted["context"].get("assertion")
    if compared and compared.get("diff"):  # a difference of redacted values: it has cut others into lines
        compared["diff"] = difference(compared["expected"], compared["actual"])
    return redacted


def trace_json(result: TaskResult, redactor: Redactor) -> Json:
    """The document of partial_trace.json."""
    document = trace(result)
    redacted: dict[str, Any] = redactor.json({**document, "steps": [masked_step(step) for step in document["steps"]]})
    for step in redacted["steps"]:
        if "tool_calls" in step:
            step["tool_calls"] = [bounded_call(call) for call in step["tool_calls"]]
    if "agent_events" in redacted:
        redacted["agent_events"] = shown(redacted["agent_events"])
    return redacted


def _masked_error(payload: dict[str, Json]) -> dict[str, Json]:
    """The call that failed without the values of fields with the name of a secret, sent or answered."""
    details = payload["details"]
    with contextlib.suppress(ValueError, RecursionError):
        answered = json.loads(details["stdout"])
        details = {**details, "stdout": json.dumps(masked_fields(answered), ensure_ascii=False)}
    return {**masked_call(payload), "details": details}


def _bounded_error(payload: dict[str, Json]) -> dict[str, Json]:
    details = {**payload["details"], "stdout": bounded(payload["details"]["stdout"])[0]}
    return {**payload, "arguments": bounded(payload["arguments"])[0], "details": details}


def _without_null(document: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in document.items() if value is not None}


def _always(path: Path, write: Callable[[Path], None]) -> ManifestEntry:
    began = time.perf_counter()
    write(path)
    return taken_entry(path, time.perf_counter() - began)


_Writer = Callable[[Path], None]


def _writers(result: TaskResult, evidence: Evidence, state: Snapshot, redactor: Redactor) -> dict[str, _Writer]:
    """Name -> writer, for each artifact that there is material for."""
    found: dict[str, _Writer] = {}
    if state.memory is not None:
        found["memory_snapshot.json"] = lambda path: write_json(path, redactor.json(state.memory))
    if state.environment is not None:
        found["env_snapshot.json"] = lambda path: write_json(path, redactor.json(state.environment))
    said = any(item.name == "console_logs.txt" and item.status == "taken" for item in evidence.items)
    if (evidence.console or said) and not (evidence.folder / "console_logs.txt").is_file():
        text = "".join(f"{line}\n" for line in evidence.console)
        found["console_logs.txt"] = lambda path: write_text(path, redactor.text(text))
    traced = any(item.name == TRACE and item.status != "skipped" for item in evidence.items)
    if traced and (result.history or (evidence.folder / TRACE).is_file()):  # otherwise the task never began
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


def _artifact(path: Path, write: _Writer | None, evidence: Evidence, state: Snapshot) -> ManifestEntry:
    item = next((item for item in evidence.items if item.name == path.name), None)
    if item is not None and item.status == "skipped":
        return absent_entry(path.name, item, evidence.why)
    if write is None:
        unwanted = item is None and path.name in names_of("state")
        return (
            ManifestEntry(path.name, "skipped", state.why) if unwanted else absent_entry(path.name, item, evidence.why)
        )
    began = time.perf_counter()
    try:
        write(path)
    except UNREADABLE as error:
        path.unlink(missing_ok=True)
        why = f"could not be redacted: {type(error).__name__}: {error}"
        return ManifestEntry(path.name, "missed", why, at=item.at if item else None)
    return taken_entry(path, time.perf_counter() - began, item)


# The folders that every run writes to, and whether they are usable.


def unusable_folders(settings: Settings) -> list[str]:
    """A sentence for each folder that cannot be written: what it is instead, and the remedy."""
    own = settings.root / ".harness"
    folders = {own: "the events of a run are kept there: move it away"}
    if not settings.artifacts.is_relative_to(own):
        advice = "failed tasks are kept there: move it away, or name another with `--task-artifacts`"
        folders = {settings.artifacts: advice, **folders}
    return [f"{shown_path(each)} {why}; {advice}" for each, advice in folders.items() if (why := unusable(each))]


# `errors/.previous/<run>/<key>`: directories of earlier runs and attempts, for the latest runs.


class Previous:
    """Moves old directories away by rename, and deletes the oldest runs."""

    def __init__(self, root: Path, keep: int, workspace: Workspace) -> None:
        self._root = root / ".previous"
        self._keep = keep
        self._workspace = workspace

    def take(self, directory: Path) -> None:
        """Move `errors/<key>` into the folder of the run that wrote it, if it exists.

        A link itself is moved, even a broken one: its target is neither changed nor deleted.
        """
        if not os.path.lexists(directory):
            return
        if self._keep == 0:
            self._workspace.discard(directory)
            return
        run = self._root / _run_of(directory)
        run.mkdir(parents=True, exist_ok=True)
        for name in _numbered_names(directory.name):
            try:
                directory.rename(run / name)
                break
            except OSError:
                if not (run / name).exists():
                    raise
        self.prune()

    def prune(self) -> None:
        """Keep the runs that were moved last."""
        runs = sorted(filter(Path.is_dir, self._root.iterdir()), key=_filing_time, reverse=True)
        for old in runs[self._keep :]:
            self._workspace.discard(old)


def _numbered_names(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}-{number}" for number in itertools.count(2))


def _filing_time(run: Path) -> float:
    try:
        return run.stat().st_mtime_ns
    except FileNotFoundError:  # a parallel worker removed it
        return 0


def _run_of(directory: Path) -> str:
    try:
        return safe_name(str(read_json(directory / "manifest.json")["run"]))
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown"


# Temporary folders under `errors/.tmp`, one subfolder for each process; those of ended processes are removed.


class Workspace:
    """Makes folders on the file system of the artifacts, so that a rename is enough to publish one."""

    def __init__(self, root: Path, run_id: str) -> None:
        self._base = root / ".tmp"
        self._own = self._base / f"{Owner.this().label}-{run_id}"
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        sweep(self._base)

    @property
    def own(self) -> Path:
        """The folder that contains all folders of this process."""
        return self._own

    def folder(self, name: str) -> Path:
        """Make an empty folder; `name` is a part of its name."""
        path = self._own / f"{name}-{next(self._numbers)}"
        with self._lock:
            _make(path)
        return path

    def discard(self, path: Path) -> None:
        """Delete a folder; it is renamed first, so that a kill leaves no half of it."""
        grave = self.folder("discarded")
        with contextlib.suppress(FileNotFoundError):
            path.rename(grave / path.name)
        shutil.rmtree(grave, ignore_errors=True)
        with self._lock, contextlib.suppress(OSError):  # still in use
            self._own.rmdir()
            self._base.rmdir()


def _make(path: Path) -> None:
    """Make a folder, again if a parallel worker that is done has just removed the empty base."""
    for _ in range(20):
        with contextlib.suppress(FileNotFoundError):
            path.mkdir(parents=True)
            return
    path.mkdir(parents=True)


def unusable(folder: Path) -> str | None:
    """The reason why the folder cannot be written, as the end of a sentence; None if it can, or will be made."""
    if folder.is_symlink() and not folder.exists():
        return f"is a link that leads nowhere ({folder.readlink()})"
    if folder.exists() and not folder.is_dir():
        return "is a file, where a folder is needed"
    first = next((each for each in (folder, *folder.parents) if each.exists()), folder)
    return None if os.access(first, os.W_OK | os.X_OK) else "cannot be written"


def links_in(root: Path) -> dict[Path, str]:
    """The links in place of tasks' folders, with their targets; none without the folder."""
    with contextlib.suppress(OSError):
        found = [each for each in root.iterdir() if each.is_symlink() and not each.name.startswith(".")]
        return {each: str(each.readlink()) for each in found}
    return {}


def moved_aside(links: Mapping[Path, str], keeps: bool) -> list[str]:
    """A line for each link that was replaced by a task's folder. `keeps`: earlier artifacts are kept."""
    where = "is under .previous now" if keeps else "is gone"
    return [
        f"{shown_path(path)} was a link to {target}: the link {where}; its target is unchanged"
        for path, target in sorted(links.items())
        if not path.is_symlink()
    ]


def sweep(base: Path) -> None:
    """Delete the temporary folders of processes that have ended, but not those of parallel workers."""
    found: list[Path] = []
    with contextlib.suppress(FileNotFoundError):  # it does not exist, or a parallel worker has just removed it
        found = list(base.iterdir())
    for folder in filter(is_abandoned, found):
        shutil.rmtree(folder, ignore_errors=True)
