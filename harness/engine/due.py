"""Whether a step is due: its `when`, and that of its step group, are asked when it is reached."""

from __future__ import annotations

from collections.abc import Sequence

from harness.criteria import evaluate, parse
from harness.engine.attempt import StepState, resolved_criterion, task_timeout
from harness.engine.judge import ASSERTION
from harness.engine.run import PageSources, Run
from harness.model.events import StepEnded, StepStarted
from harness.model.record import LEFT_OUT, Attempt, StepRecord
from harness.recovery.failure import Assertion, Failed, Failure, Outcome, Passed
from harness.resilience import Deadline
from harness.spec.references import MissingMemory
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
    for span, criterion in (*step.group_when.items(), *([("1", step.when)] if step.when is not None else [])):
        outcome = await _judged(run, progress, criterion)
        if isinstance(outcome, str):
            return Passed({LEFT_OUT: outcome, _SPAN: int(span)})
        if outcome is not None:
            return outcome
    progress.due = True
    return None


_SPAN = "left_out_steps"
"""The detail of an outcome that has the number of steps that are left out, the step itself included."""


async def _judged(run: Run, progress: StepState, criterion: str) -> Failure | str | None:
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
    message = f"`when` of step {index} cannot be judged: {text}: {why.message}"
    assertion = Assertion(why.expression, why.expected, why.actual, why.diff, why.message if why.plain else "")
    return Failure(ASSERTION, message, details={"criterion": text}, assertion=assertion, advice=_ADVICE)


def rest_of_group(run: Run, record: StepRecord, following: Sequence[Step]) -> list[StepRecord]:
    """The records of the steps that are left out with this one: the others of its step group.

    `following`: the steps after it.
    """
    details = record.attempts[-1].outcome.details if record.attempts else {}
    return [
        _left_out_with(run, record, number, step)
        for number, step in enumerate(following[: int(details.get(_SPAN, 1)) - 1], 1)
    ]


def _left_out_with(run: Run, record: StepRecord, number: int, step: Step) -> StepRecord:
    index = record.index + number if record.index >= 0 else record.index
    run.ports.emit(StepStarted(run.plan, index, step, run.ports.clock.wall()))
    attempt = Attempt(step, run.t, 0.0, run.ports.clock.wall(), Passed({LEFT_OUT: record.left_out}))
    left = StepRecord(index, step, (attempt,), agent=record.agent)
    run.ports.emit(StepEnded(run.plan, left))
    return left
