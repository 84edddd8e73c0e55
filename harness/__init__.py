"""pytest-taskspec: browser tasks that recover as they declare, under hard deadlines, with every failure explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.exports import exports

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

if not TYPE_CHECKING:  # type checkers would otherwise accept any name
    __getattr__ = exports(
        __name__,
        {
            "harness.pytest_plugin.errors": ("CriterionFailed", "TaskFailed"),
            "harness.spec.problems": ("SpecError",),
            "harness.model.report": ("ErrorReport",),
            "harness.faults.python": ("InjectionError",),
            "harness.model.record": ("TaskResult",),
            "harness.spec.task": ("TaskSpec",),
            "harness.runner.api": (
                "clear_faults",
                "execute_task",
                "inject",
                "inject_network_failure",
                "load_task",
                "simulate_delayed_state_update",
            ),
            "harness.recovery.catalog": ("ErrorType",),
        },
    )
