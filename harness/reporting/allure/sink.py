"""Writes a finished task into the running Allure test: steps, attachments, labels."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import allure_commons
from allure_commons.logger import AllureFileLogger
from allure_commons.model2 import Attachment, Label, Link, Parameter, Status, StatusDetails, TestResult, TestStepResult
from allure_commons.utils import uuid4

from harness.model.consumption import ModelFigures, by_model
from harness.model.diagnosis import fault_reports, note, suspect
from harness.model.figures import figures, model_calls, tool_calls
from harness.model.plan import Plan
from harness.model.record import Attempt, StepRecord, TaskResult
from harness.model.tool_use import ToolFigures
from harness.model.tools import ToolCall
from harness.recovery.catalog import Family
from harness.recovery.failure import Failure
from harness.reporting.allure.categories import source_url
from harness.reporting.allure.files import AFTER_FAULT
from harness.reporting.allure.labels import RUN_LABEL, label_pairs, plain_title, running_test, tags
from harness.reporting.attachments import Content, on_call, on_failing_step, on_test
from harness.reporting.console import brief, failure_text
from harness.reporting.fence import OutputFence
from harness.reporting.redaction import Redactor
from harness.reporting.telemetry.record import ModelReply, ToolReply, describe
from harness.reporting.telling import filled_step, story_of, worked_on
from harness.reporting.words import place, shortened, site_opened
from harness.spec.agents import SCRIPTED
from harness.spec.steps import Step, Tool
from harness.spec.task import TaskSpec
from harness.task_secrets import masking


def name_test(test: TestResult, node_id: str, spec: TaskSpec) -> None:
    """Set the names that allure-pytest sets up with an item: a test with its node id keeps its name in every run."""
    file, _, function = node_id.partition("::")
    test.name = plain_title(spec)
    test.description = spec.goal
    test.titlePath = file.split("/")
    test.fullName = f"{'.'.join([*test.titlePath[:-1], _module(test.titlePath)])}#{function}"
    test.testCaseId = _md5(test.fullName)


def finish_identity(test: TestResult, spec: TaskSpec) -> None:
    """Set what allure-pytest sets when it tears an item down: history, labels, suites."""
    test.historyId = test.testCaseId
    test.labels += [Label(name, value) for name, value in label_pairs(spec)]
    test.labels += [Label("tag", name) for name in tags(spec)]
    path = test.titlePath or [""]
    suites = {"parentSuite": ".".join(path[:-1]), "suite": _module(path), "framework": "pytest"}
    test.labels += [Label(name, value) for name, value in suites.items() if value]


def _module(path: list[str]) -> str:
    return path[-1].rpartition(".")[0] or path[-1]


def _md5(text: str) -> str:
    """The hash by which allure-pytest names tests; it is not for secrecy."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


# Adds a finished task to the running Allure test: steps, attachments, labels. Without --alluredir it does nothing.


class AllureSink:
    """Writes into the running Allure test."""

    def __init__(
        self,
        redactor: Redactor | None = None,
        kept: Callable[[Plan], Iterable[Path]] = lambda _plan: (),
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`kept` returns the files that a passing task's steps kept (DirectoryArchive.kept)."""
        self._redactor = redactor or Redactor()
        self._kept = kept
        self._environ = environ

    def finish(self, plan: Plan, result: TaskResult, browser: str = "") -> None:
        """Write all about one finished task."""
        test = running_test()
        if test is not None:
            self._fill(test, plan, result, browser)
        if test is not None and result.failure is not None and result.failure.code == "INTERRUPTED":
            self._fail(test, plan, result)
            finish_identity(test, plan.spec)

    def write_lost(self, node_id: str, plan: Plan, result: TaskResult) -> None:
        """Write the result of a task whose process died with its Allure test; called by the surviving process."""
        test = TestResult(uuid=_uuid(), name=plan.task_id, start=milliseconds(result.started))
        test.stop = milliseconds(result.started + timedelta(seconds=result.elapsed))
        name_test(test, node_id, plan.spec)
        self._fill(test, plan, result, "")
        self._fail(test, plan, result)
        finish_identity(test, plan.spec)
        hook: Any = allure_commons.plugin_manager.hook
        hook.report_result(result=test)

    def _fail(self, test: TestResult, plan: Plan, result: TaskResult) -> None:
        """Set the status. pytest makes no report of an item that Ctrl-C ends: it would keep its setup's `passed`."""
        story = story_of(plan, result, self._redactor)
        test.status = str(Status.BROKEN)
        test.statusDetails = StatusDetails(message=brief(story), trace=failure_text(story))

    def _fill(self, test: TestResult, plan: Plan, result: TaskResult, browser: str) -> None:
        redactor = self._redactor.plus(plan.all_secrets)  # the calls of the tasks inside it are shown, too
        with masking(redactor.text):
            self._fill_redacted(test, plan, result, redactor)
        _describe(test, plan, result, browser)
        if url := source_url(plan.folder / Path(plan.source).name, self._environ):
            test.links.append(Link(type="link", url=url, name=Path(plan.source).name))

    def _fill_redacted(self, test: TestResult, plan: Plan, result: TaskResult, redactor: Redactor) -> None:
        steps = step_results(result, redactor)
        around = [*fault_steps(result, redactor), *takeover_steps(result, redactor), *thinking_steps(result, redactor)]
        around += _put_calls(result, steps, redactor)
        test.steps.extend(sorted((*around, *(step for _, step in steps)), key=_start_of))
        test.steps[:0] = [inner_task(each, "repair task", redactor) for each in result.inner]
        if result.alternative is not None:
            test.steps.append(inner_task(result.alternative, "alternative task", redactor))
        failing = next(
            (step for record, step in reversed(steps) if record.index == result.failed_index and not record.passed),
            None,
        )
        for content in (*on_test(result, redactor), *map(Content.of, self._kept(plan) if result.ok else ())):
            _attach(test, content)
        if failing is not None:
            for content in on_failing_step(result, redactor):
                _attach(failing, content)


def _start_of(step: TestStepResult) -> int:
    began: int = step.start
    return began


_uuid: Callable[[], Any] = uuid4


def _describe(test: TestResult, plan: Plan, result: TaskResult, browser: str) -> None:
    """Add labels for the categories; parameters are excluded, so that the test keeps its history."""
    if result.failure is not None:
        test.labels.append(Label("error_type", result.failure.row.kind))
        test.labels.append(Label("code", result.failure.code))
        test.labels.append(Label("suspect", str(suspect(plan, result))))
    if (site := site_opened(plan.steps, plan.base_url)) and not site_opened(plan.spec.steps):
        test.labels.append(Label("epic", site))  # the site was unknown when the marks were made
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
    values["agent"] = " -> ".join(result.chosen_by(plan.agent))
    values["control"] = result.control
    models = by_model(model_calls(result))
    agents = (name for name in result.chosen_by(plan.agent) if name != SCRIPTED)
    test.labels += [Label("agent", name) for name in dict.fromkeys(agents)]
    test.labels += [Label("model", name) for name in models]
    if models:
        values |= _model_values(sum(models.values(), ModelFigures()))
    called = tool_calls(result)
    test.labels += [Label("tool", name) for name in dict.fromkeys(f"{each.server}.{each.tool}" for each in called)]
    values |= _tool_values(ToolFigures.of(called))
    values |= {name: value or "" for name, value in figured.items()} | dict(plan.spec.own.notes)
    for name, value in values.items():
        if value != "":
            test.parameters.append(Parameter(name=name, value=str(value), excluded=True))


def _model_values(used: ModelFigures) -> dict[str, object]:
    values = {"model calls": used.calls, "input tokens": used.input_tokens, "output tokens": used.output_tokens}
    return {**values, "cost (USD)": f"{used.cost_usd:.6g}", "unpriced calls": used.unpriced_calls or ""}


def _tool_values(used: ToolFigures) -> dict[str, object]:
    values = {"tool calls": used.calls, "tool errors": used.errors, "tool failures": used.failed}
    return {name: value or "" for name, value in values.items()}


def _attach(parent: TestResult | TestStepResult, content: Content) -> None:
    """Attach a copy of the file at each place: Allure 3 calls a file missing that is referenced twice."""
    source = f"{_uuid()}-attachment.{content.extension}"
    hook: Any = allure_commons.plugin_manager.hook
    if content.path is not None:
        hook.report_attached_file(source=str(content.path), file_name=source)
    else:
        hook.report_attached_data(body=content.data, file_name=source)
    parent.attachments.append(Attachment(name=content.name, source=source, type=content.mime))


# The records of a task as Allure steps with their real times.

_TITLE = 160


def step_results(result: TaskResult, redactor: Redactor) -> list[tuple[StepRecord, TestStepResult]]:
    """A step for each record, preconditions and criteria included; its attempts are below it if there are several."""
    steps: list[tuple[StepRecord, TestStepResult]] = []
    moment = milliseconds(result.started)
    for record in result.history:
        steps.append((record, _step(record, result.steps_total, redactor, moment)))
        moment = steps[-1][1].stop
    return steps


def takeover_steps(result: TaskResult, redactor: Redactor) -> Iterator[TestStepResult]:
    """A step for each agent that failed and was relieved."""
    for each in result.takeovers:
        step = TestStepResult(name=redactor.text(shortened(each.describe(), _TITLE)))
        step.start = step.stop = milliseconds(result.started + timedelta(seconds=each.t))
        step.status = str(Status.BROKEN)
        yield step


def thinking_steps(result: TaskResult, redactor: Redactor) -> Iterator[TestStepResult]:
    """A step for each request to a model: `builder thought 3.2 s (claude, 12.1k/180 tokens, $0.0021)`."""
    for call in result.model_calls:
        step = TestStepResult(name=redactor.text(shortened(f"{call.step}. {describe(ModelReply.of(call))}", _TITLE)))
        step.start = milliseconds(call.at)
        step.stop = milliseconds(call.at + timedelta(seconds=call.seconds))
        step.status = str(Status.PASSED if call.outcome == "answered" else Status.BROKEN)
        facts = {"model": f"{call.model} ({call.provider} {call.identifier})", "attempt": call.attempt}
        step.parameters = [Parameter(name=name, value=redactor.text(str(value))) for name, value in facts.items()]
        yield step


def _put_calls(
    result: TaskResult, steps: list[tuple[StepRecord, TestStepResult]], redactor: Redactor
) -> Iterator[TestStepResult]:
    """Put each call of a tool below its step, with its arguments and result attached; yield those of channels."""
    for call in result.tool_calls:
        own = [step for record, step in steps if record.index == call.step and isinstance(record.step, Tool)]
        step = call_step(call, redactor)
        if own:
            before = [each for each in own if each.start <= step.start]
            (before or own)[-1 if before else 0].steps.append(step)
        else:
            yield step


def call_step(call: ToolCall, redactor: Redactor) -> TestStepResult:
    """A call of a tool: `mail.get_code: answered in 0.3 s`."""
    step = TestStepResult(name=redactor.text(shortened(describe(ToolReply.of(call)), _TITLE)))
    step.start = milliseconds(call.at)
    step.stop = milliseconds(call.at + timedelta(seconds=call.seconds))
    step.status = str(Status.PASSED if call.outcome == "answered" else Status.BROKEN)
    facts = {"effect": call.effect, "tries": call.tries, "code": call.code}
    step.parameters = [Parameter(name=name, value=redactor.text(str(value))) for name, value in facts.items() if value]
    _attach(step, on_call(call, redactor))
    return step


def fault_steps(result: TaskResult, redactor: Redactor) -> Iterator[TestStepResult]:
    """A step for each fault that struck, at its first strike."""
    for met in result.faults:
        if met.count:
            step = TestStepResult(name=redactor.text(shortened(f"injected fault {met.describe()}", _TITLE)))
            step.start = step.stop = milliseconds(result.started + timedelta(seconds=met.strikes[0]))
            step.status = str(Status.PASSED)
            yield step


def inner_task(result: TaskResult, role: str, redactor: Redactor) -> TestStepResult:
    """A task that ran inside another one, as one step with its own steps below it. `role`: what it ran for."""
    step = TestStepResult(name=redactor.text(f"{role} {result.task_id}: {result.final_state}"))
    step.start = milliseconds(result.started)
    step.stop = milliseconds(result.started + timedelta(seconds=result.elapsed))
    step.status = Status.PASSED if result.ok else _failure_status(result.failure)
    steps = step_results(result, redactor)
    of_channels = _put_calls(result, steps, redactor)
    step.steps = sorted((*of_channels, *(inner for _, inner in steps)), key=_start_of)
    return step


def milliseconds(moment: datetime) -> int:
    """Milliseconds since 1970, as Allure counts."""
    return round(moment.timestamp() * 1000)


def end(attempt: Attempt) -> datetime:
    return attempt.started + timedelta(seconds=attempt.seconds)


def _step(record: StepRecord, total: int, redactor: Redactor, moment: int) -> TestStepResult:
    """The step of a record. `moment` is the time of a record without attempts: a write that had been done already."""
    step = TestStepResult(name=redactor.text(_name(record, total)))
    step.start = milliseconds(record.attempts[0].started) if record.attempts else moment
    step.stop = milliseconds(end(record.attempts[-1])) if record.attempts else moment
    step.status = _status(record)
    step.parameters = list(_parameters(record, redactor))
    if record.failure is not None:
        step.statusDetails = StatusDetails(message=redactor.text(record.failure.message))
    if record.extra_attempts:
        step.steps = [_attempt(attempt, record.step, redactor) for attempt in record.attempts]
    return step


def _name(record: StepRecord, total: int) -> str:
    step, where = filled_step(record), place(record.index, total)
    looks = where in ("pre", "end") and step.act == "assert"
    kind = {"pre": "precondition:" if looks else "repair:", "end": "success criterion:"}.get(where, f"{record.index}.")
    title = shortened(f"{kind} {'' if looks else f'{step.act} '}{worked_on(record)}", _TITLE)
    return title + "".join(_afterwards(record))


def _afterwards(record: StepRecord) -> Iterator[str]:
    if record.extra_attempts:
        yield f" ({len(record.attempts)} attempts)"
    if record.effect_already_done:
        yield " (already done)"
    if record.rewound:
        yield f" (back to the checkpoint before step {record.rewound.checkpoint})"


def _status(record: StepRecord) -> str:
    if record.skipped:
        return str(Status.SKIPPED)
    return str(Status.PASSED) if record.passed else _failure_status(record.failure)


def _failure_status(failure: Failure | None) -> str:
    """The status of a failure: `failed` if it is the product's fault, else `broken` (docs/design/failures.md)."""
    return str(Status.FAILED if failure is not None and failure.family is Family.ASSERTION else Status.BROKEN)


def _attempt(attempt: Attempt, declared: Step, redactor: Redactor) -> TestStepResult:
    failure = attempt.outcome if isinstance(attempt.outcome, Failure) else None
    step = TestStepResult(name=redactor.text(shortened(note(attempt, declared), _TITLE)))
    step.start, step.stop = milliseconds(attempt.started), milliseconds(end(attempt))
    step.status = _failure_status(failure) if failure else Status.PASSED
    if failure is not None:
        step.statusDetails = StatusDetails(message=redactor.text(failure.message))
    return step


def _parameters(record: StepRecord, redactor: Redactor) -> Iterator[Parameter]:
    step = record.lasting_step or record.step
    found = {"selector": step.target, "frame": getattr(step, "frame", None), "url": getattr(step, "url", None)}
    for name, value in (found | {"note": step.note}).items():
        if value:
            yield Parameter(name=name, value=redactor.text(str(value)))


# Labels each result with its run.

_first: Any = allure_commons.hookimpl(tryfirst=True)


class RunLabel:
    """A plugin of Allure, in each process of a run, that labels results with the run."""

    def __init__(self, run: str) -> None:
        self._run = run

    @_first  # type: ignore[untyped-decorator]
    def report_result(self, result: TestResult) -> None:
        """Add the label before Allure writes the result."""
        result.labels.append(Label(RUN_LABEL, self._run))

    def register(self) -> None:
        manager: Any = allure_commons.plugin_manager
        manager.register(self)

    def unregister(self) -> None:
        """Unregister it; it need not have been registered."""
        manager: Any = allure_commons.plugin_manager
        if manager.is_registered(self):
            manager.unregister(self)


def fence_files(fence: OutputFence) -> None:
    """Let Allure's own writer of files be called within the fence: a full disk would end the run in it, too."""
    manager: Any = allure_commons.plugin_manager
    for name, writer in manager.list_name_plugin():
        if isinstance(writer, AllureFileLogger):
            manager.unregister(writer)
            manager.register(fence.enclose("Allure", writer), name)
