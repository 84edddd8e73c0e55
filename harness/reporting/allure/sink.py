"""Writes a finished task into the running Allure test: steps, attachments, labels."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import allure_commons
from allure_commons.logger import AllureFileLogger
from allure_commons.model2 import Attachment, Label, Link, Parameter, Status, StatusDetails, TestResult, TestStepResult
from allure_commons.utils import uuid4

from harness.model.consumption import ModelFigures
from harness.model.tool_use import ToolFigures, of_all_tools
from harness.recovery.catalog import CATALOG, Family
from harness.reporting.allure.categories import source_url
from harness.reporting.allure.files import AFTER_FAULT
from harness.reporting.allure.labels import RUN_LABEL, label_pairs, plain_title, running_test, tags
from harness.reporting.attachments import Content, on_call, on_failing_step, on_test
from harness.reporting.console import brief, failure_text
from harness.reporting.fence import OutputFence
from harness.reporting.story import InnerStory, StoryAttempt, StoryCall, StoryStep, TaskStory
from harness.reporting.words import shortened
from harness.spec.agents import SCRIPTED
from harness.spec.file_names import HOOKS
from harness.spec.task import TaskSpec


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
        self, kept: Callable[[str], Iterable[Path]] = lambda _key: (), environ: Mapping[str, str] = os.environ
    ) -> None:
        """`kept` returns the files that a passing task's steps kept (DirectoryArchive.kept_files), by its key."""
        self._kept = kept
        self._environ = environ

    def finish(self, spec: TaskSpec, story: TaskStory, browser: str = "") -> None:
        """Write all about one finished task."""
        test = running_test()
        if test is not None:
            self._fill(test, story, browser)
        if test is not None and story.failure is not None and story.failure.code == "INTERRUPTED":
            self._fail(test, story)
            finish_identity(test, spec)

    def write_lost(self, node_id: str, spec: TaskSpec, story: TaskStory) -> None:
        """Write the result of a task whose process died with its Allure test; called by the surviving process."""
        test = TestResult(uuid=_uuid(), name=story.task_id, start=_at(story, 0))
        test.stop = _at(story, story.seconds)
        name_test(test, node_id, spec)
        self._fill(test, story, "")
        self._fail(test, story)
        finish_identity(test, spec)
        hook: Any = allure_commons.plugin_manager.hook
        hook.report_result(result=test)

    def _fail(self, test: TestResult, story: TaskStory) -> None:
        """Set the status. pytest makes no report of an item that Ctrl-C ends: it would keep its setup's `passed`."""
        test.status = str(Status.BROKEN)
        test.statusDetails = StatusDetails(message=brief(story), trace=failure_text(story))

    def _fill(self, test: TestResult, story: TaskStory, browser: str) -> None:
        steps = step_results(story.steps, story.started)
        around = [
            *_fault_steps(story),
            *_takeover_steps(story),
            *_thinking_steps(story),
            *_put_calls(story.calls, steps),
        ]
        test.steps.extend(sorted((*around, *(result for _, result in steps)), key=_start_of))
        repairs = [each for each in story.inner if each.role == "repair task"]
        test.steps[:0] = map(_inner_task, repairs)
        test.steps += [_inner_task(each) for each in story.inner if each not in repairs]
        failed = (result for step, result in reversed(steps) if step.index == story.failed_index and not step.passed)
        failing = next(failed, None)
        for content in (*on_test(story), *map(Content.of, self._kept(story.key) if story.ok else ())):
            _attach(test, content)
        if failing is not None:
            for content in on_failing_step(story):
                _attach(failing, content)
        _describe(test, story, browser)
        name = Path(story.file.source).name
        if url := source_url(Path(story.file.folder) / name, self._environ):
            test.links.append(Link(type="link", url=url, name=name))


def _at(story: TaskStory, seconds: float) -> int:
    """A moment of the task, as Allure counts."""
    return _milliseconds(story.started + timedelta(seconds=seconds)) if story.started else 0


def _start_of(step: TestStepResult) -> int:
    began: int = step.start
    return began


_uuid: Callable[[], Any] = uuid4


def _describe(test: TestResult, story: TaskStory, browser: str) -> None:
    """Add labels for the categories; parameters are excluded, so that the test keeps its history."""
    if story.failure is not None:
        facts = {"error_type": story.failure.kind, "code": story.failure.code, "suspect": story.failure.suspect}
        test.labels += [Label(name, value) for name, value in facts.items()]
    if story.file.site:
        test.labels.append(Label("epic", story.file.site))  # the site was unknown when the marks were made
    test.labels += [Label("fault", name) for name in dict.fromkeys(each.id for each in story.faults if each.struck)]
    if any(each.behind for each in story.faults):
        test.labels.append(Label(AFTER_FAULT, "true"))
        test.labels.append(Label("tag", "after fault"))
    if story.expected:
        test.labels.append(Label("expected", "true"))
    test.labels += [Label("agent", name) for name in dict.fromkeys(story.agents) if name != SCRIPTED]
    test.labels += [Label("model", name) for name in story.models]
    test.labels += [Label("tool", f"{server}.{tool}") for server, tools in story.tools.items() for tool in tools]
    for name, value in _values(story, browser).items():
        if value != "":
            test.parameters.append(Parameter(name=name, value=str(value), excluded=True))


def _values(story: TaskStory, browser: str) -> dict[str, object]:
    values: dict[str, object] = {
        "seed": story.file.seed,
        "browser": browser,
        "final_state": "skipped" if story.skipped else story.final_state,
        "score": "" if story.score is None else f"{story.score.total:g}",
        "agent": " -> ".join(story.agents),
        "control": story.control,
    }
    if story.models:
        values |= _model_values(sum(story.models.values(), ModelFigures()))
    values |= _tool_values(of_all_tools(story.tools))
    counted = story.figures
    figured = {"retries": counted.retries, "fallbacks": counted.fallbacks, "recovered": counted.recovered}
    return values | {name: value or "" for name, value in figured.items()} | dict(story.file.notes)


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


def step_results(steps: Iterable[StoryStep], began: datetime | None) -> list[tuple[StoryStep, TestStepResult]]:
    """A step for each one, preconditions and criteria included; its attempts are below it if there are several."""
    results: list[tuple[StoryStep, TestStepResult]] = []
    moment = _milliseconds(began) if began else 0
    for step in steps:
        results.append((step, _step(step, moment)))
        moment = results[-1][1].stop
    return results


def _takeover_steps(story: TaskStory) -> Iterator[TestStepResult]:
    """A step for each agent that failed and was relieved."""
    return (_moment(each.text, _at(story, each.t), Status.BROKEN) for each in story.takeovers)


def _fault_steps(story: TaskStory) -> Iterator[TestStepResult]:
    """A step for each fault that struck, at its first strike."""
    struck = (each for each in story.faults if each.struck)
    return (_moment(f"injected fault {each.text}", _at(story, each.times[0]), Status.PASSED) for each in struck)


def _moment(name: str, at: int, status: object) -> TestStepResult:
    step = TestStepResult(name=shortened(name, _TITLE))
    step.start = step.stop = at
    step.status = str(status)
    return step


def _thinking_steps(story: TaskStory) -> Iterator[TestStepResult]:
    """A step for each request to a model: `builder thought 3.2 s (claude, 12.1k/180 tokens, $0.0021)`."""
    for each in story.thoughts:
        yield _request(each.line, each.at, each.seconds, each.facts, answered=each.answered)


def _request(
    line: str, at: datetime | None, seconds: float, facts: Mapping[str, object], *, answered: bool
) -> TestStepResult:
    """A question to a model, or a call of a tool."""
    step = TestStepResult(name=shortened(line, _TITLE))
    step.start = _milliseconds(at) if at else 0
    step.stop = _milliseconds(at + timedelta(seconds=seconds)) if at else 0
    step.status = str(Status.PASSED if answered else Status.BROKEN)
    step.parameters = [Parameter(name=name, value=str(value)) for name, value in facts.items() if value]
    return step


def _put_calls(calls: Iterable[StoryCall], steps: list[tuple[StoryStep, TestStepResult]]) -> Iterator[TestStepResult]:
    """Put each call of a tool below its step, with its arguments and result attached; yield those of channels."""
    for call in calls:
        own = [result for step, result in steps if step.index == call.step and step.act == "tool"]
        made = _call_step(call)
        if own:
            before = [each for each in own if each.start <= made.start]
            (before or own)[-1 if before else 0].steps.append(made)
        else:
            yield made


def _call_step(call: StoryCall) -> TestStepResult:
    """A call of a tool: `mail.get_code: answered in 0.3 s`."""
    facts = {name: call.document.get(name) for name in ("effect", "tries", "code")}
    answered = call.document.get("outcome") == "answered"
    step = _request(call.line, call.at, call.seconds, facts, answered=answered)
    _attach(step, on_call(call))
    return step


def _inner_task(inner: InnerStory) -> TestStepResult:
    """A task that ran inside another one, as one step with its own steps below it."""
    step = TestStepResult(name=f"{inner.role} {inner.task_id}: {inner.final_state}")
    step.start = _milliseconds(inner.started)
    step.stop = _milliseconds(inner.started + timedelta(seconds=inner.seconds))
    step.status = Status.PASSED if inner.ok else _failure_status(inner.code)
    steps = step_results(inner.steps, inner.started)
    of_channels = _put_calls(inner.calls, steps)
    step.steps = sorted((*of_channels, *(result for _, result in steps)), key=_start_of)
    return step


def _milliseconds(moment: datetime) -> int:
    """Milliseconds since 1970, as Allure counts."""
    return round(moment.timestamp() * 1000)


def _times(attempts: Sequence[StoryAttempt], otherwise: int) -> tuple[int, int]:
    """The begin of the first attempt and the end of the last; a write that had been done already has none."""
    began = attempts[0].started if attempts else None
    ended = attempts[-1].started if attempts else None
    if began is None or ended is None:
        return otherwise, otherwise
    return _milliseconds(began), _milliseconds(ended + timedelta(seconds=attempts[-1].seconds or 0.0))


def _step(step: StoryStep, moment: int) -> TestStepResult:
    """The result of a step. `moment` is the time of one without attempts."""
    result = TestStepResult(name=_name(step))
    result.start, result.stop = _times(step.attempts, moment)
    result.status = _status(step)
    result.parameters = [Parameter(name=name, value=value) for name, value in step.parameters.items()]
    if step.failure is not None:
        result.statusDetails = StatusDetails(message=step.failure.message)
    if step.extra_attempts:
        result.steps = [_attempt(attempt) for attempt in step.attempts]
    return result


def _name(step: StoryStep) -> str:
    note = step.parameters.get("note", "")
    hook = note if step.place in ("pre", "end") and note.startswith(HOOKS) else ""
    looks = not hook and step.place in ("pre", "end") and step.act == "assert"
    kind = (
        f"{hook}:"
        if hook
        else {"pre": "precondition:" if looks else "repair:", "end": "success criterion:"}.get(
            step.place, f"{step.place}."
        )
    )
    title = shortened(f"{kind} {'' if looks else f'{step.act} '}{step.worked_on}", _TITLE)
    return title + "".join(_afterwards(step))


def _afterwards(step: StoryStep) -> Iterator[str]:
    if step.extra_attempts:
        yield f" ({len(step.attempts)} attempts)"
    if step.status == "done":
        yield " (already done)"
    if step.went_back_to is not None:
        yield f" (back to the checkpoint before step {step.went_back_to})"


def _status(step: StoryStep) -> str:
    if step.skipped or step.left_out:
        return str(Status.SKIPPED)
    return str(Status.PASSED) if step.passed else _failure_status(step.failure.code if step.failure else "")


def _failure_status(code: str) -> str:
    """`failed` if a failure is the product's fault, else `broken` (docs/design/pytest-and-parallel.md)."""
    asserted = code in CATALOG and CATALOG[code].family is Family.ASSERTION
    return str(Status.FAILED if asserted else Status.BROKEN)


def _attempt(attempt: StoryAttempt) -> TestStepResult:
    step = TestStepResult(name=shortened(attempt.note, _TITLE))
    step.start, step.stop = _times([attempt], 0)
    step.status = Status.PASSED if attempt.passed else _failure_status(attempt.code)
    if not attempt.passed:
        step.statusDetails = StatusDetails(message=attempt.message)
    return step


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
