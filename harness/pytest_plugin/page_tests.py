"""Ordinary Playwright tests under the harness (`page_tests = true`): cause, evidence and reports of those that fail.

They run as they always do. What is added happens beside them: their contexts are watched, and a failing test is
examined after its own phase, before its fixtures close the pages.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Coroutine, Generator
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from harness.browser.page_tests import examine
from harness.browser.page_tests.calls import FailedCall, failed_call, suspended_call
from harness.browser.page_tests.closing import Closings
from harness.browser.page_tests.examine import Examined, unseen_failure
from harness.browser.page_tests.views import OutOfReachError, drive, suspended
from harness.browser.page_tests.watching import Watcher, chain
from harness.model.events import TaskEnded, TaskStarted
from harness.model.plan import Plan
from harness.model.ports import Evidence
from harness.model.record import MetFault, TaskResult
from harness.pytest_plugin.items import TaskItem
from harness.pytest_plugin.outcomes import ServicesFailedError
from harness.pytest_plugin.page_test_limit import PageTestLimit
from harness.pytest_plugin.role import Role, role_of
from harness.pytest_plugin.state import SessionState
from harness.pytest_plugin.telemetry import telemetry_of
from harness.pytest_plugin.terminal import add_properties, begin_properties
from harness.recovery.failure import Failed
from harness.reporting.allure.labels import running_test
from harness.reporting.console import failure_text
from harness.reporting.redaction import Redactor, redactor_of
from harness.reporting.story import TaskStory
from harness.reporting.task_record import task_record
from harness.reporting.telling import story_of
from harness.resilience import SystemClock
from harness.runner.page_faults import PageFaults, page_test_faults
from harness.runner.page_tests import failed_result, passed_result, test_id, test_plan
from harness.spec.expressions import secrets_of
from harness.spec.faults import Fault
from harness.spec.problems import SpecError
from harness.task_secrets import is_secret_name
from harness.values import replace

PAGE_TESTS = "taskspec-page-tests"
"""The name of the plugin."""
FIXTURES = frozenset(
    {"page", "context", "browser", "new_context", "browser_context", "playwright", "browser_type", "launch_browser"}
)
"""Fixtures of pytest-playwright, and usual names of a project's own: a test with one of them works in a browser."""
_FIXTURE_OF = {"shared": "taskspec_services", "slot": "taskspec_slot"}
"""Value of `page_test_services` -> the fixture that each of these tests has."""
_SECTION = "cause and evidence"


def is_page_test(item: pytest.Item) -> bool:
    """Return whether an ordinary test works in a browser, by its fixtures."""
    return not isinstance(item, TaskItem) and not FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def known_id(item: pytest.Item) -> str | None:
    """The id under which the history knows a task or a test in a browser; None for any other test."""
    if isinstance(item, TaskItem):
        return item.task_id
    return test_id(item.nodeid) if is_page_test(item) else None


class _EarlyLook(Struct, frozen=True):
    """What was found out about an exception before the test closed its pages."""

    error: BaseException
    call: FailedCall
    examined: Examined | None


class _RunningTest(Struct):
    """The test that runs now."""

    item: pytest.Item
    plan: Plan
    started: datetime
    began: float
    contexts: int
    """The number of contexts that had been opened before."""
    told: bool = False
    """Whether its result is known."""
    early: _EarlyLook | None = None
    """What was found out while it closed its pages itself."""


class PageTests:
    """A plugin in every process that runs tests."""

    def __init__(self, config: pytest.Config, state: SessionState) -> None:
        self._config, self._state, self._settings = config, state, state.settings
        self._root = state.settings.root
        self._watcher = Watcher(
            lambda error: state.fence.call("page tests", _raise, error), frees=state.settings.page_test_timeout > 0
        )
        self._running: _RunningTest | None = None
        self._struck: dict[str, tuple[Fault, ...]] = {}
        """Node id of a test -> the faults that strike it."""
        self._faults: PageFaults | None = None
        self._clock = SystemClock()
        seconds = state.settings.page_test_timeout * state.settings.timeout_scale
        self._limit = PageTestLimit(seconds) if seconds and role_of(config) is not Role.CONTROLLER else None
        if self._limit is not None:
            config.add_cleanup(self._limit.close)
        self._closings = Closings(self._closing, self._drive_early)
        if role_of(config) is not Role.CONTROLLER:
            for each in (self._watcher, self._closings):
                each.begin()
                config.add_cleanup(each.end)

    @cached_property
    def _secrets(self) -> tuple[str, ...]:
        """The values of environment variables that are secret by their names."""
        return secrets_of([name for name in os.environ if is_secret_name(name)], os.environ)

    @cached_property
    def _redactor(self) -> Redactor:
        return redactor_of(self._settings, (), os.environ).plus(self._secrets)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        if not isinstance(item, TaskItem):
            self._running = self._begin(item)
        try:
            return (yield)
        finally:
            self._running = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_itemcollected(self, item: Any) -> None:
        """Let a test run on the services, or in a slot of its own, as if it had requested the fixture itself."""
        fixture = _FIXTURE_OF.get(self._settings.page_test_services)
        if fixture and is_page_test(item) and fixture not in item.fixturenames:
            item.fixturenames.insert(0, fixture)

    # The limit of a test.

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        if self._running is not None and self._running.told:  # it runs again (`--reruns`)
            self._running = self._begin(item)
        if self._running is not None and self._struck.get(item.nodeid):
            self._strike(self._running)
        with self._limited(item):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        with self._limited(item):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        with self._limited(item):
            return (yield)

    def _limited(self, item: pytest.Item) -> AbstractContextManager[None]:
        return self._limit.within() if self._limit and self._running and is_page_test(item) else nullcontext()

    def _plan_of(self, item: pytest.Item) -> Plan:
        goal = inspect.getdoc(getattr(item, "function", None)) or ""
        settings, run = self._settings, self._state.run_id
        return test_plan(item.nodeid, goal, run, item.path.parent, settings.page_test_timeout, self._secrets)

    def _begin(self, item: pytest.Item) -> _RunningTest:
        self._watcher.begin_test()
        plan = self._plan_of(item)
        now = self._clock.wall()
        if is_page_test(item):
            telemetry_of(self._config).stream.turn(TaskStarted(plan, now), heard=False)
        return _RunningTest(item, plan, now, self._clock.now(), self._watcher.opened)

    # Faults.

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Find out which faults strike which test. Raises UsageError for one that cannot strike an ordinary test."""
        if not (plans := self._state.plans):
            return
        try:
            for item in filter(is_page_test, session.items):
                self._struck[item.nodeid] = page_test_faults(self._plan_of(item).spec, plans)
        except SpecError as error:
            raise pytest.UsageError(str(error)) from error
        self._watcher.finds_processes = any(self._struck.values())
        specs = [each.loaded.spec for each in session.items if isinstance(each, TaskItem)]
        self._state.look_at_plans([*specs, *(self._plan_of(each).spec for each in filter(is_page_test, session.items))])

    def _strike(self, running: _RunningTest) -> None:
        """Let the faults of a test strike from now on; the first test that is struck has the gates opened."""
        harness = self._state.harness()
        if self._faults is None:
            every = tuple({each.id: each for faults in self._struck.values() for each in faults}.values())
            seed = next((each.plan.seed for each in self._state.plans if each.plan.seed is not None), None)
            try:
                self._faults = faults = harness.strike_tests(every, seed)
            except Failed as failed:
                raise ServicesFailedError(failed.failure) from None
            self._state.struck_hosts = faults.hosts
            self._watcher.on_request_failed = lambda url, error: _ignore(
                harness.begin(lambda _: faults.request_failed(url, error))
            )
        harness.call(self._faults.begin(self._struck[running.item.nodeid], running.plan.task_id, self._watcher.kill))

    def _met(self, running: _RunningTest) -> tuple[MetFault, ...]:
        """What became of the faults of a test that is over."""
        if self._faults is None or not self._struck.get(running.item.nodeid):
            return ()
        return self._state.harness().call(self._faults.end())

    def _concerns(self, running: _RunningTest) -> bool:
        """Whether the test works in a browser: by its fixtures, or by what it has opened."""
        return is_page_test(running.item) or self._watcher.opened > running.contexts

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        """Examine a test that has failed, before its fixtures close its pages."""
        report = yield
        running = self._running
        if running is None or running.item is not item or call.when == "teardown" or not self._concerns(running):
            return report
        if report.failed and call.excinfo is not None:
            self._state.fence.call("page tests", self._failed, running, report, call.excinfo.value)
        elif call.when == "call" and report.passed:
            self._state.fence.call("page tests", self._passed, running, report)
        if running.told or is_page_test(item):
            report.taskspec_id = running.plan.task_id
        return report

    # The result.

    def _passed(self, running: _RunningTest, report: Any) -> None:
        seconds = self._clock.now() - running.began
        result = passed_result(running.plan, running.started, seconds, self._met(running))
        if (self._settings.artifacts / running.plan.key).exists():
            self._state.harness().archive.passed(running.plan, result)
        self._tell(running, report, result, story_of(running.plan, result, self._redactor))

    def _failed(self, running: _RunningTest, report: Any, error: BaseException) -> None:
        found = failed_call(error, self._root)
        harness, plan = self._state.harness(), running.plan
        begun = passed_result(plan, running.started, self._clock.now() - running.began)
        folder, hangs = harness.archive.scratch(plan), getattr(error, "seconds", 0.0)
        if hangs:
            waiting = (task for each in self._watcher.contexts for task in suspended(each.implementation))
            found = suspended_call(waiting, error, self._root) or found
        if running.early is not None and running.early.error in chain(error):
            found, looked = running.early.call, running.early.examined
        else:
            looked = self._examined(found, folder, hangs)
        fixture = "setup" if report.when == "setup" else ""
        failure = looked.failure if looked else unseen_failure(found, fixture=fixture, hangs=hangs)
        begun = replace(begun, faults=self._met(running))
        failure = harness.explain(getattr(error, "failure", failure))
        evidence = looked.evidence if looked else Evidence(folder, why="the test had no open page")
        if looked:
            plan.learned.learn(*looked.secrets)
        result = failed_result(harness.archive, plan, found.step(), failure, evidence, begun)
        story = story_of(plan, result, harness.archive.redactor)
        self._tell(running, report, result, story)
        report.sections.append((_SECTION, failure_text(story)))
        if running_test() is not None:
            from harness.reporting.allure.sink import AllureSink

            self._state.fence.call("Allure", AllureSink().finish, plan.spec, story, harness.browser)

    def _examined(self, found: FailedCall, folder: Path, hangs: float) -> Examined | None:
        contexts = self._watcher.beside(found)
        if not contexts:
            return None
        full_page = self._settings.browser.full_page_screenshot
        try:
            work = examine.examine(found, contexts, folder, full_page=full_page, hangs=hangs)
            return drive(contexts[-1].implementation, work)
        except OutOfReachError:
            return None

    # A test that closes its pages itself, in `finally` or at the end of `with`.

    def _closing(self, error: BaseException) -> Coroutine[Any, Any, None] | None:
        """What examines the test before it closes something while it handles this exception; None if nobody asks."""
        running = self._running
        if running is None or running.told or not isinstance(error, Exception) or not self._watcher.contexts:
            return None
        if running.early is not None and running.early.error in chain(error):
            return None
        return self._look_early(running, error)

    async def _look_early(self, running: _RunningTest, error: Exception) -> None:
        found = failed_call(error, self._root)
        contexts = self._watcher.beside(found)
        running.early = _EarlyLook(error, found, None)  # whatever else it closes meanwhile
        with self._state.fence.around("page tests"):
            folder = self._state.harness().archive.scratch(running.plan)
            full_page = self._settings.browser.full_page_screenshot
            looked = await examine.examine(found, contexts, folder, full_page=full_page)
            running.early = _EarlyLook(error, found, looked)

    def _drive_early(self, work: Coroutine[Any, Any, None]) -> None:
        with suppress(OutOfReachError):
            drive(self._watcher.contexts[-1].implementation, work)

    def _tell(self, running: _RunningTest, report: Any, result: TaskResult, story: TaskStory) -> None:
        """Tell what reads results: the stream of events, junit.xml, and from an xdist worker its controller."""
        running.told = True
        telemetry = telemetry_of(self._config)
        telemetry.stream.turn(TaskEnded(running.plan, result, self._clock.wall()), heard=False)
        record = task_record(story)
        report.taskspec = record.model_dump(mode="json")
        begin_properties(running.item, [])
        add_properties(running.item, record)
        report.user_properties = [*running.item.user_properties]


def _ignore(_: object) -> None:
    """Nobody waits for it."""


def _raise(error: Exception) -> None:
    raise error
