"""For ordinary tests: the services, and the faults of tasks that they run from Python, with the reports of those.

No fault outlives the test that has injected it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Struct

from harness.pytest_plugin.activation import begin_run, is_active, session_state

if TYPE_CHECKING:
    from harness.faults.python import InjectedFault
    from harness.runner.api import TaskExecution

_API = "harness.runner.api"


class RunningServices(Struct, frozen=True):
    """The services of `[tool.harness.services]`, running while tests run."""

    hosts: Mapping[str, int]
    """Host name, in lower case -> port on 127.0.0.1."""

    def url(self, host: str) -> str:
        """The address of a host's site for a client, such as `http://127.0.0.1:20817`; LookupError for other hosts."""
        name = host.lower()
        if name not in self.hosts:
            known = ", ".join(sorted(self.hosts)) or "none"
            raise LookupError(f"{host!r} is not a host of [tool.harness.services]; there are: {known}")
        return f"http://127.0.0.1:{self.hosts[name]}"


def start_services(config: pytest.Config) -> RunningServices:
    """Start the services. If one does not come up, the test fails with the reason."""
    __tracebackhide__ = True
    with _fail_test():
        state = begin_run(config)
        harness = state.harness()
        harness.start()
    return RunningServices(state.struck_hosts or harness.hosts)


@contextmanager
def _fail_test() -> Iterator[None]:
    """Turn a failure into a failed test, without the harness's own stack."""
    __tracebackhide__ = True
    from harness.recovery.failure import Failed  # not loaded in a session without tasks and services

    try:
        yield
    except Failed as failed:
        from harness.pytest_plugin.outcomes import ServicesFailedError

        raise ServicesFailedError(failed.failure) from None
    except (ValueError, OSError, pytest.UsageError) as error:
        pytest.fail(f"the services cannot be started: {error}", pytrace=False)


@pytest.fixture(scope="session")
def taskspec_services(pytestconfig: pytest.Config) -> RunningServices:
    """The project's services, started if they do not run yet: `.hosts`, and `.url(host)` for any HTTP client."""
    return start_services(pytestconfig)


@pytest.fixture
def taskspec_slot(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Iterator[RunningServices]:
    """The services for one test that has their state to itself: reset as before a task, with no task beside it."""
    with ExitStack() as stack:
        with _fail_test():
            state = begin_run(pytestconfig)
            hosts = stack.enter_context(state.harness().slot(request.node.nodeid))
        yield RunningServices(state.struck_hosts or hosts)


def uses_services(config: pytest.Config) -> bool:
    """Return whether ordinary tests use the services too: `services_for = "session"`."""
    return is_active(config) and session_state(config).serves_all_tests


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start the services before the first test of any kind. Under xdist the controller has started them by then."""
    if uses_services(item.config) and session_state(item.config).services is None:
        session_state(item.config).services = start_services(item.config).hosts


# Tasks and faults from Python.


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
    if _API in sys.modules:
        sys.modules[_API].PENDING.forget()
        sys.modules[_API].EXECUTED.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the failed tasks of a failed test to its report, since its `assert` cannot show them."""
    report = yield
    if call.when == "call" and report.failed and _API in sys.modules:
        executed: list[TaskExecution] = [each for each in sys.modules[_API].EXECUTED if each.story.failure is not None]
        report.sections += [(f"task {each.story.task_id}", _explain_failure(each)) for each in executed]
    return report


def _explain_failure(executed: TaskExecution) -> str:
    from harness.reporting.console import failure_text  # loaded already where a task has run

    settings = executed.settings
    unserved = None if settings.services else settings.root / "pyproject.toml"
    return failure_text(executed.story, unserved=unserved)
