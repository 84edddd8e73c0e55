"""The services for ordinary tests: the fixture `taskspec_services`, and hosts that `page` resolves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest

from harness.pytest_plugin.state import STATE
from harness.recovery.failure import Failed

FIXTURE = "taskspec_services"
SLOT = "taskspec_slot"


@dataclass(frozen=True, slots=True)
class RunningServices:
    """The services of `[tool.harness.services]`, up while tests run."""

    hosts: Mapping[str, int]
    """Host name, in lower case -> port on 127.0.0.1."""

    def url(self, host: str) -> str:
        """Where any HTTP client finds a host's site, such as `http://127.0.0.1:20817`; LookupError for others."""
        name = host.lower()
        if name not in self.hosts:
            known = ", ".join(sorted(self.hosts)) or "none"
            raise LookupError(f"{host!r} is no host of [tool.harness.services]; there are: {known}")
        return f"http://127.0.0.1:{self.hosts[name]}"


def started(config: pytest.Config) -> RunningServices:
    """Have them up. Fails the test with what is wrong with one that does not come up."""
    __tracebackhide__ = True
    with _told():
        harness = config.stash[STATE].harness()
        harness.start()
    return RunningServices(harness.hosts)


@contextmanager
def _told() -> Iterator[None]:
    """Fails the test with what is wrong, and without the harness's own stack."""
    __tracebackhide__ = True
    try:
        yield
    except Failed as failed:
        failure = failed.failure
        pytest.fail(f"{failure.message}\n{failure.advice}".rstrip(), pytrace=False)
    except (ValueError, OSError) as error:
        pytest.fail(f"the services cannot be started: {error}", pytrace=False)


@pytest.fixture(scope="session", name=FIXTURE)
def taskspec_services(pytestconfig: pytest.Config) -> RunningServices:
    """The project's services, started when they are not up yet: `.hosts`, and `.url(host)` for any HTTP client."""
    return started(pytestconfig)


@pytest.fixture(name=SLOT)
def taskspec_slot(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Iterator[RunningServices]:
    """The same for one test, which has their one state to itself: reset as before a task, and no task beside it."""
    with ExitStack() as stack:
        with _told():
            hosts = stack.enter_context(pytestconfig.stash[STATE].harness().slot(request.node.nodeid))
        yield RunningServices(hosts)


def wanted(config: pytest.Config) -> bool:
    """Whether the services belong to ordinary tests, too: `services_for = "session"`."""
    settings = config.stash[STATE].settings
    return settings.services_for == "session" and bool(settings.services)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the first test of any kind. Under xdist the controller has them up by then."""
    if wanted(item.config) and item.config.stash[STATE].services is None:
        item.config.stash[STATE].services = started(item.config).hosts
