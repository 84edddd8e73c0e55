"""pytest's reports of tasks as executions: one for each time that a task ran, or was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.reporting.history.reading import kept_place
from harness.reporting.history.record import Execution
from harness.reporting.task_record import TaskRecord


class Executions:
    """Counts them by node, and remembers each until its fixtures have been torn down, which may fail too."""

    def __init__(
        self, root: Path, nodeids: Iterable[str] = (), redacted: Callable[[str], str] = lambda text: text
    ) -> None:
        """`root`: of the project, which artifacts are kept relative to. `nodeids`: of the tasks of the run."""
        self._root = root
        self._redacted = redacted
        self._count: Counter[str] = Counter()
        self._open: dict[tuple[str, str], Execution] = {}
        """Node and worker -> what was said of its last execution; of one whose fixtures still stand."""
        self._nodes = {nodeid.partition("::")[2]: nodeid for nodeid in nodeids}

    def of(self, report: Any) -> Execution | None:
        """What the report says of a task; None when that is nothing new, or it is no task's."""
        document = getattr(report, "taskspec", None)
        task_id = document["task_id"] if document else getattr(report, "taskspec_id", None)
        where = (report.nodeid, getattr(report, "worker_id", ""))
        if task_id is None or (report.when == "setup" and report.passed):
            return None
        if report.when == "teardown":
            return self._torn_down(where, report)
        record = TaskRecord.model_validate(document) if document else None
        found = self._open[where] = self._execution(str(task_id), where, report, record)
        return found

    def interrupted(self, record: TaskRecord) -> Execution:
        """Of a task that Ctrl-C ended: pytest makes no report of it."""
        nodeid = self._nodes.get(record.task_id, f"{record.source}::{record.task_id}")
        self._count[nodeid] += 1
        return Execution(
            nodeid=nodeid,
            task_id=record.task_id,
            number=self._count[nodeid],
            outcome="failed",
            seconds=record.seconds,
            at=record.started,
            record=self._placed(record),
        )

    def _execution(self, task_id: str, where: tuple[str, str], report: Any, record: TaskRecord | None) -> Execution:
        nodeid, worker = where
        self._count[nodeid] += 1
        return Execution(
            nodeid=nodeid,
            task_id=task_id,
            number=self._count[nodeid],
            outcome=report.outcome,
            worker=worker,
            seconds=record.seconds if record else round(report.duration, 3),
            reason=self._redacted(_reason(report, record)),
            at=(record and record.started) or _started(report),
            record=self._placed(record),
        )

    def _torn_down(self, where: tuple[str, str], report: Any) -> Execution | None:
        """A fixture that fails afterwards makes a passed task a failed one."""
        found = self._open.pop(where, None)
        if found is None or report.passed or found.outcome == "failed":
            return None
        reason, record = self._redacted(_first_line(report)), found.record
        if record is not None:
            record = record.model_copy(update={"torn": True, "message": record.message or reason})
        return found.model_copy(update={"outcome": report.outcome, "reason": reason, "record": record})

    def _placed(self, record: TaskRecord | None) -> TaskRecord | None:
        if record is None or record.artifacts is None:
            return record
        return record.model_copy(update={"artifacts": kept_place(record.artifacts, self._root)})


def _reason(report: Any, record: TaskRecord | None) -> str:
    """Why it was skipped; what failed outside of the task itself."""
    if getattr(report, "wasxfail", None):
        return f"xfail: {report.wasxfail}"
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return _first_line(report) if report.when == "setup" and record is None else ""


def _first_line(report: pytest.TestReport) -> str:
    """Of what went wrong in a fixture: its error, as pytest shows it at the end."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(getattr(crash, "message", None) or report.longrepr or "").strip().splitlines()
    return f"{report.when}: {lines[0]}" if lines else str(report.when)


def _started(report: Any) -> datetime | None:
    start = getattr(report, "start", 0)
    return datetime.fromtimestamp(start, UTC) if start else None
