"""The story of a task: no secret and no text that cannot be written is in it, whatever its result says."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields as data_fields
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from allure_commons import model2
from msgspec import Struct
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

from harness.cli.replay import Replayed, document
from harness.model.events import (
    AttemptEnded,
    Event,
    ModelAnswered,
    ResilienceActed,
    StepEnded,
    StepStarted,
    TaskEnded,
    TaskStarted,
    ToolAnswered,
)
from harness.model.inference import ModelCall, Usage
from harness.model.record import (
    MetFault,
    MetRoute,
    Rewound,
    RoutedRequest,
    Score,
    ScorePart,
    StepRecord,
    TakeOver,
    TaskResult,
    Warning_,
)
from harness.model.settings import Settings
from harness.model.trajectory import SaidByModel, SeenByAgent
from harness.recovery import Retry, Substitute
from harness.recovery.failure import Assertion, Failure
from harness.reporting import console
from harness.reporting.allure.sink import step_results
from harness.reporting.attachments import on_failing_step, on_test
from harness.reporting.history.record import Execution, RunRecord
from harness.reporting.markdown import Page, commands, markdown
from harness.reporting.progress import ProgressLine
from harness.reporting.redaction import Redactor
from harness.reporting.story import StoryFailure, TaskStory, as_json, of_json
from harness.reporting.summary import summary_lines
from harness.reporting.task_record import task_record
from harness.reporting.telemetry.exporters import Spans
from harness.reporting.telemetry.log import EventLog
from harness.reporting.telemetry.stream import Telemetry
from harness.reporting.telling import bare_story, story_of
from harness.reporting.trajectory import Trajectories
from harness.reporting.triage import causes, of_record, troubles
from harness.resilience.events import FellBack, Retrying, Waiting
from harness.spec.faults import Refuse
from harness.spec.routes import Route
from harness.spec.task import Expect
from harness.values import replace
from tests.unit.fakes import FakeClock
from tests.unit.model.test_tool_use import CALL, ERROR
from tests.unit.reporting import sample
from tests.unit.reporting.dashboard.pages import page_of
from tests.unit.reporting.telemetry.stage import Kept

SECRETS = tuple(
    f"{kind}{number}"
    for number in range(8)
    for kind in ("kqxz-word-", "KQXZ'quote\"-", "kqxz\\back&slash<", "kqxz é%ü-", "kqxz\ttab + line-")
)
"""Forty secrets: plain ones, and ones that JSON, HTML, addresses and terminals write otherwise."""
FAULT = Refuse(kind="refuse", host="shop.local", seconds=5)
HALF = "\ud83d"
CONTROL = "\x1b[31m\x07\r"
AS_IS = frozenset(
    {
        "task_id",
        "key",
        "act",
        "code",
        "final_state",
        "family",
        "started",
        "artifacts",
        "source",
        "kind",
        "outcome",
        "effect",
    }
)
"""What identifies a task, and words of fixed vocabularies: no secret can be there."""


def planted(value: Any, number: Iterator[int], name: str = "") -> Any:
    """The value with a secret, half of a surrogate pair and control characters at the end of each text in it."""
    if name in AS_IS:
        return value
    if isinstance(value, str) and not isinstance(value, Enum):
        return f"{value} {SECRETS[next(number) % len(SECRETS)]} {HALF}{CONTROL}"
    if isinstance(value, BaseModel):
        return value.model_copy(update={key: planted(found, number, key) for key, found in value})
    if isinstance(value, Struct):
        names = value.__struct_fields__
        return replace(value, **{each: planted(getattr(value, each), number, each) for each in names})
    if is_dataclass(value) and not isinstance(value, type):
        names = tuple(each.name for each in data_fields(value))
        return replace(value, **{each: planted(getattr(value, each), number, each) for each in names})
    if isinstance(value, Mapping):
        return {key: planted(item, number, str(key)) for key, item in value.items()}
    return type(value)(planted(item, number) for item in value) if isinstance(value, tuple | list) else value


def whole() -> TaskResult:
    """A failed result that has something in each of its fields."""
    made = sample.plan()
    details = {
        "criterion": "text('#a') == 'b'", "also_unmet": ["Assertion failed: x"], "unmet_criteria": ["a", "b"],
        "limit": "the step's", "unanswered": ["GET http://shop.local/slow"], "matches": ["<a>"], "url": "http://a.b/c",
        "service": "desk", "service_crashes": {"desk": "crashed 2 s before"},
    }  # fmt: skip
    assertion = Assertion("text('#a') == 'b'", {"a": ["expected"]}, "actual\nlines", "- a\n+ b", "plain")
    failure = Failure("ASSERTION_FAILED", "it is not so", "#a", details, assertion)
    result = sample.failed(made, failure, 4, attempts=3)
    back = replace(result.history[-1], rewound=Rewound(2, ("a difference",)))
    tool = sample.step(act="tool", server="mail", tool="get_code", arguments={"to": "ann@shop.local"})
    called = StepRecord(1, tool, (sample.attempt(tool, 1, 1, Failure("TOOL_FAILED", "no such mail")),))
    typed = sample.step(act="type", selector="#name", value="a name", note="a note")
    hurt = StepRecord(
        2, typed, (sample.attempt(typed, 2, 1, sample.TIMEOUT), sample.attempt(typed, 4, 1, None, Retry(1)))
    )
    thought = ModelCall(
        "builder", "claude", "anthropic", "claude-x", 3, 1, sample.START, 2.0, 1.0, Usage(), 0.1, "failed", "MODEL_AUTH"
    )
    return replace(
        result,
        history=(called, hurt, back, *result.history),
        warnings=(Warning_("step_skipped", "it was skipped", 1, {"why": "because"}),),
        score=Score(0.5, (ScorePart("p", "part", 1.0, met=False, required=True, reason="a reason"),), {"speed": 0.5}),
        faults=(MetFault("f", FAULT, 1, (3.0,), why="a why", problem="a problem"),),
        routes=(
            MetRoute(
                0, Route(url="http://shop.local/*", status=204), 1, (RoutedRequest(1, "GET", "http://a.b/", 200),)
            ),
        ),
        model_calls=(thought,),
        tool_calls=(CALL, ERROR),
        takeovers=(TakeOver("first", "second", sample.TIMEOUT, 3, 1.0),),
        inner=(result,),
        alternative=result,
    )


@cache
def told() -> TaskStory:
    made = sample.plan()
    return story_of(made, planted(whole(), count()), Redactor(SECRETS))


def texts(document: Any) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict):
        yield from (text for pair in document.items() for each in pair for text in texts(each))
    elif isinstance(document, list):
        yield from (text for each in document for text in texts(each))


def allure_texts(steps: Iterable[model2.TestStepResult]) -> Iterator[str]:
    for step in steps:
        yield from (step.name, *(each.value for each in step.parameters))
        yield from [step.statusDetails.message] if step.statusDetails else []
        yield from allure_texts(step.steps)


def told_texts(document: str) -> str:
    return "\n".join(texts(json.loads(document)))


def run_of(story: TaskStory) -> RunRecord:
    record = task_record(story)
    execution = Execution(nodeid=story.task_id, task_id=story.task_id, outcome="failed", record=record)
    return RunRecord(run="20251116T090000-1", started=sample.START, executions=(execution,))


OUTPUTS: dict[str, Callable[[TaskStory], str]] = {
    "JSON": lambda story: "\n".join(texts(json.loads(as_json(story)))),
    "screen": console.failure_text,
    "whole screen": lambda story: "\n".join(console.screen(story, console.EVERYTHING)),
    "box": console.brief,
    "attachments": lambda story: "\n".join(each.data for each in (*on_test(story), *on_failing_step(story))).replace(
        "\r\n",
        "\n",  # a table's own line breaks
    ),
    "Allure": lambda story: "\n".join(allure_texts(result for _, result in step_results(story.steps, story.started))),
    "last-run.json and the history": lambda story: told_texts(task_record(story).model_dump_json()),
    "triage": lambda story: told_texts(msgspec.json.encode(of_record(task_record(story))).decode()),
    "job summary": lambda story: markdown(Page(run_of(story), causes(troubles(run_of(story))), {}, ())),
    "annotation": lambda story: "\n".join(commands(causes(troubles(run_of(story))), lambda _task: ("t.yaml", 1))),
    "dashboard": lambda story: page_of(run_of(story)),
    "end of the run": lambda story: "\n".join(summary_lines([task_record(story)])),
    "harness replay --json": lambda story: told_texts(document(Replayed(story, False, ()), 4)),
}
"""Name of an output -> how it is made from a story. A report that is added to the house is added here."""


@pytest.mark.parametrize("output", OUTPUTS)
def test_no_output_has_a_secret_or_half_a_letter(output: str) -> None:
    text = OUTPUTS[output](told())
    assert [each for each in SECRETS if each in text or each[:8] in text] == []
    assert not any(letter in text for letter in (HALF, "\x1b", "\x07", "\r"))
    assert text.encode()


def every_event(result: TaskResult) -> Iterator[Event]:
    """The events of a task with all that a result has in them."""
    made = sample.plan(agent="builder")
    yield TaskStarted(made, sample.START)
    for record in result.history:
        yield StepStarted(made, record.index, record.step, sample.START)
        yield from (AttemptEnded(made, record.index, each) for each in record.attempts)
        told = record.failure.message if record.failure else "no message"
        for event in (
            Retrying("open", 2, 3, 2.0, told),
            Waiting("open", 30.0, told),
            FellBack("click", "#a", told, told),
        ):
            yield ResilienceActed(made, record.index, event, Substitute("#b"))
        yield StepEnded(made, record)
    yield from (ModelAnswered(made, call) for call in result.model_calls)
    yield from (ToolAnswered(made, call) for call in result.tool_calls)
    yield TaskEnded(made, result, sample.START)


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_event_no_span_and_no_live_line_has_a_secret(tmp_path: Path) -> None:
    """The stream is their door: no sink takes a secret out itself."""
    exporter, provider, screen, kept = InMemorySpanExporter(), TracerProvider(), Screen(), Kept()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    line, spans = ProgressLine(screen, lambda: 100_000), Spans("run-1", provider.get_tracer("test"))
    log = EventLog(tmp_path / "events.jsonl")
    stream = Telemetry("run-1", FakeClock(), Redactor(SECRETS), (kept, line, spans, log), steps=True)
    for event in every_event(planted(whole(), count())):
        stream.turn(event, heard=False)
    stream.close()
    assert stream.problems == {}
    told = [each.to_json() for each in exporter.get_finished_spans()]
    assert len(told) > 5
    assert {each.event.type for each in kept.records} >= {"step", "task", "model-answered", "tool-answered"}
    lines = [*(tmp_path / "events.jsonl").read_text("utf-8").splitlines(), *told]
    text = "\n".join((screen.getvalue(), *(text for each in lines for text in texts(json.loads(each)))))
    assert "it is not so" in text
    assert [each for each in SECRETS if each in text or each[:8] in text] == []
    assert HALF not in text


def test_the_way_of_an_agent_has_no_secret(tmp_path: Path) -> None:
    made, result = sample.plan(agent="builder", secrets=SECRETS), planted(whole(), count())
    result = replace(result, history=tuple(replace(each, agent="builder") for each in result.history))
    seen = SeenByAgent("builder", 0, sample.START, f"http://shop.local/?k={SECRETS[0]}", f"- text: {SECRETS[1]}")
    said = SaidByModel("builder", 0, sample.START, "claude", "type", {"value": SECRETS[2]}, f"its {SECRETS[3]} {HALF}")
    file = Trajectories(Settings(root=tmp_path), "run", Redactor()).keep(made, result, (seen, said))
    lines = file.read_text("utf-8").splitlines()
    pages = [each.read_text("utf-8") for each in file.parent.rglob("*.txt")]
    text = "\n".join((*pages, *(text for line in lines for text in texts(json.loads(line)))))
    assert all(words in text for words in ("it is not so", "- text: ", "http://shop.local/?k=", "its [redacted]"))
    assert [each for each in SECRETS if each in text or each[:8] in text] == []


def test_each_text_of_the_result_was_planted() -> None:
    """Else the test above looks at nothing; what stands beside the secrets stays."""
    number = count()
    planted(whole(), number)
    assert next(number) > 150
    text = as_json(told()).decode()
    assert all(words in text for words in ("it is not so", "a reason", "because", "builder", "no such mail", "a note"))


def test_of_a_task_whose_story_cannot_be_told_the_code_is_said() -> None:
    made = sample.plan()
    story = bare_story(made, sample.failed(made, Failure("STEP_TIMEOUT", "it has a secret")))
    assert not story.as_declared
    for shown in (console.failure_text(story), console.brief(story)):
        assert shown.startswith("B1-2025-001 failed: STEP_TIMEOUT; a fault of the harness")
        assert "it has a secret" not in shown


def test_how_a_task_differs_from_what_it_declares_is_said_without_secrets() -> None:
    plain = sample.plan(secrets=("hunter2",))
    expect = Expect(final_state="failed", code="NET_TIMEOUT")
    made = replace(plain, spec=plain.spec.model_copy(update={"expect": expect}))
    result = replace(sample.failed(made), unlike_expected=("text('#a') == 'hunter2': it is 'hunter2'",))
    story = story_of(made, result)
    assert not story.as_declared
    assert story.differences[0].startswith("code: expected NET_TIMEOUT")
    assert story.differences[-1] == "text('#a') == '[redacted]': it is '[redacted]'"
    assert story_of(plain, sample.completed(plain)).as_declared


def test_a_code_of_another_version_has_the_row_of_an_unknown_one() -> None:
    assert (StoryFailure("NO_SUCH_CODE", "").type, StoryFailure("STEP_TIMEOUT", "").type) == ("unknown", "timeout_step")


def test_a_story_survives_its_file() -> None:
    assert of_json(as_json(told())) == told()


def test_a_story_keeps_line_breaks_and_tabs() -> None:
    made = sample.plan()
    story = story_of(made, sample.failed(made, Failure("STEP_TIMEOUT", "one\r\ntwo\tthree\x00four")))
    assert story.failure is not None
    assert story.failure.message == "one\ntwo\tthree four"
