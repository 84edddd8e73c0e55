"""Faults of a run: plans that fit its project, a fixture for users' own tests, and what their failed tasks say.

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
    """Whether the fault plans of the run can be used, and fit its project. Raises SpecError."""
    problems: list[Problem] = []
    for loaded in plans_of(settings):
        from harness.faults.checks import Project, misplaced_in_plan  # not loaded in a session without faults

        problems += [*loaded.warnings, *misplaced_in_plan(loaded, Project(settings))]
    if errors := [each for each in problems if each.severity == "error"]:
        raise SpecError(errors)
    config.stash[ODDITIES] = problems


def pytest_configure(config: pytest.Config) -> None:
    """What is odd about a plan is a warning of the run; of xdist only the controller tells it."""
    for problem in () if hasattr(config, "workerinput") else config.stash.get(ODDITIES, ()):
        config.issue_config_time_warning(TaskSpecWarning(str(problem)), 2)


@pytest.fixture
def inject_fault() -> Iterator[Callable[..., InjectedFault]]:
    """`inject_fault({"kind": "refuse", "host": "shop.local", "seconds": 2})`: strikes every `execute_task` of the test.

    Takes what `harness.inject` takes. `with inject_fault(...):` ends earlier.
    """
    from harness.runner.api import inject  # not loaded in a session that needs no tasks from Python

    with ExitStack() as standing:

        def inject_one(*faults: Any) -> InjectedFault:
            return standing.enter_context(inject(*faults))

        yield inject_one


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """What a test has injected for its next task, and has not run, is not for the next test."""
    if API in sys.modules:
        sys.modules[API].PENDING.forget()
        sys.modules[API].EXECUTED.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails shows what became of the tasks that it has run, and that failed: its `assert` cannot say."""
    report = yield
    if call.when == "call" and report.failed and API in sys.modules:
        executed: list[TaskExecution] = [each for each in sys.modules[API].EXECUTED if each.result.failure is not None]
        report.sections += [(f"task {each.plan.task_id}", _explained(each)) for each in executed]
    return report


def _explained(executed: TaskExecution) -> str:
    from harness.reporting.console import failure_text  # loaded already where a task has run

    settings = executed.settings
    unserved = None if settings.services else settings.root / "pyproject.toml"
    return failure_text(executed.plan, executed.result, redactor=executed.redactor, unserved=unserved)
