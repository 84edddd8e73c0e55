"""The whole of step execution: try, and while it fails, apply the next remedy (DESIGN 3, 4.2, 4.4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import assert_never

from harness.engine.attempt import attempt, judge
from harness.engine.run import Ending, Run
from harness.events import AttemptEnded, RemedyChosen, StepEnded, StepStarted
from harness.failure import Effect, Failed, Failure, Family, Outcome, Passed
from harness.record import Attempt, StepRecord
from harness.recovery import GiveUp, Remedy, Retry, Substitute
from harness.resilience import Deadline
from harness.spec.interpolate import MissingMemory, resolve
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
    if ending is not None and step.optional and _skippable(ending.failure):
        record, ending = StepRecord(index, step, record.attempts, skipped=True), await _go_on(run, index, ending)
    run.ports.emit(StepEnded(run.plan, record))
    return record, ending


SKIPPABLE = frozenset(Family) - {Family.NONE, Family.BROWSER}
"""What an `optional` step may fail with: not policy, authentication, an unknown outcome, or a browser that is gone."""


def _skippable(failure: Failure) -> bool:
    return failure.family in SKIPPABLE and failure.type != "timeout_task"


async def _go_on(run: Run, index: int, ending: Ending) -> Ending | None:
    """After a skipped step the next one needs a page that answers."""
    lost = await run.stage.session.renew(run.left) if ending.failure.tainted else None
    return Ending(lost, index, GiveUp()) if lost else None


async def _until_settled(run: Run, progress: _Progress) -> tuple[StepRecord, Ending | None]:
    remedy: Remedy | None = None
    while True:
        outcome = await _try(run, progress, remedy)
        if isinstance(outcome, Passed):
            return progress.record(), None
        await run.stage.session.record()
        took_effect = await _took_effect(run, progress, outcome)
        if took_effect:
            return progress.record(done=True), None
        failure, remedy = await _answer(run, progress, outcome, known=took_effect is not None)
        if isinstance(remedy, GiveUp):
            return progress.record(), Ending(failure, progress.index, remedy)


async def _try(run: Run, progress: _Progress, remedy: Remedy | None) -> Outcome:
    started, t = run.ports.clock.wall(), run.t
    outcome = await attempt(run, progress.index, progress.current, remedy)
    done = Attempt(_as_done(run, progress.current), t, run.t - t, started, outcome, remedy)
    progress.attempts.append(done)
    run.ports.emit(AttemptEnded(run.plan, progress.index, done))
    return outcome


def _as_done(run: Run, step: Step) -> Step:
    """The step with memory filled in, for reports; as declared when it needs what is not there."""
    try:
        return resolve(step, run.stage.world.memory())
    except (MissingMemory, Failed):
        return step


async def _answer(run: Run, progress: _Progress, failure: Failure, *, known: bool) -> tuple[Failure, Remedy]:
    """The next remedy, made ready: waited for, its page fresh, its step in `progress.current`."""
    if failure.family not in progress.cures:
        progress.cures[failure.family] = run.plan.rulebook.remedies(failure, run.ports.random)
    remedy = next(progress.cures[failure.family], GiveUp())
    if not isinstance(remedy, GiveUp):
        failure, remedy = _allowed(run, progress, failure, remedy, known=known)
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


def _allowed(
    run: Run, progress: _Progress, failure: Failure, remedy: Retry | Substitute, *, known: bool
) -> tuple[Failure, Remedy]:
    """A remedy that must not be applied becomes the end: no use, no time, or it could do a `write` twice."""
    if not known:
        message = f"Whether step {progress.index} took effect is not known, so it was not repeated: {failure.message}"
        details = {**failure.details, "last_code": failure.code}
        return Failure("OUTCOME_UNKNOWN", message, failure.selector, details, cause=failure.cause), GiveUp()
    if isinstance(remedy, Substitute):
        return failure, remedy
    remedy = Retry(max(remedy.after, failure.retry_after or 0.0))
    if not failure.retryable:  # the rule's remedies were made for an earlier failure, of another code
        return failure, GiveUp()
    if _posted(failure) and (run.stage.session.url or "").startswith("chrome-error:"):
        return _more(failure, "`done_when` says that it had no effect; its form is gone, so it was not sent again")
    if not run.deadline.allows(remedy.after, run.ports.clock.now()):
        return _more(failure, f"no time left for a retry in {remedy.after:g}s, the task has {run.left:.0f}s")
    return failure, remedy


def _more(failure: Failure, why: str) -> tuple[Failure, GiveUp]:
    """The failure, and why nothing more was tried."""
    return replace(failure, message=f"{failure.message}; {why}"), GiveUp()


def _posted(failure: Failure) -> bool:
    """Whether the act has sent a request that must not be sent twice."""
    return failure.effect is Effect.DONE and failure.details.get("method", "GET") not in ("GET", "HEAD")


async def _took_effect(run: Run, progress: _Progress, failure: Failure) -> bool | None:
    """Whether a step that failed had already done its work (DESIGN 4.2); None when that cannot be known.

    What is not a `write`, and sent nothing, may be repeated: that counts as no effect.
    """
    step = progress.declared
    if failure.effect is Effect.NONE:
        return False
    unknown = None if step.effect_class == "write" or _posted(failure) else False
    if step.done_when is None:
        return unknown
    limit = step.timeout or run.plan.step_timeout
    until = Deadline.after(min(limit, run.left), run.ports.clock.now())
    try:
        return isinstance(await judge(run, step.done_when, until, "ASSERTION_FAILED"), Passed)
    except Failed:
        return unknown


def _again(progress: _Progress, failure: Failure) -> Step:
    """What a retry does. A click that was performed is not repeated: the GET it started is (DESIGN 4.2)."""
    step, url = progress.declared, failure.details.get("url")
    if failure.family is not Family.NETWORK or failure.effect is not Effect.DONE or _posted(failure):
        return progress.current
    if not isinstance(url, str):
        return progress.current
    return Open(url=url, timeout=step.timeout, remember=step.remember, screenshot_id=step.screenshot_id)
