"""Faults of a run: checked plans, a fixture for users' own tests, and the reports of their failed tasks.

No fault outlives the test that has injected it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.settings import Settings
from harness.pytest_plugin.errors import TaskSpecWarning
from harness.runner.compile import plans_of
from harness.spec.problems import Problem, SpecError

if TYPE_CHECKING:
    from harness.faults.python import InjectedFault
    from harness.runner.api import TaskExecution

API = "harness.runner.api"
ODDITIES: pytest.StashKey[list[Problem]] = pytest.StashKey()


def check_plans(config: pytest.Config, settings: Settings) -> None:
    """Check that the fault plans of the run can be used, and fit its project. Raises SpecError."""
    problems: list[Problem] = []
    for loaded in plans_of(settings):
        from harness.faults.checks import Project, misplaced_in_plan  # not loaded in a session without faults

        problems += [*loaded.warnings, *misplaced_in_plan(loaded, Project(settings))]
    if errors := [each for each in problems if each.severity == "error"]:
        raise SpecError(errors)
    config.stash[ODDITIES] = problems


def pytest_configure(config: pytest.Config) -> None:
    """Emit a warning for each oddity of a plan; under xdist only in the controller."""
    for problem in () if hasattr(config, "workerinput") else config.stash.get(ODDITIES, ()):
        config.issue_config_time_warning(TaskSpecWarning(str(problem)), 2)


@pytest.fixture
def inject_fault() -> Iterator[Callable[..., InjectedFault]]:
    """`inject_fault({"kind": "refuse", "host": "shop.local", "seconds": 2})`: strikes every `execute_task` of the test.

    It takes the arguments of `harness.inject`. `with inject_fault(...):` ends earlier.
    """
    from harness.runner.api import inject  # not loaded in a session that runs no task from Python

    with ExitStack() as standing:

        def inject_one(*faults: Any) -> InjectedFault:
            return standing.enter_context(inject(*faults))

        yield inject_one


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Remove the faults that a test has injected and not used, so that the next test does not meet them."""
    if API in sys.modules:
        sys.modules[API].PENDING.forget()
        sys.modules[API].EXECUTED.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the failed tasks of a failed test to its report, since its `assert` cannot show them."""
    report = yield
    if call.when == "call" and report.failed and API in sys.modules:
        executed: list[TaskExecution] = [each for each in sys.modules[API].EXECUTED if each.result.failure is not None]
        report.sections += [(f"task {each.plan.task_id}", _explain_failure(each)) for each in executed]
    return report


def _explain_failure(executed: TaskExecution) -> str:
    from harness.reporting.console import failure_text  # loaded already where a task has run

    settings = executed.settings
    unserved = None if settings.services else settings.root / "pyproject.toml"
    return failure_text(executed.plan, executed.result, redactor=executed.redactor, unserved=unserved)
