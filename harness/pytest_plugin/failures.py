"""The exceptions of the pytest edge: they split product defects from everything else (DESIGN 4.4)."""

from __future__ import annotations

import pytest


class TaskFailed(Exception):  # noqa: N818 - reads as pytest's own `Failed`
    """The task did not do what it should. pytest: failed; Allure: broken."""

    def __init__(self, headline: str, text: str) -> None:
        super().__init__(headline)
        self.text = text


class CriterionFailed(TaskFailed, AssertionError):  # noqa: N818
    """An assertion or a success criterion does not hold. pytest: failed; Allure: failed."""


class TaskSpecWarning(pytest.PytestWarning):
    """Something about a task file that is not an error."""
