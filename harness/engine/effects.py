"""Decides that a write is not repeated (docs/design/never-twice.md): by evidence, `done_when`, else unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urldefrag

from harness.criteria import parse
from harness.criteria.syntax import PAGE_FUNCTIONS, Stable, Within, walk
from harness.engine.attempt import StepState, remember, resolved
from harness.engine.judge import AssertionJudge
from harness.engine.run import Checkpoint, Run, StepTransition, TaskStop
from harness.model.events import WriteSeen
from harness.model.record import LEFT_OUT, Sent, StepRecord, first_unsafe, seen_writing, written_addresses
from harness.recovery import GiveUp
from harness.recovery.catalog import Effect, Family
from harness.recovery.failure import Failed, Failure, Outcome, Passed
from harness.recovery.never_twice import EffectAnswer, Known, RepeatVerdict, RepeatWay, again
from harness.resilience import Deadline
from harness.spec.references import MissingMemory
from harness.spec.step_keys import ArrivalKeys
from harness.spec.steps import Api, Check, Download, Open, Select, Step, Tool, Type, Uncheck, Upload

_UNCERTAIN = (408, 429)
"""Statuses that leave it open whether something was done, like those from 500 on."""
_FILLS = (Type, Select, Check, Uncheck, Upload)
_UNTOLD = "its page was lost, or hung and could not be freed, before it told"
_AGAIN = 0.5
"""Seconds between two requests to a channel that does not answer."""
_SOON = 2.0
"""Seconds that a site has to show a write that passed: what a script sends may still be under way."""
_CALLS = ("NET_TIMEOUT", "TOOL_TIMEOUT")
"""Failures of a request or call that was not answered in time; a limit or a lost driver leaves one unanswered, too."""
_LEAST = 1.0
"""Seconds for asking `done_when` even when the task's time is over: a wrong answer would cost more."""


def has_posted(failure: Failure) -> bool:
    """Return whether the act has sent a request that must not be sent twice, unless its file says that it may be."""
    return failure.effect is not Effect.NONE and failure.details.get("method", "GET") not in ("GET", "HEAD")


def collect(run: Run, progress: StepState, outcome: Outcome) -> None:
    """Note the requests that left the pages in an attempt. If the act did nothing, they belong to the one before.

    That may be an earlier attempt at the same step, whose page a retry leaves by opening an address.
    """
    opening, sent = isinstance(progress.declared, ArrivalKeys), run.stage.session.take_sent()
    begun = any(not _did_nothing(each.outcome) for each in progress.attempts[:-1])
    if opening or not begun:
        run.journal.attribute(tuple(each for each in sent if each.before), opening=opening)
        sent = tuple(each for each in sent if not each.before)
    if progress.declared.looks_only or (_did_nothing(outcome) and not begun):
        run.journal.attribute(sent)
    else:
        progress.sent += sent
        run.journal.pass_on(progress.declared, sent)


def _did_nothing(outcome: Outcome) -> bool:
    if isinstance(outcome, Passed):
        return LEFT_OUT in outcome.details
    return outcome.effect is Effect.NONE and not _leaves_open(outcome)


def written_so_far(run: Run, progress: StepState) -> Sent | None:
    """What the attempt under way was seen to write; None if nothing."""
    collect(run, progress, Passed())
    return first_unsafe(progress.sent) if seen_writing(progress.declared, progress.sent) else None


async def stop_sending(run: Run, progress: StepState | None = None, failure: Failure | None = None) -> bool:
    """Stop the pages from sending, and note what had left them; return whether something may have been written.

    Only then is it decided what is done again. If a page that hung does not tell what it has sent, the act under way,
    or the one before, may have sent something that nobody saw.
    """
    told = await run.stage.session.hold()
    known = _suspects(run, progress)
    if progress is not None and failure is not None:
        collect(run, progress, failure)
    else:
        run.journal.attribute(run.stage.session.take_sent())
    if not told and failure is not None and _may_send_on(progress, failure):
        unseen = Sent("", run.seat.url or "", unseen=_UNTOLD)
        if progress is not None and not progress.declared.looks_only:
            progress.sent += (unseen,)
        else:
            run.journal.attribute((unseen,))
    return _suspects(run, progress) > known


def _may_send_on(progress: StepState | None, failure: Failure) -> bool:
    """Return whether pages that did not tell anything may have sent something: they are there, or were for a while.

    A page that hangs runs on unseen, and so do those of a driver that is stopped or silent. With a driver that was
    killed, its browsers end at once.
    """
    unseen = failure.code == "PAGE_UNRESPONSIVE" or failure.details.get("driver", "gone") != "gone"
    if unseen or under_way(progress, failure):
        return True
    return failure.family is not Family.BROWSER if progress is None else may_go_on(progress.declared, failure)


def may_go_on(step: Step, failure: Failure) -> bool:
    """Return whether an act that may write had perhaps begun when it failed: its page may still be about to send."""
    if failure.effect is not Effect.POSSIBLE or step.looks_only or isinstance(step, Api | Tool):
        return False
    return step.effect_class == "write" or step.effect is None


def _suspects(run: Run, progress: StepState | None) -> int:
    """The number of requests so far that may have written."""
    records = [sent for record in run.journal.trace for sent in record.sent]
    return sum(each.unsafe for each in (*records, *(progress.sent if progress else ())))


def under_way(progress: StepState | None, failure: Failure) -> bool:
    """Return whether an act that may write had perhaps begun and would be repeated: its page may still send something.

    It was cut off, or it opened a page that did not come, and nobody knows whether that was its own doing.
    """
    if progress is None or failure.effect is Effect.NONE or isinstance(progress.declared, Api | Tool):
        return False
    step, led_on = progress.declared, failure.family is Family.NETWORK and failure.effect is Effect.POSSIBLE
    if not failure.tainted and (not led_on or isinstance(step, Download | ArrivalKeys)):
        return False
    return step.may_write


def write_left(run: Run, index: int, step: Step, sent: Sent) -> None:
    """Emit that an unsafe request leaves which makes a write of a step, while this step runs or has just ended."""
    if run.journal.shows_write(step, sent):
        run.ports.emit(WriteSeen(run.plan, index, sent))


def _is_certainly_undone(step: Step, failure: Failure, sent: Sequence[Sent]) -> bool:
    """Return whether it is certain that nothing was done: nothing was sent, or the refusal says so.

    What a route answers is not sent.
    """
    how = failure.circumstances
    if how.routed and not how.patched and not any(each.unsafe for each in sent):
        return True
    if failure.details.get("status") in step.safe_statuses:
        return True
    if "status" not in failure.details and any(each.unsafe for each in sent):  # by an attempt before
        return False
    return failure.effect is Effect.NONE and not (step.effect_class == "write" and _leaves_open(failure))


def _leaves_open(failure: Failure) -> bool:
    """Return whether an answer that came too late, too often or broken leaves open what was done before it."""
    status = failure.details.get("status")
    if not isinstance(status, int) or failure.circumstances.opened_before or failure.code.startswith("TOOL_"):
        return False
    return status in _UNCERTAIN or status >= 500


async def knowledge(run: Run, step: Step, failure: Failure, sent: Sequence[Sent] = ()) -> Known:
    """What is known of the effect of a step that failed; its `done_when` is asked unless nothing was done."""
    if _not_to_repeat(step, failure, sent):
        return Known(wrote=False)
    posted = not step.repeatable and (has_posted(failure) or seen_writing(step, sent))
    never_came = any(each.page for each in sent) and "status" not in failure.details
    unseen = posted or never_came or any(each.unsafe for each in sent) or isinstance(step, Api | Tool)
    late = bool(unanswered(step, sent, failure))
    return Known(step.effect_class == "write" or posted, await _answer_of(run, step, unseen=unseen, late=late))


def _not_to_repeat(step: Step, failure: Failure, sent: Sequence[Sent]) -> bool:
    """Return whether no retry can do the act twice: it did nothing, or it was done and only its judgement is missing.

    That is the request that a page must send, or the judgement of a tool's answer.
    """
    only_judged = failure.act_done and (failure.family is Family.ASSERTION or isinstance(step, Tool))
    return only_judged or _is_certainly_undone(step, failure, sent)


def unanswered(step: Step, sent: Iterable[Sent], failure: Failure | None = None) -> list[str]:
    """The requests of a step that may write and have no answer: their site may still be at work on them.

    While there is one, a `done_when` that is false denies nothing. The page that follows an answered form writes
    nothing.
    """
    loads = step.effect_class == "write"
    own = [each for each in sent if each.open and (each.unsafe or (loads and each.arrived and not each.follows))]
    if own or failure is None or failure.effect is Effect.NONE or not isinstance(step, Api | Tool):
        return [f"{each.method} {each.url}" for each in own]
    cut_off = failure.code in _CALLS or failure.family in (Family.TIMEOUT, Family.BROWSER)
    return [step.describe()] if cut_off else []


async def await_answer(run: Run, step: Step, sent: Sequence[Sent], failure: Failure | None = None) -> bool:
    """Give what has no answer one more limit of the step, within the task's time, while `done_when` denies the effect.

    Once the answer is there, its site has a moment to show what it has done. Returns whether the effect came.
    """
    clock = run.ports.clock
    if not unanswered(step, sent, failure) or (failure is not None and _not_to_repeat(step, failure, sent)):
        return False
    until, answered = Deadline.after(min(run.limit(step), run.left), clock.now()), False
    while until.allows(_AGAIN, clock.now()):
        if (answer := await _answer_of(run, step, unseen=True)) is not EffectAnswer.DENIED:
            return answer is EffectAnswer.DONE
        await clock.sleep(_AGAIN)
        if not answered and not unanswered(step, sent, failure):
            answered, until = True, Deadline.after(min(_SOON, until.left(clock.now())), clock.now())
    return False


def taken_back(record: StepRecord, *, restored: bool = True, shown: bool = True, alone: bool = True) -> bool:
    """Return whether a restored environment takes back what the step did. `shown`: a channel had shown something.

    A tool's server may keep it elsewhere. What a channel must show, and none did, is still to come or is elsewhere. A
    step that the file does not call a write need not show (a login submits a form, too). What has no answer must, and
    what was shown must be its own (`alone`: no other step has written): it may still be to come.
    """
    step = record.step
    late = not record.came and bool(unanswered(step, record.sent, record.failure))
    called = step.effect == "write" or isinstance(step, Api) or any(each.unsafe for each in record.sent)
    must_show = step.effect_class == "write" and called
    seen = shown and alone if late else shown or not must_show
    return restored and seen and not isinstance(step, Tool)


async def contradicted(run: Run, step: Step) -> bool | None:
    """Return whether `done_when` denies a write that just passed: its answer after a later failure would be wrong, too.

    None: it was not asked. Only a `done_when` that could allow a repetition is evaluated, and none that itself waits
    for a slow site.
    """
    until = Deadline.after(min(_SOON, run.left), run.ports.clock.now())
    if step.effect_class != "write" or step.done_when is None:
        return None
    try:
        criterion = (await resolved(run, step, until)).done_when
        if criterion is None or not _asks_the_environment(criterion):
            return None
        if any(isinstance(node, Within | Stable) for node in walk(parse(criterion).tree)):
            return None
        return isinstance(await AssertionJudge(run, until, expect=_SOON).criterion(criterion), Failure)
    except (Failed, MissingMemory):
        return None


async def barred_reason(run: Run, addresses: Iterable[str], user: str | None = None) -> str | None:
    """Return why one of these addresses must not be requested again: a write that may have effect produced it.

    `user`: only what this one has written counts, since it is asked for from this user's page; None: all of it.

    The write's `done_when` is asked, and allows the request if the write no longer has its effect.
    """
    wanted = {urldefrag(address).url for address in addresses}
    trace = [each for each in run.journal.trace if user is None or each.step.user == user]
    made = written_addresses(trace) if wanted else {}
    for url, record in made.items():
        if url in wanted and not await once_more(run, RepeatWay.REQUEST, record):
            doing = "a write" if record.step.effect_class == "write" else "which was seen to write"
            return f"step {record.index} ({record.step.describe()}), {doing}, produced {url}: it is not requested again"
    return None


async def refill_refusal(run: Run, checkpoint: Checkpoint) -> str | None:
    """Return the reason why no field of the checkpoint's page may be filled again: a step that filled one was a write.

    The step may still have its effect.
    """
    before = run.journal.history[: checkpoint.index]
    by_user = ([each for each in before if each.step.user == user] for user in {each.step.user for each in before})
    return next(filter(None, [await _filled_by_write(run, records) for records in by_user]), None)


async def _filled_by_write(run: Run, records: Sequence[StepRecord]) -> str | None:
    """The reason why no field of a user's page may be filled again, by the records of the user's steps."""
    for record in reversed(records):
        if (isinstance(record.step, Open) and record.acted) or any(each.page and each.arrived for each in record.sent):
            return None  # the recorded fields belong to another page
        wrote = isinstance(record.step, _FILLS) and record.may_have_written
        if wrote and not await once_more(run, RepeatWay.FILL, record):
            doing = f"step {record.index} ({record.step.describe()}), which filled one of them, is a write"
            return f"{doing}{observed_write(record)} and is not repeated"
    return None


async def once_more(run: Run, way: RepeatWay, record: StepRecord) -> bool:
    """Return whether a write may be done again on this way, as its `done_when` answers."""
    late = bool(unanswered(record.step, record.sent, record.failure))
    return again(way, Known(True, await _answer_of(run, record.step, unseen=True, late=late))) is RepeatVerdict.AGAIN


async def _answer_of(run: Run, step: Step, *, unseen: bool, late: bool = False) -> EffectAnswer:
    """The answer of `done_when`.

    `unseen`: the page and the memory are still as before the step, so a criterion about them cannot deny the effect.
    `late`: nothing can, since a request has no answer.
    """
    if step.done_when is None:
        return EffectAnswer.NONE
    try:
        until = _until(run, step)
        criterion = str((await resolved(run, step, until)).done_when)
        with run.acting(step.user):
            done = await _answered(run, criterion, until)
    except (Failed, MissingMemory):
        return EffectAnswer.UNREADABLE
    if done:
        return EffectAnswer.DONE
    cannot_see = unseen and not _asks_the_environment(criterion)
    return EffectAnswer.UNREADABLE if late or cannot_see else EffectAnswer.DENIED


async def _answered(run: Run, criterion: str, until: Deadline) -> bool:
    """Evaluate the criterion, again while a channel does not answer: a dead site is restarted. Raises Failed."""
    while True:
        try:
            return isinstance(await AssertionJudge(run, until).criterion(criterion), Passed)
        except Failed as failed:
            if failed.failure.code != "CHANNEL_UNREADABLE" or not until.allows(_AGAIN, run.ports.clock.now()):
                raise
            await run.ports.clock.sleep(_AGAIN)


def _asks_the_environment(text: str) -> bool:
    """Return whether the criterion reads channels, and not the page."""
    criterion = parse(text)
    return bool(criterion.channels) and not criterion.looks_at_page


def observed_write(record: StepRecord) -> str:
    """The request by which a step was seen to write, as a text; empty for a step that its file declares a `write`."""
    left = first_unsafe(record.sent)
    if record.step.effect_class == "write" or left is None:
        return ""
    return f" (it {left.describe()}; if it may be done twice, declare `effect: idempotent`)"


def doubt(step: Step, sent: Iterable[Sent] = (), late: Sequence[str] = ()) -> str:
    """The reason why it cannot be known whether a step took effect. `late`: what has no answer (`unanswered`)."""
    if step.done_when is not None and late:
        return f"{late[0]} has no answer, and until then a false `done_when` proves nothing"
    if step.done_when is None:
        left = first_unsafe(sent)
        return "it has no `done_when`" + (f", and {left.describe()}" if left else "")
    if "json(" in step.done_when and not any(f"{name}(" in step.done_when for name in PAGE_FUNCTIONS):
        return "its `done_when` could not be read"
    return "its `done_when` reads the page or the memory, which are as before the step; read a channel with `json(...)`"


def _until(run: Run, step: Step) -> Deadline:
    return Deadline.after(max(_LEAST, min(run.limit(step), run.left)), run.ports.clock.now())


async def settled(run: Run, progress: StepState) -> tuple[StepRecord, StepTransition]:
    """The record of a failed step that had taken effect. The values that it is to remember are read now."""
    until = _until(run, progress.declared)
    step = await resolved(run, progress.declared, until)
    values = await remember(run, progress.index, step, until) if step.remember else {}
    if isinstance(values, Failure):
        return progress.record(), TaskStop(values, progress.index, GiveUp())
    return progress.record(done=True, remembered=values), None


async def done_before(run: Run, progress: StepState, earlier: StepRecord) -> tuple[StepRecord, StepTransition] | None:
    """The record of a write that was done before a rewind and still has its effect; None if it is to be done again."""
    await await_answer(run, progress.declared, earlier.sent)
    late = unanswered(progress.declared, earlier.sent, earlier.failure)
    known = Known(True, await _answer_of(run, progress.declared, unseen=True, late=bool(late)))
    verdict = again(RepeatWay.REPLAY, known)
    if verdict is RepeatVerdict.UNKNOWN:
        why = doubt(progress.declared, late=late)
        why += ", and no channel had shown what the step did, so nothing was restored" if run.journal.unshown else ""
        message = f"Whether step {progress.index} still has its effect is not known, so it was not done again: {why}"
        failure = Failure("OUTCOME_UNKNOWN", message, progress.declared.target)
        return progress.record(), TaskStop(failure, progress.index, GiveUp())
    if verdict is RepeatVerdict.AGAIN:
        progress.repeated = True
        return None
    for key, value in earlier.remembered.items():
        run.stage.world.remember(key, value, f"{run.plan.task_id}#{progress.index}")
    await run.synchronize(_until(run, progress.declared))
    return progress.record(done=True, remembered=earlier.remembered), None
