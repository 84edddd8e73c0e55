"""pytest-taskspec: browser tasks that recover as they declare, under hard deadlines, with every failure explained."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.faults.python import InjectionError
    from harness.model.record import TaskResult
    from harness.model.report import ErrorReport
    from harness.pytest_plugin.errors import CriterionFailed, TaskFailed
    from harness.recovery.catalog import ErrorType
    from harness.runner.api import (
        clear_faults,
        execute_task,
        inject,
        inject_network_failure,
        load_task,
        simulate_delayed_state_update,
    )
    from harness.spec.problems import SpecError
    from harness.spec.task import TaskSpec

__all__ = [
    "CriterionFailed",
    "ErrorReport",
    "ErrorType",
    "InjectionError",
    "SpecError",
    "TaskFailed",
    "TaskResult",
    "TaskSpec",
    "clear_faults",
    "execute_task",
    "inject",
    "inject_network_failure",
    "load_task",
    "simulate_delayed_state_update",
]

_HOMES = {
    "CriterionFailed": "harness.pytest_plugin.errors",
    "SpecError": "harness.spec.problems",
    "TaskFailed": "harness.pytest_plugin.errors",
    "ErrorReport": "harness.model.report",
    "ErrorType": "harness.recovery.failure",
    "InjectionError": "harness.faults.python",
    "TaskResult": "harness.model.record",
    "TaskSpec": "harness.spec.task",
    "clear_faults": "harness.runner.api",
    "execute_task": "harness.runner.api",
    "inject": "harness.runner.api",
    "inject_network_failure": "harness.runner.api",
    "load_task": "harness.runner.api",
    "simulate_delayed_state_update": "harness.runner.api",
}


def __getattr__(name: str) -> Any:
    """Imported when asked for: pytest loads this package in every session, also where no task runs."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
