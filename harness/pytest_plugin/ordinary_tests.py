"""The services for ordinary tests: the fixture `taskspec_services`, and the hosts that `page` resolves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pytest
from msgspec import Struct

from harness.pytest_plugin.activation import begin_run, is_active, session_state

FIXTURE = "taskspec_services"
SLOT = "taskspec_slot"


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
        harness = begin_run(config).harness()
        harness.start()
    return RunningServices(harness.hosts)


@contextmanager
def _fail_test() -> Iterator[None]:
    """Turn a failure into a failed test, without the harness's own stack."""
    __tracebackhide__ = True
    from harness.recovery.failure import Failed  # not loaded in a session without tasks and services

    try:
        yield
    except Failed as failed:
        failure = failed.failure
        pytest.fail(f"{failure.message}\n{failure.advice}".rstrip(), pytrace=False)
    except (ValueError, OSError, pytest.UsageError) as error:
        pytest.fail(f"the services cannot be started: {error}", pytrace=False)


@pytest.fixture(scope="session", name=FIXTURE)
def taskspec_services(pytestconfig: pytest.Config) -> RunningServices:
    """The project's services, started if they do not run yet: `.hosts`, and `.url(host)` for any HTTP client."""
    return start_services(pytestconfig)


@pytest.fixture(name=SLOT)
def taskspec_slot(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Iterator[RunningServices]:
    """The services for one test that has their state to itself: reset as before a task, with no task beside it."""
    with ExitStack() as stack:
        with _fail_test():
            hosts = stack.enter_context(begin_run(pytestconfig).harness().slot(request.node.nodeid))
        yield RunningServices(hosts)


def uses_services(config: pytest.Config) -> bool:
    """Return whether ordinary tests use the services too: `services_for = "session"`."""
    if not is_active(config):
        return False
    settings = session_state(config).settings
    return settings.services_for == "session" and bool(settings.services)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start the services before the first test of any kind. Under xdist the controller has started them by then."""
    if uses_services(item.config) and session_state(item.config).services is None:
        session_state(item.config).services = start_services(item.config).hosts
