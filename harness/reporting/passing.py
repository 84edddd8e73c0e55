"""`.harness/evidence/<run>/<key>`: the final state of a passed task, for regrading.

It is kept only with `evidence = "all"`: usual runs have no costs for tasks that pass (docs/design/bounds.md).
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from harness.model.outcome import ended_as_declared
from harness.model.plan import Plan
from harness.model.ports import Evidence, Json, Snapshot
from harness.model.record import TaskResult
from harness.reporting.archive import Workspace
from harness.reporting.files import MANIFEST, UNREADABLE, redacted_copy, safe_name, write_json
from harness.reporting.grading import grading
from harness.reporting.redaction import Redactor

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
            self._prune()
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
            "grading": grading(folder, plan, result, evidence, redactor),
        }
        write_json(folder / MANIFEST, redactor.json(document))

    def _prune(self) -> None:
        """Keep the newest runs: their names begin with their time."""
        with contextlib.suppress(FileNotFoundError):  # a parallel worker was quicker
            runs = sorted((path for path in self._root.iterdir() if not path.name.startswith(".")), reverse=True)
            for old in runs[self._runs :]:
                self._workspace.discard(old)
