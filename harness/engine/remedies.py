"""Whether the remedy that a rule proposes may be applied here: decisions over what has happened."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from harness.engine.attempt import StepState
from harness.engine.effects import doubt, posted, seen
from harness.engine.run import Checkpoint, Run, counts
from harness.model.record import StepRecord
from harness.recovery import GiveUp, Remedy, RepairPrecondition, Retry, Rewind, Skip, Substitute, Trust
from harness.recovery.catalog import FAMILIES, Family
from harness.recovery.crash import PERMANENT, WITHIN
from harness.recovery.failure import Failure

Answer = tuple[Failure, Remedy]
NO_WAY_BACK = GiveUp()
"""In the place of a Rewind that cannot be made: the rule's next remedy is asked."""
UNSURE = "whether it took effect is not known"
"""Of a `write` that ends the task, or is left out, and was not to be repeated anyway."""
ANSWERS = ("HTTP_CLIENT_ERROR", "HTTP_NOT_FOUND", "HTTP_UNEXPECTED_STATUS")
"""Network failures that are an answer: the site has refused."""


def unsure(failure: Failure) -> bool:
    """Whether a task ends so that nobody knows what its write did: nothing may be done in its place."""
    return failure.code == "OUTCOME_UNKNOWN" or UNSURE in failure.message


def permitted(
    run: Run, progress: StepState, failure: Failure, remedy: Remedy, *, known: bool, barred: str | None = None
) -> Answer:
    """The remedy, or the end in its place: no use, no time, over the budget, or it could do a `write` twice.

    `barred` is why one of the addresses that it asks for (`asked_again`) must not be.
    """
    match remedy:
        case Retry():
            rewind_instead = None if barred else _rewind_instead(run, progress, failure, known)
            instead = _over_retry_budget(run, progress, failure) or rewind_instead
            return instead or _unknown(progress, failure, known) or _retry(run, progress, failure, remedy)
        case RepairPrecondition():
            return _over_retry_budget(run, progress, failure) or (failure, remedy)
        case Substitute():
            return _over_retry_budget(run, progress, failure) or _unknown(progress, failure, known) or (failure, remedy)
        case Rewind():
            return _over_retry_budget(run, progress, failure) or _rewind(run, progress, failure, remedy, known, barred)
        case GiveUp():
            return failure if known else _doubted(failure), remedy
        case Trust() | Skip():
            return failure, remedy
        case _:
            assert_never(remedy)


def _doubted(failure: Failure) -> Failure:
    """The end of a task whose write may have taken effect, as far as its failure leaves that open."""
    if not FAMILIES[failure.family].leaves_open or failure.code in ANSWERS:
        return failure
    return replace(failure, message=f"{failure.message}; {UNSURE}")


def asked_again(run: Run, progress: StepState, failure: Failure, remedy: Remedy, *, known: bool) -> tuple[str, ...]:
    """The addresses that going back would ask for."""
    match remedy:
        case Rewind():
            checkpoint = nearest(run, progress.index, remedy)
        case Retry():
            checkpoint = nearest(run, progress.index, Rewind()) if _may_undo(run, failure, known) else None
        case Substitute() | RepairPrecondition() | Trust() | Skip() | GiveUp():
            checkpoint = None
        case _:
            assert_never(remedy)
    return checkpoint.page.addresses if checkpoint and checkpoint.page else ()


def nearest(run: Run, index: int, remedy: Rewind) -> Checkpoint | None:
    """The last checkpoint taken at or before the step; else the start of the task, where the remedy reaches so far.

    While no step has been done the start is where the task is anyway.
    """
    taken = [checkpoint for number, checkpoint in run.journal.checkpoints.items() if number <= index]
    begins = remedy.to_start or (remedy.restart and not run.journal.history)
    return max(taken, key=lambda each: each.index, default=run.journal.start if begins else None)


def stretched(run: Run, remedy: Rewind) -> Run:
    """The run with the limits that hold after it has gone back."""
    return replace(run, stretch=max(run.stretch, remedy.stretch))


def _over_retry_budget(run: Run, progress: StepState, failure: Failure) -> Answer | None:
    """`budget: max_retries` is used up."""
    allowed = run.plan.spec.budget.max_retries
    spent = run.journal.spent + progress.record().spent
    if allowed is None or spent < allowed or failure.circumstances.waits:
        return None
    message = f"Budget exceeded: max_retries {allowed} ({failure.message})"
    return _in_place_of(failure, "BUDGET_EXCEEDED", message), GiveUp("aborted")


def _rewind_instead(run: Run, progress: StepState, failure: Failure, known: bool) -> Answer | None:
    """A retry that might do a thing twice, or has lost its form, goes back instead: once, where all can be put back."""
    if not _may_undo(run, failure, known):
        return None
    checkpoint = nearest(run, progress.index, Rewind())
    if checkpoint is None or not checkpoint.world.whole:
        return None
    before = any(record.rewound and record.index == progress.index for record in run.journal.trace)
    return None if before or run.left <= 0 else (failure, Rewind())


def _may_undo(run: Run, failure: Failure, known: bool) -> bool:
    lost = not known or _form_gone(run, failure)
    return lost and failure.family is Family.NETWORK and failure.retryable


def _unknown(progress: StepState, failure: Failure, known: bool) -> Answer | None:
    if known:
        return None
    message = f"Whether step {progress.index} took effect is not known, so it was not repeated: {failure.message}"
    message += f"; {doubt(progress.declared, progress.sent)}"
    return _outcome_unknown(failure, message)


def _outcome_unknown(failure: Failure, message: str) -> Answer:
    return _in_place_of(failure, "OUTCOME_UNKNOWN", message), GiveUp()


def _in_place_of(failure: Failure, code: str, message: str) -> Failure:
    """Another failure, with the evidence of the one that led to it."""
    details, how = {**failure.details, "last_code": failure.code}, failure.circumstances
    return Failure(code, message, failure.selector, details, cause=failure.cause, circumstances=how)


def _retry(run: Run, progress: StepState, failure: Failure, remedy: Retry) -> Answer:
    if failure.family is Family.BROWSER:
        return _permanent(run, progress, failure) or (failure, remedy)
    remedy = Retry(max(remedy.after, failure.retry_after or 0.0))
    if not failure.retryable:  # the rule's remedies were made for an earlier failure, of another code
        return failure, GiveUp()
    if why := _of_no_use(run, failure):
        return _more(failure, why)
    if not run.deadline.allows(remedy.after, run.ports.clock.now()):
        return _more(failure, f"no time left for a retry in {remedy.after:g}s, the task has {run.left:.0f}s")
    return failure, remedy


def _of_no_use(run: Run, failure: Failure) -> str | None:
    """Why the step cannot be done again where its page is now."""
    if failure.circumstances.opened_before:
        last = run.journal.history[-1] if run.journal.history else None
        if last is not None and last.wrote:
            return f"step {last.index}, a write, opened its page: it is not asked for again"
        return None if failure.tainted else "its page is the answer to what must not be sent again"
    if _form_gone(run, failure):
        return "it had no effect, or may be done twice, but its form is gone, so it was not sent again"
    return None


def _form_gone(run: Run, failure: Failure) -> bool:
    """What was posted cannot be sent again: the browser shows its own error page in the form's place."""
    return posted(failure) and (run.stage.session.url or "").startswith("chrome-error:")


def _rewind(run: Run, progress: StepState, failure: Failure, remedy: Rewind, known: bool, barred: str | None) -> Answer:
    """Once for a timeout; for a lost page or browser until the third time within five minutes."""
    if failure.family is Family.BROWSER:
        if lost := _permanent(run, progress, failure):
            return lost
    elif run.stretch > 1:
        return _more(failure, "the limits were stretched once already")
    checkpoint = nearest(run, progress.index, remedy)
    if checkpoint is None:
        failure, _ = _more(failure, f"there is no checkpoint at or before step {progress.index}")
        return failure, NO_WAY_BACK
    if stretched(run, remedy).left <= 0:
        return _more(failure, "no time left to go back")
    if barred:
        message = f"{failure.message}; not gone back to the checkpoint before step {checkpoint.index}: {barred}"
        return _outcome_unknown(failure, message)
    return _over_writes(run, progress, failure, checkpoint, known) or (failure, remedy)


def _permanent(run: Run, progress: StepState, failure: Failure) -> Answer | None:
    """The third loss within five minutes is permanent for the task."""
    here = sum(isinstance(each.outcome, Failure) and counts(each.outcome) for each in progress.attempts)
    if counts(failure) and (permanent := for_good(run, here)):
        return replace(failure, message=f"{failure.message}{permanent}"), GiveUp()
    return None


def for_good(run: Run, here: int = 0) -> str:
    """That page or browser were lost too often, `here` times of it in the step under way; empty when they were not."""
    if run.journal.crashes(run.t - WITHIN) + here < PERMANENT:
        return ""
    return f"; page or browser were lost {PERMANENT} times within {WITHIN / 60:g} minutes: permanent for this task"


def _over_writes(run: Run, progress: StepState, failure: Failure, checkpoint: Checkpoint, known: bool) -> Answer | None:
    """Where the environment is not put back, a write must be known to have its effect or not."""
    if checkpoint.world.whole:
        return None
    if unknown := _unknown(progress, failure, known):
        return unknown
    if blind := _blind(run, progress, checkpoint):
        environment = checkpoint.world.refused or "the environment cannot be put back"
        why = f"step {blind.index} is a write without `done_when`, and {environment}{seen(blind)}"
        return _more(failure, f"not gone back to the checkpoint before step {checkpoint.index}: {why}")
    return None


def _blind(run: Run, progress: StepState, checkpoint: Checkpoint) -> StepRecord | None:
    """A write since the checkpoint of which nobody could tell whether it still has its effect."""
    since = [record for record in run.journal.history if record.index >= checkpoint.index]
    writes = [record for record in (*since, *run.journal.set_up) if record.may_have_written]
    own = [record for record in (progress.record(),) if record.wrote and record.passed]
    return next((record for record in (*writes, *own) if record.step.done_when is None), None)


def _more(failure: Failure, why: str) -> tuple[Failure, GiveUp]:
    """The failure, and why nothing more was tried."""
    return replace(failure, message=f"{failure.message}; {why}"), GiveUp()
