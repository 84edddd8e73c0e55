"""What the figures of a run mean: the one place where retries, fallbacks and recoveries are counted.

Terminal, JUnit, Allure, dashboard, history, metrics.json, error_report.json and events.jsonl all show what is counted
here, from the records of a task. docs/figures.md has the same table in words (`FIGURES` is its source).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from harness.model.record import Answer, Attempt, StepRecord, TaskResult
from harness.recovery.catalog import Family
from harness.recovery.failure import Failure
from harness.spec.steps import Step

Verdict = Literal["passed", "passed as declared", "failed", "not judged"]
UNJUDGED = frozenset({"INTERRUPTED", "WORKER_CRASHED"})
"""Codes of tasks that were cut off from outside: they say nothing about their task."""

FIGURES: Mapping[str, str] = {
    "passed": "The task reached its end: `completed` or `partial_success`. Under `--taskspec-strict` a partial success"
    " has failed.",
    "passed as declared": "The task failed exactly as its `expect` declares. It is one of those that passed.",
    "failed": "The task ended otherwise, or it has an `expect` and did not show it.",
    "not judged": "The task was cut off from outside: Ctrl-C, or its process died. It is neither passed nor failed.",
    "successful": "Tasks that passed, those that passed as declared included.",
    "attempts": "Tries at steps, preconditions and success criteria. What a circuit held back was not tried.",
    "retries": "Times that a failed step was done again: after a wait, after a repair of its precondition, from a"
    " checkpoint, in a new page or a new browser; and proposals of an agent that were refused and asked for again."
    " Waiting for a circuit is none.",
    "successful retries": "Retries after which the step passed: of the retries of one step at most the last.",
    "failed retries": "All other retries.",
    "fallbacks": "Times that something else was tried: another selector, the other side of an inconsistent state, the"
    " alternative task. A fallback is not a retry.",
    "recovered": "Steps that failed and passed in the end, by a retry, a fallback, or because their effect was found"
    " to be there. A repair that did not help, and a step that was skipped, is none.",
    "recovery_success_rate": "Of each rule of `error_recovery`: the share of steps at which it did something and its"
    " kind of failure was overcome.",
    "error_rate": "Of the thresholds: the share of attempts that failed, of those of five minutes, at its worst; 0"
    " while there are fewer than 20. Tasks do not count here.",
    "failure_rate": "Of `harness history`: the share of tasks that failed, of those that passed or failed.",
}
"""Name of a figure -> what it counts."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one task, or of several tasks added up."""

    attempts: int = 0
    failed_attempts: int = 0
    retries: int = 0
    successful_retries: int = 0
    fallbacks: int = 0
    recovered: int = 0
    recovery_seconds: float = 0.0
    """From the first failure of a step to its success, of all steps that recovered together."""
    by_rule: tuple[tuple[Family, bool], ...] = ()
    """For each step and each rule that did something there: whether its kind of failure was overcome."""

    def __add__(self, other: Figures) -> Figures:
        return Figures(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @property
    def failed_retries(self) -> int:
        return self.retries - self.successful_retries


@dataclass(slots=True)
class _Failing:
    """A step that failed and has not passed since; going back to a checkpoint does not end it."""

    since: float
    """When its first failed attempt ended, in seconds of the task."""
    answers: list[Answer] = field(default_factory=list)
    last: Family = Family.NONE
    """Of its last failure."""


def figures(result: TaskResult) -> Figures:
    """What the records of a task add up to; an alternative task in its place is one fallback."""
    total = Figures(fallbacks=result.alternative is not None)
    troubles: dict[Hashable, _Failing] = {}
    for record in result.history:
        total += _attempted(record)
        key = step_key(record.index, record.step)
        trouble = _trouble(record, troubles.pop(key, None))
        if trouble is None:
            continue
        if record.passed:
            total += _settled(trouble, end=_end(record))
        elif record.skipped:
            total += _settled(trouble)
        else:
            troubles[key] = trouble
    return sum((_settled(trouble) for trouble in troubles.values()), total)


def step_key(index: int, step: Step) -> Hashable:
    """What stays the same when a step is done again. Checks share their index with what they check."""
    return (index, step.describe() if step.act == "assert" else "")


def attempts_made(record: StepRecord) -> list[Attempt]:
    """The attempts of a record, without those that a circuit held back."""
    return [each for each in record.attempts if not _held_back(each)]


def is_retry(answer: Answer) -> bool:
    """Whether an answer to a failure does the same again; what is neither that nor a wait is a fallback."""
    return answer.remedy.again and not answer.waited


def verdict(
    final_state: str, code: str | None, *, expected: bool = False, unexpected: bool = False, refused: bool = False
) -> Verdict:
    """What a task counts as. `code`: of its failure; `refused`: a partial success, under `--taskspec-strict`."""
    if code in UNJUDGED:
        return "not judged"
    if unexpected or refused:
        return "failed"
    if final_state in ("completed", "partial_success"):
        return "passed"
    return "passed as declared" if expected else "failed"


def success_rates(pairs: Iterable[tuple[Family, bool]]) -> Iterator[tuple[Family, int, int]]:
    """Rule, how often it did something, how often its kind of failure was overcome; by the rule's name."""
    found: dict[Family, list[bool]] = {}
    for family, worked in pairs:
        found.setdefault(family, []).append(worked)
    for family in sorted(found):
        yield family, len(found[family]), sum(found[family])


def _held_back(attempt: Attempt) -> bool:
    return isinstance(attempt.outcome, Failure) and attempt.outcome.code == "CIRCUIT_OPEN"


def _attempted(record: StepRecord) -> Figures:
    made = attempts_made(record)
    return Figures(attempts=len(made), failed_attempts=sum(not each.passed for each in made))


def _trouble(record: StepRecord, before: _Failing | None) -> _Failing | None:
    """What the step went through up to the end of this record; None when it never failed."""
    failed = [each for each in record.attempts if isinstance(each.outcome, Failure)]
    if before is None and not failed:
        return None
    trouble = before or _Failing(failed[0].t + failed[0].seconds)
    trouble.answers += record.answers
    if failed and isinstance(failed[-1].outcome, Failure):
        trouble.last = failed[-1].outcome.family
    return trouble


def _end(record: StepRecord) -> float:
    last = record.attempts[-1] if record.attempts else None
    return last.t + last.seconds if last else 0.0


def _settled(trouble: _Failing, end: float | None = None) -> Figures:
    """`end`: when the step passed; None: it never did."""
    passed, said = end is not None, [each for each in trouble.answers if not each.waited]
    families = dict.fromkeys(each.family for each in trouble.answers if each.family is not Family.NONE)
    return Figures(
        retries=sum(map(is_retry, said)),
        successful_retries=passed and bool(said) and is_retry(said[-1]),
        fallbacks=sum(not is_retry(each) for each in said),
        recovered=passed,
        recovery_seconds=max(0.0, end - trouble.since) if end is not None else 0.0,
        by_rule=tuple((family, passed or trouble.last is not family) for family in families),
    )
