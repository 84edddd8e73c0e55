"""Emits the engine's events about failures at once: retries, replacements, recoveries, and final failures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from harness.engine.attempt import LEFT_ALONE, StepState
from harness.engine.run import FailingStep, Run, TaskJournal, TaskStop
from harness.model.events import AttemptEnded, Resilience, ResilienceActed, StepEnded, TaskEnded
from harness.model.figures import step_key
from harness.model.plan import Plan
from harness.model.ports import Ports
from harness.model.record import Attempt, StepRecord, TakeOver, TaskResult
from harness.recovery import GiveUp, Remedy, RepairPrecondition, Retry, Rewind, Skip, Substitute, Trust
from harness.recovery.failure import Failure
from harness.resilience.events import AGENT, Degraded, FellBack, GaveUp, Recovered, Retrying, Waiting
from harness.spec.steps import Step

_LOOK_ACT = "observe"
"""The act of a failed observation of the page (`harness/engine/agent.py:Looking`)."""
_UNTRIED = (LEFT_ALONE, "AGENT_INVALID_STEP")
"""Failures of attempts in which nothing was done: they do not count as failed attempts."""


def attempt_ended(run: Run, index: int, step: Step, attempt: Attempt) -> None:
    """Emit the end of an attempt at a step, and the step's recovery, if it has recovered."""
    run.ports.emit(AttemptEnded(run.plan, index, attempt))
    failure = attempt.outcome
    if not isinstance(failure, Failure):
        _emit_recovery(run, index, step, attempt)
        return
    failing = _failing_step(run, index, step)
    failing.since = attempt.t + attempt.seconds if failing.since is None else failing.since
    failing.category = failure.event_category
    failing.attempts += failure.code not in _UNTRIED


def remedy_chosen(run: Run, progress: StepState, failure: Failure, remedy: Remedy) -> None:
    """Emit the answer to a failure, before it is carried out. A skipped step is reported at its end."""
    index = progress.index
    failing = _failing_step(run, index, progress.declared)
    if event := _answer_event(run, progress, failing, failure, remedy):
        _emit(run, index, event, remedy)
    if isinstance(remedy, GiveUp):
        run.journal.given_up.add(index)
    failing.category = failing.category or failure.event_category


def proposal_refused(run: Run, index: int, failure: Failure, number: int, most: int) -> None:
    """Emit the `number`th successive invalid proposal of an agent; after `most` it is not asked again."""
    name, error, kind = f"proposal of {run.agent}", failure.message, failure.event_category
    if number < most:
        _emit(run, index, Retrying(name, number, most - 1, 0.0, error, kind, **failure.origin))
    else:
        run.journal.given_up.add(index)
        _emit(run, index, GaveUp(name, error, exhausted=True, category=kind, **failure.origin))


def agent_relieved(run: Run, takeover: TakeOver) -> None:
    """Emit that another agent goes on with the task."""
    _emit(run, takeover.index, FellBack(AGENT, takeover.before, takeover.after, takeover.failure.message))


def step_ended(run: Run, record: StepRecord) -> None:
    """Emit the end of a step; a step whose effect was found to exist has no attempt that passed."""
    if record.passed and record.attempts:
        _emit_recovery(run, record.index, record.step, record.attempts[-1])
    if record.passed or record.skipped:
        run.journal.failing.pop(step_key(record.index, record.step), None)
    if record.skipped:
        why = record.failure.message if record.failure else ""
        _emit(run, record.index, Degraded(record.step.describe(), f"the task goes on without it: {why}"))
    run.ports.emit(StepEnded(run.plan, record))


def task_ended(plan: Plan, ports: Ports, journal: TaskJournal, ending: TaskStop | None, result: TaskResult) -> None:
    """Emit the end of a task, and before it the failures that no remedy has reported."""
    for index, event in _unreported_failures(journal, ending, result):
        ports.emit(ResilienceActed(plan, index, event))
    ports.emit(TaskEnded(plan, result, ports.clock.wall()))


def _unreported_failures(
    journal: TaskJournal, ending: TaskStop | None, result: TaskResult
) -> Iterator[tuple[int, Resilience]]:
    """The failures outside of steps, the replacement by another task, and a reduced final state."""
    failure, name, end = result.failure, f"task {result.task_id}", result.steps_total
    told = result.skipped or result.failed_index in journal.given_up
    if failure and failure.code != "INTERRUPTED" and not told:
        index = -1 if result.failed_index is None else result.failed_index
        yield index, GaveUp(name, failure.message, exhausted=False, category=failure.event_category, **failure.origin)
    if result.alternative is not None and ending is not None:
        replaced = failure or ending.failure
        yield end, FellBack(name, result.task_id, result.alternative.task_id, replaced.message)
    for warning in result.warnings:
        if warning.type == "criteria_relaxed":
            yield end, Degraded(name, warning.message)


def _emit(run: Run, index: int, event: Resilience, remedy: Remedy | None = None) -> None:
    run.ports.emit(ResilienceActed(run.plan, index, event, remedy))


def _failing_step(run: Run, index: int, step: Step) -> FailingStep:
    return run.journal.failing.setdefault(step_key(index, step), FailingStep())


def _emit_recovery(run: Run, index: int, step: Step, last: Attempt) -> None:
    """Emit the recovery of a step that had failed; `last` is the attempt that passed, or left its effect behind."""
    if failing := run.journal.failing.pop(step_key(index, step), None):
        end = last.t + last.seconds
        after = max(0.0, end - (end if failing.since is None else failing.since))
        tries = failing.attempts + last.passed
        _emit(run, index, Recovered(step.describe(), round(after, 3), tries, failing.category))


def _answer_event(
    run: Run, progress: StepState, failing: FailingStep, failure: Failure, remedy: Remedy
) -> Resilience | None:
    # An observation of the page is no step: it has the name of the step to follow.
    name = f"step {progress.index}" if str(progress.declared.act) == _LOOK_ACT else progress.declared.describe()
    error, kind = failure.message, failure.event_category
    match remedy:
        case Retry(after=seconds) if failure.code == LEFT_ALONE:
            circuit = failure.details.get("circuit", {}).get("name")
            return Waiting(name, seconds, f"circuit {circuit} is open" if circuit else failure.message)
        case Retry() | Rewind() | RepairPrecondition():
            key = failure.family, type(remedy)
            failing.chosen[key] += 1
            number, delay = failing.chosen[key], remedy.after if isinstance(remedy, Retry) else 0.0
            most = max(number, run.plan.rulebook.planned(failure, type(remedy)))
            return Retrying(name, number, most, delay, error, kind, **failure.origin)
        case Substitute(selector=selector):
            return FellBack(name, failure.selector or "", selector, error)
        case Trust(source=source):
            return FellBack(name, "memory" if source == "environment" else "environment", source, error)
        case GiveUp():
            return GaveUp(name, error, exhausted=failing.attempts > 1, category=kind, **failure.origin)
        case Skip():
            return None
        case _:
            assert_never(remedy)
