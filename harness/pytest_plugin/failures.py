"""The exceptions of the pytest edge: they split product defects from everything else (DESIGN 4.4)."""

from __future__ import annotations

import pytest

from harness.reporting.job_log import commandless


class TaskFailed(Exception):  # noqa: N818 - reads as pytest's own `Failed`
    """The task did not do what it should. pytest: failed; Allure: broken."""

    def __init__(self, message: str, text: str) -> None:
        """`message` is for reports that show one box (Allure), `text` is the whole screen for the terminal."""
        super().__init__(commandless(message))
        self.text = commandless(text)


class CriterionFailed(TaskFailed, AssertionError):  # noqa: N818
    """An assertion or a success criterion does not hold. pytest: failed; Allure: failed."""


TaskFailed.__module__ = CriterionFailed.__module__ = "harness"  # as people import them, and as reports show them


class TaskSpecWarning(pytest.PytestWarning):
    """Something about a task file that is not an error."""

    def __init__(self, message: str) -> None:
        super().__init__(commandless(message))
