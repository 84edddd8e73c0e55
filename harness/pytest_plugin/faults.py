"""Faults and tasks of users' own tests: a fixture, and the reports of their failed tasks.

No fault outlives the test that has injected it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.faults.python import InjectedFault
    from harness.runner.api import TaskExecution

API = "harness.runner.api"


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
    from harness.reporting.telling import story_of

    settings = executed.settings
    unserved = None if settings.services else settings.root / "pyproject.toml"
    return failure_text(story_of(executed.plan, executed.result, executed.redactor), unserved=unserved)
