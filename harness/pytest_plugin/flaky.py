"""`--task-fail-on-flaky`: a run fails in which a task passed only in a rerun, or by a recovery."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from harness.reporting.task_record import TaskRecord
from harness.spec.names import how_many
from harness.spec.warnings import WARNINGS

_NAMED = 10
"""The number of tasks that are named."""


class FailOnFlaky:
    """Registered only with the option, in the process that sees all reports."""

    def __init__(self) -> None:
        self._again: set[str] = set()
        """Node ids of tasks that ran again."""
        self._last: dict[str, TaskRecord] = {}
        """Node id -> the record of its last execution, for those that passed."""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.outcome == "rerun":
            self._again.add(report.nodeid)
        document = getattr(report, "taskspec", None)
        if document and report.when == "call":
            self._last.pop(report.nodeid, None)
            if report.passed:
                self._last[report.nodeid] = TaskRecord.model_validate(document)

    @property
    def lines(self) -> Sequence[str]:
        """What the summary says."""
        found = self._flaky()
        if not found:
            return []
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        told = f"{how_many(len(found), 'task')} passed only in a rerun or by a recovery, so the run fails"
        return [f"--task-fail-on-flaky: {told}: {', '.join(found[:_NAMED])}{more}"]

    def _flaky(self) -> list[str]:
        return [
            f"{record.task_id} ({why})"
            for node, record in self._last.items()
            if (why := "in a rerun" if node in self._again else recovered_by(record))
        ]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.OK and self._flaky():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def recovered_by(record: TaskRecord) -> str:
    """How a task that passed had recovered; empty if it had not, or as its faults or its `expect` want it to."""
    if not record.recovered or "struck" in record.faults.values():
        return ""
    told = dict.fromkeys(str(each.get("type")) for each in record.warnings)
    kinds = [kind for kind in told if kind in WARNINGS and WARNINGS[kind].recovered]
    if kinds and set(kinds) <= set(record.declared):
        return ""
    return ", ".join(kinds) or "recovered"
