"""The figures of a run: the one place where retries, fallbacks and recoveries are counted.

Terminal, JUnit, Allure, dashboard, history, metrics.json, error_report.json and events.jsonl all show what is counted
here, from the records of a task; `consumption.py` counts the calls of models, and `tool_use.py` those of tools.
docs/figures.md has the same table in words (`FIGURES` is its source).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal

from msgspec import Struct, field

from harness.model.consumption import by_model
from harness.model.inference import ModelCall
from harness.model.record import Answer, Attempt, StepRecord, TaskResult
from harness.model.tool_use import by_tool
from harness.model.tools import ToolCall
from harness.recovery.catalog import Family
from harness.recovery.failure import Failure
from harness.resilience.events import one_line
from harness.spec.steps import Step

Verdict = Literal["passed", "passed as declared", "failed", "not judged"]
UNJUDGED = frozenset({"INTERRUPTED", "WORKER_CRASHED", "WORKER_CUT_OFF"})
"""Codes of tasks that were cut off from outside: they say nothing about the task itself."""

FIGURES: Mapping[str, str] = {
    "passed": "The task reached its end: `completed` or `partial_success`, which fails under `--taskspec-strict`.",
    "passed as declared": "The task failed exactly as its `expect` declares. It counts as passed.",
    "failed": "The task did not reach its end, or not the one that its `expect` declares.",
    "not judged": "The task was stopped from outside: by Ctrl-C, or because its process died. It counts as neither "
    "passed nor failed.",
    "successful": "Tasks that passed, also as declared.",
    "attempts": "Attempts at steps, preconditions and success criteria, without those that an open circuit held back.",
    "retries": "How often a failed step was done again: after a wait or a repair, from a checkpoint, in a new page or "
    "browser; also refused proposals that an agent had to replace. Not: waits for a circuit, repeated calls of models "
    "and tools.",
    "successful retries": "Retries after which the step passed. Of one step, only the last can be successful.",
    "failed retries": "All other retries.",
    "fallbacks": "How often something else was tried: another selector, the other side of an inconsistent state, "
    "another agent, or the alternative task; not another model. A fallback is not a retry.",
    "recovered": "Steps that failed and passed in the end, by a retry, by a fallback, or because their effect was "
    "already there. Skipped steps do not count.",
    "recovery_success_rate": "For each rule of `error_recovery`: the share of the steps at which it acted that passed "
    "in the end.",
    "error_rate": "In the thresholds: the highest share of failed attempts within five minutes; 0 below 20 attempts.",
    "failure_rate": "In `harness history`: the share of failed tasks among those that passed or failed.",
    "model calls": "Requests to models, also those that failed, were cancelled or replayed.",
    "tokens in, tokens out": "What the provider has counted, with what it read from its cache; of a request that was "
    "cut off, an estimate.",
    "cached": "The share of the tokens in that was read from the provider's cache.",
    "cost": "US dollars of all calls whose price is known. A replayed call costs 0.",
    "unpriced": "Calls that have used tokens and whose price is not known. Their cost is in no sum.",
    "thinking": "Seconds of calls of models, without the waits between them.",
    "tool calls": "Calls of tools, each with all its tries. One that the tool answered with an error counts under "
    "errors, one without an answer under failed.",
    "repeated calls": "Tries of calls of tools after the first. They are no retries of steps.",
    "takeovers": "How often another agent went on in place of one that failed. Each is also a fallback.",
    "cost per success": "The cost of all tasks that have asked models, divided by the number of those that passed.",
}
"""Name of a figure -> what it counts."""


class Figures(Struct, frozen=True):
    """The figures of one task, or of several tasks added up."""

    attempts: int = 0
    failed_attempts: int = 0
    retries: int = 0
    successful_retries: int = 0
    fallbacks: int = 0
    recovered: int = 0
    recovery_seconds: float = 0.0
    """Seconds from the first failure of a step to its success, summed over all steps that recovered."""
    by_rule: tuple[tuple[Family, bool], ...] = ()
    """For each step and each rule that acted there: whether the step passed in the end."""

    def __add__(self, other: Figures) -> Figures:
        return Figures(*(getattr(self, each) + getattr(other, each) for each in self.__struct_fields__))

    @property
    def failed_retries(self) -> int:
        return self.retries - self.successful_retries


class _Failing(Struct):
    """A step that failed and has not passed since; going back to a checkpoint does not end it."""

    since: float
    """The time when its first failed attempt ended, in seconds of the task."""
    answers: list[Answer] = field(default_factory=list)


def figures(result: TaskResult) -> Figures:
    """Sum up the records of a task; another agent or an alternative task in its place counts as one fallback."""
    total = Figures(fallbacks=(result.alternative is not None) + len(result.takeovers))
    troubles: dict[Hashable, _Failing] = {}
    for record in result.history:
        made = attempts_made(record)
        total += Figures(attempts=len(made), failed_attempts=sum(not each.passed for each in made))
        key = step_key(record.index, record.step)
        trouble = _failing_step(record, troubles.pop(key, None))
        if trouble is None:
            continue
        if record.passed:
            last = record.attempts[-1] if record.attempts else None
            total += _settled(trouble, end=last.t + last.seconds if last else 0.0)
        elif record.skipped:
            total += _settled(trouble)
        else:
            troubles[key] = trouble
    return sum((_settled(trouble) for trouble in troubles.values()), total)


def step_key(index: int, step: Step) -> Hashable:
    """A key that stays the same when a step is repeated. Checks share their index with the step that they check."""
    return (index, step.describe() if step.act == "assert" else "")


def attempts_made(record: StepRecord) -> list[Attempt]:
    """The attempts of a record, without those that a circuit held back."""
    return [
        each
        for each in record.attempts
        if not (isinstance(each.outcome, Failure) and each.outcome.code == "CIRCUIT_OPEN")
    ]


def is_retry(answer: Answer) -> bool:
    """Return whether an answer repeats the same attempt; an answer that neither repeats nor waits is a fallback."""
    return answer.remedy.again and not answer.waited


def verdict(
    final_state: str, code: str | None, *, expected: bool = False, unexpected: bool = False, refused: bool = False
) -> Verdict:
    """The verdict on a task. `code`: of its failure; `refused`: a partial success under `--taskspec-strict`."""
    if code in UNJUDGED:
        return "not judged"
    if unexpected or refused:
        return "failed"
    if final_state in ("completed", "partial_success"):
        return "passed"
    return "passed as declared" if expected else "failed"


def success_rates(pairs: Iterable[tuple[Family, bool]]) -> Iterator[tuple[Family, int, int]]:
    """(rule, number of uses, number of successes), sorted by the rule's name."""
    found: dict[Family, list[bool]] = {}
    for family, worked in pairs:
        found.setdefault(family, []).append(worked)
    for family in sorted(found):
        yield family, len(found[family]), sum(found[family])


def _failing_step(record: StepRecord, before: _Failing | None) -> _Failing | None:
    """The failures of the step up to this record; None if it never failed."""
    failed = [each for each in record.attempts if isinstance(each.outcome, Failure)]
    if before is None and not failed:
        return None
    trouble = before or _Failing(failed[0].t + failed[0].seconds)
    trouble.answers += record.answers
    return trouble


def _settled(trouble: _Failing, end: float | None = None) -> Figures:
    """Count a failing step as settled. `end`: when it passed; None: it never did."""
    passed, said = end is not None, [each for each in trouble.answers if not each.waited]
    families = dict.fromkeys(each.family for each in trouble.answers if each.family is not Family.NONE)
    return Figures(
        retries=sum(map(is_retry, said)),
        successful_retries=passed and bool(said) and is_retry(said[-1]),
        fallbacks=sum(not is_retry(each) for each in said),
        recovered=passed,
        recovery_seconds=max(0.0, end - trouble.since) if end is not None else 0.0,
        by_rule=tuple((family, passed) for family in families),
    )


def model_calls(result: TaskResult) -> tuple[ModelCall, ...]:
    """The ledger of a task, with those of the tasks inside it and in its place: all were paid for."""
    return (*result.model_calls, *(call for each in _others(result) for call in model_calls(each)))


def tool_calls(result: TaskResult) -> tuple[ToolCall, ...]:
    """The ledger of a task, with those of the tasks inside it and in its place: all have taken effect."""
    return (*result.tool_calls, *(call for each in _others(result) for call in tool_calls(each)))


def _others(result: TaskResult) -> tuple[TaskResult, ...]:
    return (*result.inner, *((result.alternative,) if result.alternative else ()))


class TaskDone(Struct, frozen=True):
    """A task has ended."""

    type: ClassVar[str] = "task"
    final_state: str
    """As in the result; `skipped` for a task that was left out."""
    seconds: float
    steps: int
    """The number of completed steps."""
    attempts: int
    """Attempts at all steps, with preconditions and criteria, without those that a circuit refused."""
    failures: int
    """The number of failed attempts."""
    code: str = ""
    """The code of the failure, if there is one."""
    severity: str = ""
    source: str = ""
    """The source of the failure, as for a step."""
    reason: str = ""
    """The reason why the task was left out."""
    expected: bool = False
    """It failed as its file declares."""
    retries: int = 0
    """This and the following counts are those of `Figures`."""
    successful_retries: int = 0
    fallbacks: int = 0
    recovered: int = 0
    recovery_seconds: float = 0.0
    agent: str = ""
    """The agent that chose its last step; empty if its file did."""
    takeovers: int = 0
    """How often another agent went on in place of one that failed."""
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name of a model -> what the task's calls of it have used (`ModelFigures`)."""
    tools: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Name of a tool server -> name of a tool -> what the task's calls of it have done (`ToolFigures`)."""

    @classmethod
    def of(cls, result: TaskResult, agent: str | None = None) -> TaskDone:
        """`agent`: the one that began; None: the steps of the file."""
        counted = figures(result)
        return cls(
            final_state="skipped" if result.skipped else result.final_state,
            seconds=round(result.elapsed, 3),
            steps=result.steps_completed,
            attempts=counted.attempts,
            failures=counted.failed_attempts,
            retries=counted.retries,
            successful_retries=counted.successful_retries,
            fallbacks=counted.fallbacks,
            recovered=counted.recovered,
            recovery_seconds=round(counted.recovery_seconds, 3),
            reason=result.skipped,
            **(result.failure.origin if result.failure else {}),
            expected=bool(result.error and result.error.expected),
            agent=result.ended_by(agent),
            takeovers=len(result.takeovers),
            models={name: used.model_dump() for name, used in by_model(model_calls(result)).items()},
            tools={
                server: {tool: used.model_dump() for tool, used in tools.items()}
                for server, tools in by_tool(tool_calls(result)).items()
            },
        )

    def line(self) -> str:
        course = f"{self.seconds:.1f} s, {self.attempts} attempts, {self.failures} failed"
        why = one_line(self.code or self.reason)
        return f"task {self.final_state}{f': {why}' if why else ''} ({course})"
