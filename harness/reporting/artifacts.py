"""`errors/<task>/`: one complete, redacted, inert directory for every failed task, published by rename (DESIGN 4.7)."""

from __future__ import annotations

import threading
from pathlib import Path

from harness.model.plan import Plan
from harness.model.ports import Evidence, Snapshot
from harness.model.record import TaskResult
from harness.model.report import ErrorReport
from harness.reporting.assembly import assemble
from harness.reporting.copying import copy_files, copy_trace
from harness.reporting.documents import read_json, write_json
from harness.reporting.manifest import MANIFEST
from harness.reporting.names import safe_name
from harness.reporting.previous import Previous
from harness.reporting.redaction import Redactor
from harness.reporting.whole_trace import TRACE
from harness.reporting.workspace import Workspace

KEPT = ".kept"
FULL_TRACE = "trace_full.zip"
"""Of a task that was run a second time for it (`--task-retrace`)."""


class DirectoryArchive:
    """The Archive on disk. Its methods may be called from several threads, and by several processes on one root."""

    def __init__(self, root: Path, run_id: str, redactor: Redactor, keep_previous: int) -> None:
        """ValueError for a run id that is no safe directory name."""
        self._root = root.absolute()
        self._run_id = safe_name(run_id)
        self._redactor = redactor
        self._root.mkdir(parents=True, exist_ok=True)
        self._workspace = Workspace(self._root, run_id)
        self._previous = Previous(self._root, keep_previous, self._workspace)
        self._scratch: dict[str, list[Path]] = {}
        self._lock = threading.Lock()

    @property
    def workspace(self) -> Path:
        """The folder of this process for what is not whole yet; nothing in it outlives the process."""
        return self._workspace.own

    def scratch(self, plan: Plan) -> Path:
        """A new empty folder for what the task writes while it runs.

        Its secrets are kept out of all that is written from now on: other tasks of its episode share its memory.
        """
        self._redactor.learn(plan.all_secrets)
        folder = self._workspace.folder(safe_name(plan.key))
        with self._lock:
            self._scratch.setdefault(plan.key, []).append(folder)
        return folder

    def keep(self, plan: Plan, result: TaskResult, report: ErrorReport, evidence: Evidence, state: Snapshot) -> Path:
        """Write `errors/<key>` whole, then rename. ValueError when the key would lead out of the root."""
        target = self._root / safe_name(plan.key)
        build = self._workspace.folder(f"{plan.key}-whole")
        assemble(build, plan, result, report, evidence, state, self._redactor.plus(plan.secrets), self._run_id)
        with self._lock:
            self._previous.take(target)
            build.rename(target)
        self._forget(plan, evidence.folder)
        return target

    def skipped(self, plan: Plan) -> None:
        """The task was left out: its scratch folder goes, an old `errors/<key>` stays as it is."""
        self._forget(plan)

    def passed(self, plan: Plan, result: TaskResult) -> None:  # noqa: ARG002 - the port has it
        """The task passed: its old directory moves to `.previous`, files its steps kept to `.kept`, scratch goes."""
        with self._lock:
            self._previous.take(self._root / safe_name(plan.key))
            folders = tuple(self._scratch.get(plan.key, ()))
        build = self._workspace.folder(f"{plan.key}-kept")
        for folder in folders:
            redactor = self._redactor.plus(plan.secrets)
            copy_files(folder, build, redactor)
            copy_trace(folder, build, redactor)
        kept = self._root / KEPT / plan.key
        self._workspace.discard(kept)
        if any(build.iterdir()):
            kept.parent.mkdir(exist_ok=True)
            build.rename(kept)
        self._forget(plan, build)

    def retraced(self, first: Plan, second: Plan, result: TaskResult) -> Path | None:
        """The trace of a second run, moved beside the artifacts of the first; None when there is none.

        The manifest of the first says so, and how the second run ended. Everything else of the second is deleted.
        """
        target, name = self._root / safe_name(first.key), safe_name(second.key)
        places = (self._root / name, self._root / KEPT / name)
        found = next((place / TRACE for place in places if (place / TRACE).is_file()), None)
        if found is not None:
            found.replace(target / FULL_TRACE)
        manifest = read_json(target / MANIFEST)
        code = result.failure.code if result.failure else None
        told = {"passed": result.failure is None, "final_state": result.final_state, "code": code}
        manifest["retrace"] = {"trace": FULL_TRACE if found else None, **told}
        write_json(target / MANIFEST, manifest)
        for place in places:
            self._workspace.discard(place)
        return target / FULL_TRACE if found else None

    def kept(self, plan: Plan) -> tuple[Path, ...]:
        """Named screenshots and downloads of the task's last run that passed."""
        folder = self._root / KEPT / safe_name(plan.key)
        return tuple(sorted(path for path in folder.rglob("*") if path.is_file()))

    def _forget(self, plan: Plan, *more: Path) -> None:
        with self._lock:
            folders = self._scratch.pop(plan.key, [])
        for folder in {*folders, *more}:
            if folder.is_relative_to(self._root / ".tmp"):
                self._workspace.discard(folder)
