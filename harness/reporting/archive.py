"""`errors/<task>/`: one complete, redacted, inert directory for every failed task, published by a rename.

And `.harness/evidence/<run>/<key>`: with `evidence = "all"`, the final state of a passed task, for regrading.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

from harness.criteria import Criterion, difference
from harness.masking import MARK
from harness.model.agent_events import shown
from harness.model.diagnosis import trace
from harness.model.outcome import attempts_of, ended_as_declared
from harness.model.plan import Plan
from harness.model.ports import Evidence, Json, Snapshot
from harness.model.record import TaskResult
from harness.model.report import OF_AGENTS, OF_TOOLS, ErrorReport
from harness.model.settings import Settings
from harness.model.tool_evidence import bounded, bounded_call
from harness.recovery.failure import Failed
from harness.reporting.files import (
    MANIFEST,
    NAMES,
    PAGE_STATE,
    VIDEO,
    ManifestEntry,
    absent_entry,
    manifest,
    names_of,
    read_json,
    safe_name,
    taken_entry,
    write_json,
    write_text,
)
from harness.reporting.redact_files import UNREADABLE, copy_files, copy_recordings, redact_trace, redacted_copy
from harness.reporting.redaction import Redactor, masked_call, masked_step
from harness.reporting.whole_trace import TRACE, write_whole_trace
from harness.reporting.workspace import Previous, Workspace, run_of, runs_in
from harness.spec.references import BadReferenceError, MissingMemory, ReferenceScope, interpolate_criterion
from harness.task_secrets import is_secret_name, masked_fields

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
        self.redactor = redactor
        """The redactor of the run, which learns the secrets of its tasks."""
        self._root.mkdir(parents=True, exist_ok=True)
        self._workspace = Workspace(self._root, run_id)
        self._previous = Previous(self._root, keep_previous, self._workspace)
        self._scratch: dict[str, list[Path]] = {}
        self._held: dict[str, Path] = {}
        """Key of a task that is judged later -> its directory, which is complete and not published."""
        self._lock = threading.Lock()

    @classmethod
    def of(cls, settings: Settings, run_id: str) -> DirectoryArchive:
        """The archive of a run. Raises ValueError for a `redact` that is no regular expression, too."""
        return cls(settings.artifacts, run_id, Redactor.of(settings), settings.keep_previous)

    @property
    def workspace(self) -> Path:
        """The folder of this process for unfinished files; nothing in it outlives the process."""
        return self._workspace.own

    def scratch(self, plan: Plan) -> Path:
        """Make an empty folder for the files that the task writes while it runs.

        The task's secrets are redacted from everything written from now on, since other tasks of its episode share its
        memory.
        """
        self.redactor.learn(plan.all_secrets)
        folder = self._workspace.folder(safe_name(plan.key))
        with self._lock:
            self._scratch.setdefault(plan.key, []).append(folder)
        return folder

    def keep(self, plan: Plan, result: TaskResult, report: ErrorReport, evidence: Evidence, state: Snapshot) -> Path:
        """Write `errors/<key>` completely, then rename it. Raises ValueError if the key would lead out of the root."""
        target = self._root / safe_name(plan.key)
        build = self._assembled("whole", plan, result, report, evidence, state)
        with self._lock:
            self._previous.take(target)
            build.rename(target)
        self._forget(plan, evidence.folder)
        return target

    def _assembled(
        self, kind: str, plan: Plan, result: TaskResult, report: ErrorReport, evidence: Evidence, state: Snapshot
    ) -> Path:
        build = self._workspace.folder(f"{plan.key}-{kind}")
        self.redactor.learn(plan.all_secrets)  # one-time passwords were not known before
        assemble(build, plan, result, report, evidence, state, self.redactor, self._run_id)
        return build

    def hold(self, plan: Plan, result: TaskResult, report: ErrorReport, evidence: Evidence, state: Snapshot) -> None:
        """Write the directory of a task that passed; `judged` publishes or deletes it. Raises OSError."""
        build = self._assembled("held", plan, result, report, evidence, state)
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
        document["error_message"] = self.redactor.text(f"{document['error_message']}: {failed}")
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
        self.redactor.learn(plan.all_secrets)
        build = self._workspace.folder(f"{plan.key}-kept")
        for folder in folders:
            copy_files(folder, build, self.redactor)
            copy_recordings(folder, build, self.redactor)
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
            if run_of(target) != self._run_id:
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
    for name in (*NAMES, *(item.name for item in evidence.items if item.name not in NAMES)):
        if name not in names_of("report"):
            entries.append(_artifact(folder / name, writers.get(name), evidence, state))
    files = list(copy_files(evidence.folder, folder / "files", redactor, users=bool(evidence.user)))
    document = manifest(report, plan.key, run, entries, files)
    document["grading"] = _grading(folder, plan, result, evidence, redactor)
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
    for name in (*NAMES, VIDEO):
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


# What `harness regrade` reads beside the snapshots: the criteria that ran, and the page as they read it.

UNMET = "CRITERIA_UNMET"


def _grading(folder: Path, plan: Plan, result: TaskResult, evidence: Evidence, redactor: Redactor) -> dict[str, Json]:
    """The part of the manifest that regrading reads. Writes `page_state.json` if the page answered."""
    page, planned = evidence.page, len(plan.steps) or result.steps_total
    if isinstance(page, Mapping):
        elements = [_masked_element(element) for element in page["elements"]]
        write_json(folder / PAGE_STATE, redactor.strings({**page, "elements": elements}))
    now = (plan.start or result.started) + timedelta(seconds=result.elapsed)
    spec = plan.spec
    return {
        "world_time": now.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "url": evidence.url if evidence.user in ("", plan.user) else None,
        "locale": plan.context.locale,
        "page": PAGE_STATE if isinstance(page, Mapping) else page,
        "success_criteria": list(_criteria_outcomes(spec.success_criteria, plan.success_criteria, result)),
        "score": None if result.score is None else result.score.total,
        "attempts": attempts_of(result.history, planned),
        "skipped": any(record.skipped for record in result.history),
        "generated": {} if plan.generated is None else plan.generated.made,
        "alternative": result.alternative.task_id if result.alternative else None,
    }


def _criteria_outcomes(
    texts: Sequence[str], ready: Sequence[Criterion], result: TaskResult
) -> Iterator[dict[str, Json]]:
    """Each criterion as the file has it, and its outcome; `held` is null for one that was never reached."""
    unmet = _unmet_criteria(result)
    for place, text in enumerate(texts):
        as_judged = _resolve_references(str(ready[place]), result) if place < len(ready) else text
        yield {"text": text, "held": None if unmet is None else as_judged not in unmet}


def _unmet_criteria(result: TaskResult) -> frozenset[str] | None:
    """The criteria that did not hold; None if that is not known for each."""
    if result.failure is None:
        made_up = result.alternative or any(warning.type == "criteria_relaxed" for warning in result.warnings)
        return None if made_up else frozenset()
    if result.failure.code != UNMET:
        return None
    details = result.failure.details
    return frozenset(map(str, details.get("unmet_criteria") or [details.get("criterion")]))


def _resolve_references(text: str, result: TaskResult) -> str:
    try:
        return interpolate_criterion(text, ReferenceScope(memory=result.memory))
    except (BadReferenceError, MissingMemory, Failed):
        return text


def _masked_element(element: dict[str, Json]) -> dict[str, Json]:
    """The element of a page without the value of a field that is for secrets."""
    attributes = element["attributes"]
    names = (element["selector"], *(attributes.get(naming, "") for naming in ("id", "name", "autocomplete")))
    secret = attributes.get("type", "").lower() == "password" or any(map(is_secret_name, map(str, names)))
    if not element["field"] or not secret:
        return element
    hidden: dict[str, Json] = {name: MARK for name in ("text", "text_content", "value") if element[name]}
    hidden["texts"] = [MARK] if element.get("texts") else []
    shown = {"value": MARK} if attributes.get("value") else {}
    return {**element, **hidden, "attributes": {**attributes, **shown}}


# The evidence of passed tasks. Usual runs have no costs for them (docs/design/bounds.md).

EVIDENCE = Path(".harness/evidence")
_DOM = "dom_snapshot.html"


class PassedEvidence:
    """Writes the directories of one run, each by a rename; deletes those of the oldest runs."""

    def __init__(self, root: Path, run_id: str, redactor: Redactor, runs: int) -> None:
        """`runs`: the number of runs that are kept, with this one. ValueError for a run id that is no safe folder
        name.
        """
        self._root = root / EVIDENCE
        self._run = safe_name(run_id)
        self._redactor = redactor
        self._runs = max(1, runs)
        self._workspace = Workspace(self._root, self._run)
        self._lock = threading.Lock()

    def keep(self, plan: Plan, result: TaskResult, evidence: Evidence, state: Snapshot) -> Path:
        """Write the directory and return it. Raises OSError if it cannot be written, ValueError for an unsafe key."""
        target = self._root / self._run / safe_name(plan.key)
        build = self._workspace.folder(plan.key)
        self._fill(build, plan, result, evidence, state)
        with self._lock:
            self._workspace.discard(target)  # an earlier execution in the same run
            target.parent.mkdir(parents=True, exist_ok=True)
            build.rename(target)
            for old in runs_in(self._root)[self._runs :]:
                self._workspace.discard(old)
        self._workspace.discard(build)
        return target

    def _fill(self, folder: Path, plan: Plan, result: TaskResult, evidence: Evidence, state: Snapshot) -> None:
        redactor = self._redactor.plus(plan.all_secrets)
        write_json(folder / "memory_snapshot.json", redactor.json(state.memory or {}))
        write_json(folder / "env_snapshot.json", redactor.json(state.environment or {}))
        if (evidence.folder / _DOM).is_file():
            with contextlib.suppress(*UNREADABLE):
                redacted_copy(evidence.folder / _DOM, folder / _DOM, redactor)
            (evidence.folder / _DOM).unlink()
        document: dict[str, Json] = {
            "task_id": plan.task_id,
            "key": plan.key,
            "run": self._run,
            "source": plan.source,
            "final_state": result.final_state,
            "code": None,
            "expected": False,
            "unexpected": not ended_as_declared(plan.spec, result),
            "grading": _grading(folder, plan, result, evidence, redactor),
        }
        write_json(folder / MANIFEST, redactor.json(document))
