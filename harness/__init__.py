"""pytest-taskspec: browser tasks that recover as they declare, under hard deadlines, with every failure explained."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.api import execute_task, load_task
    from harness.failure import ErrorType
    from harness.pytest_plugin.failures import CriterionFailed, TaskFailed
    from harness.record import TaskResult
    from harness.report import ErrorReport
    from harness.spec.problems import SpecError
    from harness.spec.task import TaskSpec

__all__ = [
    "CriterionFailed",
    "ErrorReport",
    "ErrorType",
    "SpecError",
    "TaskFailed",
    "TaskResult",
    "TaskSpec",
    "execute_task",
    "load_task",
]

_HOMES = {
    "CriterionFailed": "harness.pytest_plugin.failures",
    "SpecError": "harness.spec.problems",
    "TaskFailed": "harness.pytest_plugin.failures",
    "ErrorReport": "harness.report",
    "ErrorType": "harness.failure",
    "TaskResult": "harness.record",
    "TaskSpec": "harness.spec.task",
    "execute_task": "harness.api",
    "load_task": "harness.api",
}


def __getattr__(name: str) -> Any:
    """Imported when asked for: pytest loads this package in every session, also where no task runs."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
