"""Puts a finished task into the running Allure test: steps, attachments, labels. Without --alluredir it does nothing.

To be called on pytest's main thread, while the task's item runs: what other threads tell Allure is lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import allure_commons
from allure_commons.model2 import Attachment, Label, Link, Parameter, Status, StatusDetails, TestResult, TestStepResult
from allure_commons.reporter import AllureReporter
from allure_commons.utils import uuid4

from harness.model.diagnosis import fault_reports
from harness.model.figures import figures
from harness.model.plan import Plan
from harness.model.record import TaskResult
from harness.reporting.allure_files import AFTER_FAULT
from harness.reporting.allure_identity import finish_identity, name_test
from harness.reporting.allure_labels import site_of
from harness.reporting.allure_links import source_url
from harness.reporting.allure_steps import fault_steps, inner_task, milliseconds, step_results
from harness.reporting.attachments import Content, on_failing_step, on_test
from harness.reporting.console import brief, failure_text
from harness.reporting.redaction import Redactor


class AllureSink:
    """Knows where the running Allure test is, and writes into it."""

    def __init__(
        self,
        redactor: Redactor | None = None,
        kept: Callable[[Plan], Iterable[Path]] = lambda _plan: (),
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`kept` gives the files a passing task's steps kept (DirectoryArchive.kept)."""
        self._redactor = redactor or Redactor()
        self._kept = kept
        self._environ = environ

    def finish(self, plan: Plan, result: TaskResult, browser: str = "") -> None:
        """Everything about one finished task."""
        test = running_test()
        if test is not None:
            self._fill(test, plan, result, browser)
        if test is not None and result.failure is not None and result.failure.code == "INTERRUPTED":
            self._fail(test, plan, result)
            finish_identity(test, plan.spec)

    def lost(self, node_id: str, plan: Plan, result: TaskResult) -> None:
        """The result of a task whose process died with its Allure test; to be called by the one that outlived it."""
        test = TestResult(uuid=_uuid(), name=plan.task_id, start=milliseconds(result.started))
        test.stop = milliseconds(result.started + timedelta(seconds=result.elapsed))
        name_test(test, node_id, plan.spec)
        self._fill(test, plan, result, "")
        self._fail(test, plan, result)
        finish_identity(test, plan.spec)
        hook: Any = allure_commons.plugin_manager.hook
        hook.report_result(result=test)

    def _fail(self, test: TestResult, plan: Plan, result: TaskResult) -> None:
        """pytest makes no report of such an item; one that Ctrl-C ends would keep the status of its setup, `passed`."""
        test.status = str(Status.BROKEN)
        test.statusDetails = StatusDetails(
            message=brief(plan, result, self._redactor), trace=failure_text(plan, result, redactor=self._redactor)
        )

    def _fill(self, test: TestResult, plan: Plan, result: TaskResult, browser: str) -> None:
        redactor = self._redactor.plus(plan.secrets)
        steps = step_results(result, redactor)
        test.steps.extend(sorted((*fault_steps(result, redactor), *(step for _, step in steps)), key=_began))
        if result.alternative is not None:
            test.steps.append(inner_task(result.alternative, redactor))
        failing = next(
            (step for record, step in reversed(steps) if record.index == result.failed_index and not record.passed),
            None,
        )
        for content in (*on_test(result, redactor), *map(Content.of, self._kept(plan) if result.ok else ())):
            _attach(test, content)
        if failing is not None:
            for content in on_failing_step(result, redactor):
                _attach(failing, content)
        _describe(test, plan, result, browser)
        if url := source_url(plan.folder / Path(plan.source).name, self._environ):
            test.links.append(Link(type="link", url=url, name=Path(plan.source).name))


def _began(step: TestStepResult) -> int:
    began: int = step.start
    return began


_get_test: Callable[..., Any] = partial(AllureReporter.get_test, uuid=None)
_uuid: Callable[[], Any] = uuid4


def running_test() -> TestResult | None:
    """The Allure result of the item that runs now; None without --alluredir."""
    for _, plugin in allure_commons.plugin_manager.list_name_plugin():
        reporter = getattr(plugin, "allure_logger", None)
        if isinstance(reporter, AllureReporter):
            found: TestResult | None = _get_test(reporter)
            return found
    return None


def _describe(test: TestResult, plan: Plan, result: TaskResult, browser: str) -> None:
    """Labels for the categories; parameters are excluded, so that the test keeps its history."""
    if result.failure is not None:
        test.labels.append(Label("error_type", str(result.failure.type)))
        test.labels.append(Label("code", result.failure.code))
    if (site := site_of(plan.steps, plan.base_url)) and not site_of(plan.spec.steps):
        test.labels.append(Label("epic", site))  # it was not known when the marks were made
    faults = fault_reports(result)
    test.labels += [Label("fault", name) for name in dict.fromkeys(each.id for each in faults if each.struck)]
    if any(each.behind for each in faults):
        test.labels.append(Label(AFTER_FAULT, "true"))
        test.labels.append(Label("tag", "after fault"))
    if result.error is not None and result.error.expected:
        test.labels.append(Label("expected", "true"))
    score = "" if result.score is None else f"{result.score.total:g}"
    state = "skipped" if result.skipped else result.final_state
    counted = figures(result)
    figured = {"retries": counted.retries, "fallbacks": counted.fallbacks, "recovered": counted.recovered}
    values = {"seed": plan.spec.seed, "browser": browser, "final_state": state, "score": score}
    values |= {name: value or "" for name, value in figured.items()} | dict(plan.spec.own.notes)
    for name, value in values.items():
        if value != "":
            test.parameters.append(Parameter(name=name, value=str(value), excluded=True))


def _attach(parent: TestResult | TestStepResult, content: Content) -> None:
    """A file of its own for each place: Allure 3 calls one that is referred to twice missing."""
    source = f"{_uuid()}-attachment.{content.extension}"
    hook: Any = allure_commons.plugin_manager.hook
    if content.path is not None:
        hook.report_attached_file(source=str(content.path), file_name=source)
    else:
        hook.report_attached_data(body=content.data, file_name=source)
    parent.attachments.append(Attachment(name=content.name, source=source, type=content.mime))
