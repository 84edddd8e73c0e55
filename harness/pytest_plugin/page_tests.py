"""Ordinary Playwright tests under the harness (`page_tests = true`): cause, evidence and reports of those that fail.

They run as they always do. What is added happens beside them: their contexts are watched, and a failing test is
examined after its own phase, before its fixtures close the pages.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Coroutine, Generator
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from harness.browser.page_tests import examine
from harness.browser.page_tests.calls import FailedCall, failed_call
from harness.browser.page_tests.closing import Closings
from harness.browser.page_tests.examine import Examined, unseen_failure
from harness.browser.page_tests.views import OutOfReachError, drive
from harness.browser.page_tests.watching import Watcher, chain
from harness.model.events import TaskEnded, TaskStarted
from harness.model.plan import Plan
from harness.model.ports import Evidence
from harness.model.record import TaskResult
from harness.pytest_plugin.items import TaskItem
from harness.pytest_plugin.role import Role, role_of
from harness.pytest_plugin.state import SessionState
from harness.pytest_plugin.telemetry import telemetry_of
from harness.pytest_plugin.terminal import add_properties, begin_properties
from harness.reporting.allure.labels import running_test
from harness.reporting.console import failure_text
from harness.reporting.redaction import Redactor, redactor_of
from harness.reporting.story import TaskStory
from harness.reporting.task_record import task_record
from harness.reporting.telling import story_of
from harness.resilience import SystemClock
from harness.runner.page_tests import failed_result, passed_result, test_plan
from harness.spec.expressions import secrets_of
from harness.task_secrets import is_secret_name

PAGE_TESTS = "taskspec-page-tests"
"""The name of the plugin."""
FIXTURES = frozenset(
    {"page", "context", "browser", "new_context", "browser_context", "playwright", "browser_type", "launch_browser"}
)
"""Fixtures of pytest-playwright, and usual names of a project's own: a test with one of them works in a browser."""
_SECTION = "cause and evidence"


def is_page_test(item: pytest.Item) -> bool:
    """Return whether an ordinary test works in a browser, by its fixtures."""
    return not isinstance(item, TaskItem) and not FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


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
        self._watcher = Watcher(lambda error: state.fence.call("page tests", _raise, error))
        self._running: _RunningTest | None = None
        self._clock = SystemClock()
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

    def _begin(self, item: pytest.Item) -> _RunningTest:
        self._watcher.begin_test()
        goal = inspect.getdoc(getattr(item, "function", None)) or ""
        plan = test_plan(
            item.nodeid, goal, self._state.run_id, item.path.parent, self._settings.page_test_timeout, self._secrets
        )
        now = self._clock.wall()
        if is_page_test(item):
            telemetry_of(self._config).stream.turn(TaskStarted(plan, now), heard=False)
        return _RunningTest(item, plan, now, self._clock.now(), self._watcher.opened)

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
        result = passed_result(running.plan, running.started, self._clock.now() - running.began)
        if (self._settings.artifacts / running.plan.key).exists():
            self._state.harness().archive.passed(running.plan, result)
        self._tell(running, report, result, story_of(running.plan, result, self._redactor))

    def _failed(self, running: _RunningTest, report: Any, error: BaseException) -> None:
        found = failed_call(error, self._root)
        harness, plan = self._state.harness(), running.plan
        begun = passed_result(plan, running.started, self._clock.now() - running.began)
        folder = harness.archive.scratch(plan)
        if running.early is not None and running.early.error in chain(error):
            found, looked = running.early.call, running.early.examined
        else:
            looked = self._examined(found, folder)
        fixture = "setup" if report.when == "setup" else ""
        failure = looked.failure if looked else unseen_failure(found, fixture=fixture)
        evidence = looked.evidence if looked else Evidence(folder, why="the test had no open page")
        if looked:
            plan.learned.learn(*looked.secrets)
        failure = harness.explain(failure)
        result = failed_result(harness.archive, plan, found.step(), failure, evidence, begun)
        story = story_of(plan, result, harness.archive.redactor)
        self._tell(running, report, result, story)
        text = failure_text(story, unserved=None if self._settings.services else Path("pyproject.toml"))
        report.sections.append((_SECTION, text))
        if running_test() is not None:
            from harness.reporting.allure.sink import AllureSink

            self._state.fence.call("Allure", AllureSink().finish, plan.spec, story, harness.browser)

    def _examined(self, found: FailedCall, folder: Path) -> Examined | None:
        contexts = self._watcher.beside(found)
        if not contexts:
            return None
        full_page = self._settings.browser.full_page_screenshot
        try:
            return drive(contexts[-1].implementation, examine.examine(found, contexts, folder, full_page=full_page))
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


def _raise(error: Exception) -> None:
    raise error
