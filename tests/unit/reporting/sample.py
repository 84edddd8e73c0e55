"""Plans and results made with the real constructors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from harness.model.diagnosis import error_report
from harness.model.plan import Plan
from harness.model.record import Attempt, StepRecord, TaskResult
from harness.model.report import AssertionContext, Context, ErrorReport
from harness.model.warnings import warnings
from harness.recovery import Remedy, Retry, Rulebook
from harness.recovery.failure import Assertion, Failure, Outcome, Passed
from harness.reporting import console
from harness.reporting.redaction import Redactor
from harness.reporting.story import TaskStory
from harness.reporting.telling import story_of
from harness.spec.steps import Step
from harness.spec.task import TaskSpec
from harness.values import replace

START = datetime(2025, 11, 16, 9, tzinfo=UTC)
_STEP: TypeAdapter[Step] = TypeAdapter(Step)

STEPS: tuple[Mapping[str, Any], ...] = (
    {"act": "open", "url": "http://shop.local/"},
    {"act": "click", "selector": "#search-box"},
    {"act": "type", "selector": "#search-box", "value": "wireless mouse"},
    {"act": "click", "selector": "button[type='submit']"},
    {"act": "wait", "selector": ".product-grid .product-item"},
    {"act": "click", "selector": ".product-item a"},
)


def step(**fields: Any) -> Step:
    return _STEP.validate_python(fields)


def plan(key: str = "B1-2025-001", steps: Sequence[Mapping[str, Any]] = STEPS, **fields: Any) -> Plan:
    spec = TaskSpec(task_id=fields.pop("task_id", "B1-2025-001"), goal="buy a mouse", **fields.pop("spec", {}))
    made = Plan(
        spec, spec.task_id, key, "w1", tuple(step(**s) for s in steps), (), (), Rulebook(), 300, 30,
        source="tasks/b1.task.yaml",
    )  # fmt: skip
    return replace(made, known_secrets=fields.pop("secrets", ()), **fields)


def attempt(
    of: Step, t: float, seconds: float, outcome: Outcome | None = None, remedy: Remedy | None = None
) -> Attempt:
    return Attempt(of, t, seconds, START + timedelta(seconds=t), outcome or Passed(), remedy)


TIMEOUT = Failure("STEP_TIMEOUT", "wait .product-grid .product-item exceeded 30 s", ".product-grid .product-item")


def passed_records(made: Plan, count: int) -> list[StepRecord]:
    return [StepRecord(i, made.steps[i], (attempt(made.steps[i], i * 0.5, 0.4),)) for i in range(count)]


def failed(
    made: Plan, failure: Failure = TIMEOUT, index: int = 4, attempts: int = 1, artifacts: Path | None = None
) -> TaskResult:
    """A result whose step `index` failed `attempts` times, with its report."""
    at = made.steps[index] if 0 <= index < len(made.steps) else step(act="assert", expr="exists('#done')")
    tries = [attempt(at, 2.0 + 31 * n, 30.0, failure, Retry(1.0) if n else None) for n in range(attempts)]
    before = passed_records(made, max(0, min(index, len(made.steps))))
    history = (*before, StepRecord(index, at, tuple(tries)))
    result = TaskResult(
        made.task_id, made.key, "failed", history, START, 32.5, len(made.steps), failure, index,
        tuple(warnings(history)), {}, None, artifacts,
    )  # fmt: skip
    return replace(result, error=report(made, result))


def report(made: Plan, result: TaskResult, expected: bool = False) -> ErrorReport:
    found = result.failure.assertion if result.failure else None
    context = Context(
        url="http://shop.local/search?q=mouse",
        browser_console_logs=("[ERROR] Failed to fetch /api/search: net::ERR_CONNECTION_TIMED_OUT",),
        assertion=AssertionContext(
            expression=found.expression, expected=found.expected, actual=found.actual, diff=found.diff
        )
        if found
        else None,
    )
    return error_report(made, result, context, expected)


def completed(made: Plan, history: Sequence[StepRecord] | None = None) -> TaskResult:
    records = tuple(history if history is not None else passed_records(made, len(made.steps)))
    return TaskResult(
        made.task_id, made.key, "completed", records, START, 3.2, len(made.steps), warnings=tuple(warnings(records))
    )


WRONG_STATE = Failure(
    "ASSERTION_FAILED",
    "#return-state is 'processing', expected 'approved'",
    "#return-state",
    assertion=Assertion("text('#return-state') == 'approved'", "approved", "processing", "- approved\n+ processing"),
)


# What a screen, a box and a headline say of a result.


def failure_text(
    made: Plan,
    result: TaskResult,
    width: int = 100,
    redactor: Redactor | None = None,
    unserved: Path | None = None,
    full_trace: str = "",
) -> str:
    return console.failure_text(story_of(made, result, redactor), width, unserved, full_trace)


def brief(made: Plan, result: TaskResult, redactor: Redactor | None = None) -> str:
    return console.brief(story_of(made, result, redactor))


def headline(made: Plan, result: TaskResult, redactor: Redactor | None = None) -> str:
    return console.printed([story_of(made, result, redactor).headline])


def told(made: Plan, result: TaskResult, redactor: Redactor | None = None) -> tuple[TaskSpec, TaskStory]:
    """What Allure is given of a result."""
    return made.spec, story_of(made, result, redactor)
