"""Whether a step is due: its `when`, and that of its step group, are asked when it is reached."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from harness.criteria import evaluate, evaluate_value, parse, parse_value
from harness.engine.attempt import StepState, resolved_criterion, task_timeout
from harness.engine.judge import ASSERTION
from harness.engine.run import SHORTEST_READ, PageSources, Run
from harness.model.events import StepEnded, StepStarted
from harness.model.record import LEFT_OUT, Attempt, StepRecord
from harness.recovery.failure import Assertion, Failed, Failure, Outcome, Passed
from harness.resilience import Deadline
from harness.spec.names import how_many
from harness.spec.references import MissingMemory
from harness.spec.rounds import Guard
from harness.spec.steps import Step
from harness.values import replace

_ADVICE = (
    "What is not there has no value to compare: ask first whether it is there, as in "
    "`exists('#status') && text('#status') == 'open'`."
)


async def left_out(run: Run, progress: StepState) -> Outcome | None:
    """The outcome of a step that is not due, or the failure of its criterion; None if it is to be done.

    A criterion that could not be judged is not false: the step fails. What held once is not asked again, so that the
    retry of a step whose act has taken effect does not pass it over.
    """
    step = progress.declared
    if progress.due:
        return None
    for name, expression in (*step.guards.items(), *([("1", step.when)] if step.when is not None else [])):
        guard = Guard.read(name)
        outcome = await (_has_round if guard.key else _judged)(run, progress, expression, guard)
        if isinstance(outcome, str):
            return Passed({LEFT_OUT: outcome, _GUARD: guard})
        if outcome is not None:
            return outcome
    progress.due = True
    return None


_GUARD = "guard"
"""The detail of an outcome that has the guard by which the step is left out, with those after it."""


async def _has_round(run: Run, progress: StepState, expression: str, guard: Guard) -> Failure | str | None:
    """None if the list of `for_each` has an item for this round; it is read before the first, and kept in memory."""
    clock, index, world = run.ports.clock, progress.index, run.stage.world
    items = world.memory().get(guard.key)
    if guard.round == 0:
        until = Deadline.after(max(SHORTEST_READ, min(run.limit(progress.declared), run.left)), clock.now())
        try:
            wanted = parse_value(await resolved_criterion(run, expression, until))
            items = await evaluate_value(wanted, PageSources(run, until), clock, until)
        except Failed as failed:
            return replace(failed.failure, message=f"`for_each` of step {index}: {failed.failure.message}")
        if isinstance(items, list) and len(items) <= guard.rounds:
            world.remember(guard.key, items, f"{run.plan.task_id}#{index}")
    if not isinstance(items, list):
        text = f"`for_each` of step {index}: {expression} gives {items!r:.100}, and not a list"
        return Failure("INVALID_INPUT", text)
    if len(items) > guard.rounds:
        text = f"`for_each` of step {index}: {expression} has {len(items)} items, and there are at most {guard.rounds}"
        return Failure("INVALID_INPUT", f"{text} rounds")
    return None if guard.round < len(items) else f"`for_each` has {how_many(len(items), 'item')}"


async def _judged(run: Run, progress: StepState, criterion: str, _: Guard) -> Failure | str | None:
    """None if the criterion holds, the reason if it does not, or why it is not known."""
    clock, index = run.ports.clock, progress.index
    within = min(run.limit(progress.declared), run.left)
    if within <= 0:
        return task_timeout(run)
    until = Deadline.after(within, clock.now())
    try:
        text = await resolved_criterion(run, criterion, until)
        verdict = await evaluate(parse(text), PageSources(run, until), clock, until)
    except Failed as failed:
        failure = replace(failed.failure, message=f"`when` of step {index}: {failed.failure.message}")
        return task_timeout(run, failure) if failure.type == "timeout_step" and run.left <= 0 else failure
    except MissingMemory as missing:
        return Failure(
            "MEMORY_MISSING", f"`when` of step {index} needs memory entry {missing.key!r}, which was never written"
        )
    why = verdict.explanation
    if verdict.holds or why is None:
        return None
    if verdict.decided:
        return f"{text} does not hold: {why.message}"
    message = f"Assertion failed: {text}: {why.message}; so `when` of step {index} cannot be judged"
    assertion = Assertion(why.expression, why.expected, why.actual, why.diff, why.message if why.plain else "")
    return Failure(ASSERTION, message, details={"criterion": text}, assertion=assertion, advice=_ADVICE)


class LeftOutSteps(Struct, frozen=True):
    """The steps that are left out with another one."""

    told: list[StepRecord]
    """The records of those that reports tell."""
    unused: list[StepRecord]
    """The records of rounds for which the list has no item: reports do not tell them."""


def rest_of_group(run: Run, record: StepRecord, following: Sequence[Step]) -> LeftOutSteps:
    """The steps that are left out with this one, of the steps after it: the others of its step group."""
    guard = record.attempts[-1].outcome.details.get(_GUARD) if record.attempts else None
    if not isinstance(guard, Guard):
        return LeftOutSteps([], [])
    rest = enumerate(following[: guard.steps - 1], 1)
    left = [_left_out_with(run, record, number, step) for number, step in rest]
    told = left[: guard.in_a_round - 1] if guard.key else left
    for each in told:
        run.ports.emit(StepStarted(run.plan, each.index, each.step, run.ports.clock.wall()))
        run.ports.emit(StepEnded(run.plan, each))
    return LeftOutSteps(told, left[len(told) :])


def _left_out_with(run: Run, record: StepRecord, number: int, step: Step) -> StepRecord:
    index = record.index + number if record.index >= 0 else record.index
    attempt = Attempt(step, run.t, 0.0, run.ports.clock.wall(), Passed({LEFT_OUT: record.left_out}))
    return StepRecord(index, step, (attempt,), agent=record.agent)
