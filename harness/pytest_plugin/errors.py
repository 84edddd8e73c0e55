"""The exceptions of the pytest edge: they distinguish product defects from everything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest._code.code import ReprEntryNative, ReprExceptionInfo, ReprFileLocation, ReprTraceback

from harness.spec.names import commandless


class TaskFailed(Exception):  # noqa: N818 - reads as pytest's own `Failed`
    """The task did not do what it should. pytest: failed; Allure: broken."""

    def __init__(self, message: str, text: str, cause: str = "") -> None:
        """`message` is for reports that show one box (Allure), `text` is the whole screen for the terminal.

        `cause` is one line for pytest's short summary, beside the task's id; the default is the first line of
        `message`.
        """
        super().__init__(commandless(message))
        self.text = commandless(text)
        self.cause = commandless(cause or message.partition("\n")[0])

    def representation(self, path: Path) -> ReprExceptionInfo:
        """The representation for the terminal: the whole screen once, and the cause in the short summary.

        A plain text would appear as a whole in the summary too, wherever pytest does not cut lines (`CI=true`).
        """
        entry = ReprEntryNative([f"{line}\n" for line in self.text.splitlines()])
        traceback = ReprTraceback([entry], extraline=None, style="native")
        return ReprExceptionInfo(traceback, ReprFileLocation(str(path), 1, self.cause))


class CriterionFailed(TaskFailed, AssertionError):  # noqa: N818
    """An assertion or a success criterion does not hold. pytest: failed; Allure: failed."""


TaskFailed.__module__ = CriterionFailed.__module__ = "harness"  # the name that people import, and that reports show


class TaskSpecWarning(pytest.PytestWarning):
    """Something about a task file that is not an error."""

    def __init__(self, message: str) -> None:
        super().__init__(commandless(message))


def error_of(text: str) -> str:
    """The line of a failure's text that says what was wrong: the last one that pytest has marked, else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line.removeprefix("E ").strip() for line in lines if line.startswith("E ")]
    return (marked or lines or [""])[-1]
