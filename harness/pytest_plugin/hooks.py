"""Hooks that this plugin offers to conftest.py files and other plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest


@pytest.hookspec(firstresult=True)
def pytest_taskspec_repair(
    config: pytest.Config, task_id: str, precondition: str, memory: Mapping[str, Any]
) -> Mapping[str, Any] | bool | None:
    """Set up a precondition that does not hold (`attempt_repair`), after the task's own `repairs`.

    Return entries to write into memory, or True when it was set up otherwise; None (or False) leaves it to others.
    The precondition is looked at again afterwards. Runs in the main thread.
    """
