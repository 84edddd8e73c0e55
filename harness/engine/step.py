"""The whole of step execution: try, and while it fails, apply the next remedy (DESIGN 3, 4.2, 4.4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import assert_never

from harness.engine.attempt import attempt, judge, task_timeout
from harness.engine.run import Ending, Run
from harness.events import AttemptEnded, RemedyChosen, StepEnded, StepStarted
from harness.failure import Effect, Failed, Failure, Family, Outcome, Passed
from harness.record import Attempt, StepRecord
from harness.recovery import GiveUp, Remedy, Retry, Substitute
from harness.spec.steps import Open, Step


@dataclass(slots=True)
class _Progress:
    """One step under way."""

    index: int
    declared: Step
    current: Step
    attempts: list[Attempt] = field(default_factory=list)
    cures: dict[Family, Iterator[Remedy]] = field(default_factory=dict)

    def record(self, *, skipped: bool = False, done: bool = False) -> StepRecord:
        return StepRecord(self.index, self.declared, tuple(self.attempts), skipped, done)


async def do_step(run: Run, index: int, step: Step) -> tuple[StepRecord, Ending | None]:
    """Returns the record, and the ending when the task is to end here."""
    run.ports.emit(StepStarted(run.plan, index, step, run.ports.clock.wall()))
    record, ending = await _until_settled(run, _Progress(index, step, step))
    if ending is not None and step.optional and ending.failure.type != "timeout_task":
        record, ending = StepRecord(index, step, record.attempts, skipped=True), None
    run.ports.emit(StepEnded(run.plan, record))
    return record, ending


async def _until_settled(run: Run, progress: _Progress) -> tuple[StepRecord, Ending | None]:
    remedy: Remedy | None = None
    while True:
        outcome = await _try(run, progress, remedy)
        if isinstance(outcome, Passed):
            return progress.record(), None
        await run.stage.session.record()
        if await _took_effect(run, progress, outcome):
            return progress.record(done=True), None
        failure, remedy = await _answer(run, progress, outcome)
        if isinstance(remedy, GiveUp):
            return progress.record(), Ending(failure, progress.index, remedy)


async def _try(run: Run, progress: _Progress, remedy: Remedy | None) -> Outcome:
    started, t = run.ports.clock.wall(), run.t
    outcome = await attempt(run, progress.index, progress.current, remedy)
    done = Attempt(progress.current, t, run.t - t, started, outcome, remedy)
    progress.attempts.append(done)
    run.ports.emit(AttemptEnded(run.plan, progress.index, done))
    return outcome


async def _answer(run: Run, progress: _Progress, failure: Failure) -> tuple[Failure, Remedy]:
    """The next remedy, made ready: waited for, its page fresh, its step in `progress.current`."""
    if failure.family not in progress.cures:
        progress.cures[failure.family] = run.plan.rulebook.remedies(failure, run.ports.random)
    remedy = next(progress.cures[failure.family], GiveUp())
    if not isinstance(remedy, GiveUp):
        failure, remedy = _allowed(run, progress, failure, remedy)
    run.ports.emit(RemedyChosen(run.plan, progress.index, failure, remedy, len(progress.attempts)))
    match remedy:
        case Retry(after=after):
            await run.ports.clock.sleep(after)
            progress.current = _again(progress, failure)
        case Substitute(selector=selector):
            progress.current = progress.declared.model_copy(update={"selector": selector})
        case GiveUp():
            return failure, remedy
        case _:
            assert_never(remedy)
    if failure.tainted and (lost := await run.stage.session.renew(run.left)):
        return lost, GiveUp()
    return failure, remedy


def _allowed(run: Run, progress: _Progress, failure: Failure, remedy: Retry | Substitute) -> tuple[Failure, Remedy]:
    """A remedy that must not be applied becomes the end: too late for it, or it could do a `write` twice."""
    if _unknown(progress.declared, failure):
        message = (
            f"It is not known whether step {progress.index} took effect, so it was not repeated: {failure.message}"
        )
        details = {**failure.details, "last_code": failure.code}
        return Failure("OUTCOME_UNKNOWN", message, failure.selector, details, cause=failure.cause), GiveUp()
    if isinstance(remedy, Retry):
        remedy = Retry(max(remedy.after, failure.retry_after or 0.0))
        if not run.deadline.allows(remedy.after, run.ports.clock.now()):
            late = task_timeout(run, failure, f"a retry in {remedy.after:g}s")
            return late, next(run.plan.rulebook.remedies(late, run.ports.random), GiveUp())
    return failure, remedy


def _unknown(step: Step, failure: Failure) -> bool:
    """Whether a `write` may have happened, or a click has sent a request that must not be sent twice (DESIGN 4.2)."""
    if failure.effect is Effect.NONE or step.done_when is not None:
        return False
    posted = failure.effect is Effect.DONE and failure.details.get("method", "GET") not in ("GET", "HEAD")
    return step.effect_class == "write" or posted


async def _took_effect(run: Run, progress: _Progress, failure: Failure) -> bool:
    """Ask `done_when` whether a step that failed had already done its work (DESIGN 4.2)."""
    question = progress.declared.done_when
    if question is None or failure.effect is Effect.NONE:
        return False
    try:
        return isinstance(await judge(run, question, run.deadline, "ASSERTION_FAILED"), Passed)
    except Failed:
        return False


def _again(progress: _Progress, failure: Failure) -> Step:
    """What a retry does. A click that was performed is not repeated: the GET it started is (DESIGN 4.2)."""
    url = failure.details.get("url")
    if failure.family is Family.NETWORK and failure.effect is Effect.DONE and isinstance(url, str):
        return Open(url=url, timeout=progress.declared.timeout, remember=progress.declared.remember)
    return progress.current
