"""Decides whether a remedy that a rule proposes may be applied, given what has happened in the task."""

from __future__ import annotations

from typing import assert_never

from harness.engine.attempt import StepState
from harness.engine.effects import doubt, has_posted, observed_write, taken_back, unanswered
from harness.engine.judge import ASSERTION
from harness.engine.run import Checkpoint, Run, counts
from harness.model.record import StepRecord
from harness.recovery import GiveUp, Remedy, RepairPrecondition, Retry, Rewind, Skip, Substitute, Trust
from harness.recovery.catalog import FAMILIES, Effect, Family
from harness.recovery.failure import Failure, budget_exceeded
from harness.recovery.never_twice import EffectAnswer, Known, RepeatVerdict, RepeatWay, again
from harness.recovery.rulebook import PERMANENT, WITHIN
from harness.spec.steps import Tool
from harness.values import replace

_Ruling = tuple[Failure, Remedy]
NO_WAY_BACK = GiveUp()
"""Takes the place of a Rewind that is not possible: the rule is asked for its next remedy."""
_UNSURE = "whether it took effect is not known"
"""The note about a `write` that ends the task or is left out, and was not to be repeated anyway."""
_LATE = "Look at the site's log for {}: it was not answered. A longer `timeout` of the step waits longer for that."
_ANSWERS = ("HTTP_CLIENT_ERROR", "HTTP_NOT_FOUND", "HTTP_UNEXPECTED_STATUS")
"""Network failures that are answers: the site has refused."""


def is_unsure(failure: Failure) -> bool:
    """Return whether a task ends without knowledge of what its write did: then no other task may run in its place."""
    return failure.code == "OUTCOME_UNKNOWN" or _UNSURE in failure.message


def permitted(
    run: Run, progress: StepState, failure: Failure, remedy: Remedy, *, known: bool, barred: str | None = None
) -> _Ruling:
    """Return the remedy, or the end in its place if it has no use, no time or no budget, or could repeat a `write`.

    `barred` is the reason why one of the addresses that it requests (`asked_again`) must not be requested.
    """
    match remedy:
        case Retry():
            # A page that hung until a criterion's limit is not opened anew: that is not the one that the task left.
            hung = failure.code == "PAGE_UNRESPONSIVE" and progress.request.code != ASSERTION
            rewind_instead = None if barred else _rewind_instead(run, progress, failure, known)
            instead = _over_retry_budget(run, progress, failure) or ((failure, GiveUp()) if hung else rewind_instead)
            return instead or _unknown(progress, failure, known) or _retry(run, progress, failure, remedy)
        case RepairPrecondition():
            return _over_retry_budget(run, progress, failure) or (failure, remedy)
        case Substitute():
            return _over_retry_budget(run, progress, failure) or _unknown(progress, failure, known) or (failure, remedy)
        case Rewind():
            return _over_retry_budget(run, progress, failure) or _rewind(run, progress, failure, remedy, known, barred)
        case GiveUp():
            return failure if known else _note_doubt(failure), remedy
        case (
            Trust() | Skip()
        ):  # a criterion, a precondition or a binding is not skipped: what was not judged is not met
            unjudged = isinstance(remedy, Skip) and remedy.what == "step" and progress.request.code != ASSERTION
            return failure, GiveUp() if unjudged else remedy
        case _:
            assert_never(remedy)


def _note_doubt(failure: Failure) -> Failure:
    """The failure of a task that ends while its write may have taken effect, with a note if that is open."""
    if not FAMILIES[failure.family].leaves_open or failure.code in _ANSWERS or failure.act_done:
        return failure
    return replace(failure, message=f"{failure.message}; {_UNSURE}")


def asked_again(run: Run, progress: StepState, failure: Failure, remedy: Remedy, *, known: bool) -> tuple[str, ...]:
    """The addresses that going back would request."""
    match remedy:
        case Rewind():
            checkpoint = nearest(run, progress.index, remedy)
        case Retry():
            checkpoint = nearest(run, progress.index, Rewind()) if _may_undo(run, progress, failure, known) else None
        case Substitute() | RepairPrecondition() | Trust() | Skip() | GiveUp():
            checkpoint = None
        case _:
            assert_never(remedy)
    return checkpoint.page.addresses if checkpoint and checkpoint.page else ()


def nearest(run: Run, index: int, remedy: Rewind) -> Checkpoint | None:
    """The last checkpoint at or before the step; else the start of the task, if the remedy goes back so far.

    While no step has been done, the task is still at its start.
    """
    taken = [checkpoint for number, checkpoint in run.journal.checkpoints.items() if number <= index]
    begins = remedy.to_start or (remedy.restart and not run.journal.history)
    return max(taken, key=lambda each: each.index, default=run.journal.start if begins else None)


def with_stretched_limits(run: Run, remedy: Rewind) -> Run:
    """The run with the limits that hold after going back."""
    return replace(run, stretch=max(run.stretch, remedy.stretch))


def _over_retry_budget(run: Run, progress: StepState, failure: Failure) -> _Ruling | None:
    """End the task if `budget: max_retries` is used up."""
    allowed = run.plan.spec.budget.max_retries
    spent = run.journal.spent + progress.record().spent
    if allowed is None or spent < allowed or failure.circumstances.waits:
        return None
    retries = "1 retry" if allowed == 1 else f"{allowed} retries"
    over = budget_exceeded("max_retries", f"{retries}, fallbacks included, and another one is needed")
    ended = _in_place_of(failure, over.code, f"{over.message} ({failure.message})")
    return replace(ended, advice=over.advice), GiveUp("aborted")


def _rewind_instead(run: Run, progress: StepState, failure: Failure, known: bool) -> _Ruling | None:
    """Go back in place of a retry that could repeat a write or has lost its form: once, if all can be restored."""
    if not _may_undo(run, progress, failure, known) or isinstance(progress.declared, Tool):
        return None
    checkpoint = nearest(run, progress.index, Rewind())
    if checkpoint is None or not checkpoint.world.whole:
        return None
    before = any(record.rewound and record.index == progress.index for record in run.journal.trace)
    return None if before or run.left <= 0 else (failure, Rewind())


def _may_undo(run: Run, progress: StepState, failure: Failure, known: bool) -> bool:
    lost = not known or _form_gone(run, progress, failure)
    return lost and failure.family is Family.NETWORK and failure.retryable


def _unknown(progress: StepState, failure: Failure, known: bool) -> _Ruling | None:
    if known:
        return None
    late = unanswered(progress.declared, progress.sent, failure)
    why, doubts = failure.message, doubt(progress.declared, progress.sent, late)
    why = f"{doubts} ({why})" if late and progress.declared.done_when else f"{why}; {doubts}"
    message = f"Whether step {progress.index} took effect is not known, so it was not repeated: {why}"
    ended, end = _outcome_unknown(failure, message)
    if late and progress.declared.done_when:
        ended = replace(ended, details={**ended.details, "unanswered": late}, advice=_LATE.format(late[0]))
    return ended, end


def _outcome_unknown(failure: Failure, message: str) -> _Ruling:
    return _in_place_of(failure, "OUTCOME_UNKNOWN", message), GiveUp()


def _in_place_of(failure: Failure, code: str, message: str) -> Failure:
    """Another failure, with the evidence of the one that led to it."""
    details, how = {**failure.details, "last_code": failure.code}, failure.circumstances
    return Failure(code, message, failure.selector, details, cause=failure.cause, circumstances=how)


def _retry(run: Run, progress: StepState, failure: Failure, remedy: Retry) -> _Ruling:
    if failure.family is Family.BROWSER:
        return _permanent(run, progress, failure) or (failure, remedy)
    remedy = Retry(max(remedy.after, failure.retry_after or 0.0))
    if not failure.retryable:  # the rule made its remedies for an earlier failure of another code
        return failure, GiveUp()
    if why := _of_no_use(run, progress, failure):
        return _give_up(failure, why)
    if not run.deadline.allows(remedy.after, run.ports.clock.now()):
        return _give_up(failure, f"no time left for a retry in {remedy.after:g}s, the task has {run.left:.0f}s")
    return failure, remedy


def _of_no_use(run: Run, progress: StepState, failure: Failure) -> str | None:
    """The reason why the step cannot be repeated on the present page; None if it can."""
    if failure.family is Family.ACTION and failure.effect is Effect.DONE:
        return "the act was done, and is not done again"
    if failure.circumstances.opened_before:
        last = run.journal.history[-1] if run.journal.history else None
        if last is not None and last.wrote:
            return f"step {last.index}, a write, opened its page, which is not requested again"
        return None if failure.tainted else "its page is the response to a request that must not be sent again"
    if _form_gone(run, progress, failure):
        return "the step could be repeated, but its form is no longer on the page"
    return None


def _form_gone(run: Run, progress: StepState, failure: Failure) -> bool:
    """Return whether a form was posted and is gone: the browser shows its own error page in its place.

    One that may be sent twice is sent again from there (`Reload`).
    """
    gone = has_posted(failure) and (run.seat.url or "").startswith("chrome-error:")
    return gone and not progress.declared.repeatable


def _rewind(
    run: Run, progress: StepState, failure: Failure, remedy: Rewind, known: bool, barred: str | None
) -> _Ruling:
    """Allow one rewind after a timeout; after a lost page or browser up to the third loss within five minutes."""
    if failure.family is Family.BROWSER:
        if lost := _permanent(run, progress, failure):
            return lost
    elif run.stretch > 1:
        return _give_up(failure, "the limits were already extended once")
    checkpoint = nearest(run, progress.index, remedy)
    if checkpoint is None:
        failure, _ = _give_up(failure, f"there is no checkpoint at or before step {progress.index}")
        return failure, NO_WAY_BACK
    if with_stretched_limits(run, remedy).left <= 0:
        return _give_up(failure, "no time left to go back")
    if barred:
        message = (
            f"{failure.message}; the task did not go back to the checkpoint before step {checkpoint.index}: {barred}"
        )
        return _outcome_unknown(failure, message)
    return _over_writes(run, progress, failure, checkpoint, known) or (failure, remedy)


def _permanent(run: Run, progress: StepState, failure: Failure) -> _Ruling | None:
    """End the task at the third loss within five minutes."""
    here = sum(isinstance(each.outcome, Failure) and counts(each.outcome) for each in progress.attempts)
    if counts(failure) and (permanent := for_good(run, here)):
        return replace(failure, message=f"{failure.message}{permanent}"), GiveUp()
    return None


def for_good(run: Run, here: int = 0) -> str:
    """The note that page or browser were lost too often, or "". `here` of the losses are of the step under way."""
    if run.journal.crashes(run.t - WITHIN) + here < PERMANENT:
        return ""
    return f"; page or browser was lost {PERMANENT} times within {WITHIN / 60:g} minutes: permanent for this task"


def _over_writes(
    run: Run, progress: StepState, failure: Failure, checkpoint: Checkpoint, known: bool
) -> _Ruling | None:
    """Refuse to go back over a write whose effect is unknown, unless the environment is restored.

    What a tool did is not restored with it: its server may keep it elsewhere.
    """
    whole = checkpoint.world.whole
    if (not whole or isinstance(progress.declared, Tool)) and (unknown := _unknown(progress, failure, known)):
        return unknown
    if blind := _unverifiable_write(run, progress, checkpoint):
        refused = checkpoint.world.refused or "the environment cannot be restored"
        environment = "no checkpoint holds what a tool did" if whole else refused
        why = f"step {blind.index} is a write without `done_when`, and {environment}{observed_write(blind)}"
        return _give_up(failure, f"the task did not go back to the checkpoint before step {checkpoint.index}: {why}")
    return None


def _unverifiable_write(run: Run, progress: StepState, checkpoint: Checkpoint) -> StepRecord | None:
    """A step that wrote, would be done again, and cannot be asked then whether its effect is still there; None: none.

    Those since the checkpoint and those of repairs that may be repeated count if they may have written. The step under
    way counts only if it passed, and something after it failed: what an attempt that failed has done is judged before.
    """
    since = [record for record in run.journal.history if record.index >= checkpoint.index]
    under_way = progress.record()
    written = [record for record in (*since, *run.journal.set_up) if record.may_have_written]
    written += [under_way] if under_way.wrote and under_way.passed else []
    return next((record for record in written if _forbids(record, checkpoint)), None)


def _forbids(record: StepRecord, checkpoint: Checkpoint) -> bool:
    """Return whether going back over a write is forbidden. Its `done_when` is asked only when it is reached again."""
    answer = EffectAnswer.NONE if record.step.done_when is None else EffectAnswer.UNREADABLE
    undone = taken_back(record, restored=checkpoint.world.whole)
    return again(RepeatWay.REWIND, Known(True, answer, undone)) is not RepeatVerdict.AGAIN


def _give_up(failure: Failure, why: str) -> tuple[Failure, GiveUp]:
    """The failure with the reason why nothing more was tried, and the end."""
    return replace(failure, message=f"{failure.message}; {why}"), GiveUp()
