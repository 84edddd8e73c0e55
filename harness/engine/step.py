"""Executes a step: try, and while it fails, apply the next remedy (docs/design/steps-and-recovery.md)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never
from urllib.parse import urljoin, urlsplit

from harness.engine import effects
from harness.engine.attempt import StepRequest, StepState, attempt, task_timeout
from harness.engine.due import left_out
from harness.engine.events import attempt_ended, remedy_chosen, step_ended
from harness.engine.judge import read_users
from harness.engine.policy import allowed_by_person, permission
from harness.engine.remedies import NO_WAY_BACK, asked_again, nearest, permitted
from harness.engine.repeat import RepeatUntil
from harness.engine.run import RewindRequest, Run, StepTransition, TaskStop, of_user
from harness.model.events import StepStarted
from harness.model.record import CLOSED_PAGES, LEFT_OUT, Attempt, StepRecord
from harness.recovery import GiveUp, Remedy, RepairPrecondition, Retry, Rewind, Skip, Substitute, Trust
from harness.recovery.catalog import Effect, Family, Scope
from harness.recovery.failure import Circumstances, Failed, Failure, Outcome, Passed
from harness.recovery.never_twice import EffectAnswer, Known, RepeatVerdict, RepeatWay, again
from harness.recovery.rulebook import NetworkRule
from harness.resilience.breaker import Breaker, CircuitOpen, CircuitState, Transition
from harness.resilience.circuits import CircuitScope
from harness.spec.page_steps import Reload, Wait
from harness.spec.references import MissingMemory, resolve
from harness.spec.step_base import RepeatedStep
from harness.spec.step_keys import AnswerKeys
from harness.spec.steps import Api, Assert, Download, Open, Step, Tool
from harness.values import replace

if TYPE_CHECKING:
    from harness.engine.api_answers import AnsweredApi
    from harness.engine.tools import CalledTool

# No requests go to a site that failed too often in a row (docs/design/events-and-resilience.md).

_DOWN = frozenset({
    "NET_DNS", "NET_CONNECTION_REFUSED", "NET_TIMEOUT", "NET_CONNECTION_RESET", "NET_EMPTY_RESPONSE", "NET_UNREACHABLE",
    "NET_PROTOCOL", "HTTP_TIMEOUT", "HTTP_UNAVAILABLE", "TOOL_UNAVAILABLE", "TOOL_TIMEOUT",
})  # fmt: skip
"""Failures that mean that a site or a tool server is down. 429 and 500 do not: the site answers."""
_LOOK = 0.25
"""Seconds between two reads of a circuit that is waited for."""
_RECOVERY_SECONDS = 15.0
"""Seconds that a retry waits for a service to be restarted; most take one second."""
_TOOL_AWAY = (
    "`harness tools status` says how the tool server is. With `wait_for_circuit` in `on_network_error` the task waits "
    "for it; `--task-breaker off` sends every call."
)
"""What helps if the circuit of a tool server is open."""
_PICTURE_SECONDS = 2.0
"""Seconds for the screenshot of a soft assertion that failed."""
_PROBE_SECONDS = 5.0
"""Seconds that a task waits at a time while another one probes the site."""


async def with_circuit(run: Run, step: Step, attempt: Callable[[], Awaitable[Outcome]]) -> Outcome:
    """Make the attempt unless the circuit of its site is open; the outcome counts for that circuit.

    Only steps that name their address are held back. A success counts for the named site, a failure for the host that
    failed, and a cancellation for no site.
    """
    url = _url(run, step)
    breaker = run.ports.breaker(url) if url is not None else _circuit_of_tool(run, step)
    try:
        ticket = breaker.admit() if breaker else None
    except CircuitOpen as refusal:
        assert breaker is not None
        whom = {"server": step.server} if isinstance(step, Tool) else {"url": url}
        return _circuit_refused(run, breaker, refusal, whom)
    made = len(run.ports.tool_calls(run.plan))
    try:
        outcome = await attempt()
        blamed = _blamed_circuit(run, step, outcome)
        before = _last_transition(blamed or breaker)
        if isinstance(outcome, Failure) and blamed is not None and blamed is not breaker:
            outcome = _count(blamed, outcome)
            if ticket is not None and breaker is not None and _same_site(breaker, blamed):
                ticket.failed(_describe_generally(outcome))  # its http address redirects to https
        elif ticket is not None and blamed is not None:
            ticket.failed(_describe_generally(outcome))
        elif ticket is not None and (isinstance(outcome, Passed) or _has_answered(run, step, made)):
            ticket.succeeded()
        return _note_transition(outcome, before, blamed or breaker)
    finally:
        if ticket is not None:
            ticket.released()


def _has_answered(run: Run, step: Step, made: int) -> bool:
    """Whether the tool server has answered since so many calls were made, though perhaps not as the step expects."""
    if not isinstance(step, Tool):
        return False
    calls = run.ports.tool_calls(run.plan)[made:]
    return any(each.server == step.server and each.outcome in ("answered", "error") for each in calls)


async def _sleep_before_retry(run: Run, failure: Failure, seconds: float) -> None:
    """Wait before a retry, but no longer than a circuit stays open.

    A service of the harness is waited for until it is restarted: a retry before would fail again.
    """
    url = failure.requested
    breaker = _open_circuit(run, failure) if failure.code == "CIRCUIT_OPEN" else None
    clock = run.ports.clock
    until = clock.now() + seconds
    while breaker is not None and breaker.rests_for() > _LOOK and until - clock.now() > _LOOK:
        await clock.sleep(_LOOK)
    left = until - clock.now()
    await clock.sleep(left if breaker is None else min(left, breaker.rests_for()))
    if (failure.code in _DOWN or breaker is not None) and url is not None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(run.left, _RECOVERY_SECONDS)):
                await run.ports.recover(url)


def _open_circuit(run: Run, failure: Failure) -> Breaker | None:
    url, server = failure.details.get("url"), failure.details.get("server")
    if isinstance(server, str):
        return run.ports.tool_breaker(server)
    return run.ports.breaker(url) if isinstance(url, str) else None


def _circuit_of_tool(run: Run, step: Step) -> Breaker | None:
    return run.ports.tool_breaker(step.server) if isinstance(step, Tool) else None


def _url(run: Run, step: Step) -> str | None:
    """The full address of a step that names one, else None."""
    if not isinstance(step, Open | Api):
        return None
    try:
        resolved = resolve(step, run.stage.world.memory)
        return urljoin(run.plan.base_url or "", resolved.url) if isinstance(resolved, Open | Api) else None
    except (MissingMemory, Failed, ValueError):  # the attempt reports the error
        return None


def _blamed_circuit(run: Run, step: Step, outcome: Outcome) -> Breaker | None:
    if not isinstance(outcome, Failure) or outcome.code not in _DOWN or outcome.circumstances.routed:
        return None
    if outcome.code.startswith("TOOL_"):
        circumstances = outcome.circumstances  # a server that only a person can mend is not asked again anyway
        return None if circumstances.injected or circumstances.permanent else _circuit_of_tool(run, step)
    return run.ports.breaker(outcome.requested) if outcome.requested is not None else None


def _count(breaker: Breaker, outcome: Failure) -> Failure:
    """Count a failure for a host that the step did not name; if its circuit is open anyway, the message says so."""
    try:
        breaker.admit().failed(_describe_generally(outcome))
    except CircuitOpen as refusal:  # a redirect or a click led there
        circuit = {"name": refusal.name, "state": "open"}
        message = f"{outcome.message}; the step was led to another site, whose {refusal}"
        return replace(outcome, message=message, details={**outcome.details, "circuit": circuit})
    return outcome


def _same_site(named: Breaker, blamed: Breaker) -> bool:
    """Return whether one circuit is the `https` origin of the other's `http`. Another port is another program."""
    origins = [urlsplit(each.name.removeprefix(f"{CircuitScope.ORIGIN}:")) for each in (named, blamed)]
    schemes, hosts = [each.scheme for each in origins], {each.hostname for each in origins}
    return schemes == ["http", "https"] and len(hosts) == 1


def _describe_generally(outcome: Outcome) -> str:
    """The failure in general words: other tasks see it, and cannot know the secrets of this one."""
    return f"{outcome.code}: {outcome.row.cause.removesuffix('.')}" if isinstance(outcome, Failure) else ""


def _last_transition(breaker: Breaker | None) -> Transition | None:
    return breaker.history[-1] if breaker and breaker.history else None


def _note_transition(outcome: Outcome, before: Transition | None, breaker: Breaker | None) -> Outcome:
    """The outcome, with a note on the transition that it caused in the circuit."""
    now = _last_transition(breaker)
    if breaker is None or now is None or now is before:
        return outcome
    circuit = {"name": breaker.name, "state": now.after.value, "reason": now.reason}
    return replace(outcome, details={**outcome.details, "circuit": circuit})


def _circuit_refused(run: Run, breaker: Breaker, refusal: CircuitOpen, whom: Mapping[str, str | None]) -> Failure:
    """The failure of a step that was held back. `whom`: the `url` of the site, or the `server` of the tool."""
    waits = _waits(run, breaker)
    longest = min(_PROBE_SECONDS, refusal.reopens_in) if refusal.probing else refusal.reopens_in
    details = {
        **whom,
        "circuit": {"name": refusal.name, "state": "open"},
        "failures": refusal.failures,
        "last_error": refusal.error,
        "reopens_in": round(refusal.reopens_in, 1),
    }
    text = f"nothing was sent: {refusal}"
    after, how = longest if waits else None, Circumstances(waits=waits)
    advice = _TOOL_AWAY if "server" in whom else ""
    return Failure("CIRCUIT_OPEN", text, details=details, retry_after=after, circumstances=how, advice=advice)


def _waits(run: Run, breaker: Breaker) -> bool:
    """Return whether the task waits for the circuit: as its rule says, else at the first opening (a short outage).

    If the site failed again in a probe, no task waits: each would lose that time.
    """
    rule = run.plan.rulebook.on_network_error
    if not isinstance(rule, NetworkRule):
        return False
    if rule.wait_for_circuit is not None:
        return rule.wait_for_circuit
    opened = next((each for each in reversed(breaker.history) if each.after is CircuitState.OPEN), None)
    return opened is None or opened.before is CircuitState.CLOSED


_SKIPPABLE = frozenset(Family) - {Family.NONE, Family.BROWSER}
"""Failures after which an `optional` step is skipped: not policy, authentication, or a lost browser."""


async def do_step(run: Run, request: StepRequest) -> tuple[StepRecord, StepTransition]:
    """Do a step to its end. Returns its record, and what follows it."""
    run.journal.attribute(await run.stage.session.take_settled())
    _begin(run, request)
    called: CalledTool | AnsweredApi | None = None
    if isinstance(request.step, Api) and request.step.reads_answer:
        from harness.engine.api_answers import AnsweredApi  # few steps read the answer of a request

        called = AnsweredApi()
    elif isinstance(request.step, Tool):
        from harness.engine.tools import CalledTool, weighed  # few tasks call tools

        called, began = CalledTool(run, request.index), run.ports.clock.now()
        request = replace(request, step=await weighed(run, request.step))
        called.weighing = run.ports.clock.now() - began
    if request.agent or request.index < 0:  # criteria do nothing: what an act has left behind is still guarded
        run.stage.session.restrict(permission(run, request.step) if request.agent else None)
    run.ports.emit(StepStarted(run.plan, request.index, request.step, run.ports.clock.wall()))
    progress = StepState(request, request.step, called=called)
    earlier = run.journal.done_before(progress.index, progress.declared, by_agent=run.agent is not None)
    replayed = await effects.done_before(run, progress, earlier) if earlier else None
    record, turn = replayed or await _until_settled(run, progress)
    if isinstance(turn, TaskStop | RewindRequest) and request.step.optional and skippable(turn.failure):
        record, turn = progress.record(skipped=True), await go_on(run, request.index, turn.failure)
    if getattr(request.step, "soft", False):
        turn = await _softened(run, request, turn)
    step_ended(run, record)
    return record, turn


def _begin(run: Run, request: StepRequest) -> None:
    run.stage.session.act_as(request.step.user)
    run.stage.session.begin_step(request.index, partial(effects.write_left, run, request.index, request.step))


async def _softened(run: Run, request: StepRequest, turn: StepTransition) -> StepTransition:
    """What follows a soft assertion: if it failed, the failure is kept for the end of the task, with a screenshot."""
    if not isinstance(turn, TaskStop) or turn.skipped or not skippable(turn.failure):
        run.journal.soft.pop(request.index, None)  # it passed now; before, the task may have gone back
        return turn
    run.journal.soft[request.index] = turn
    name = request.step.screenshot_id or f"soft-{request.index}"
    await run.seat.screenshot(name, min(_PICTURE_SECONDS * max(1.0, run.plan.timeout_scale), run.left))
    return await go_on(run, request.index, turn.failure)


def skippable(failure: Failure) -> bool:
    """Return whether a task can go on after a step that failed so."""
    hung = failure.family is Family.BROWSER and failure.scope is Scope.PAGE
    return (failure.family in _SKIPPABLE or hung) and failure.type != "timeout_task"


async def go_on(run: Run, index: int, failure: Failure) -> TaskStop | None:
    """Provide a working page for the step after a skipped one; returns the end if there is none."""
    lost = await _renewed(run, failure) if failure.tainted else None
    return TaskStop(lost, index, GiveUp()) if lost else None


async def _until_settled(run: Run, progress: StepState) -> tuple[StepRecord, StepTransition]:
    """Try, and while it fails, answer the failure: the step ends, or it is tried again.

    The order is what keeps a write from being done twice. Pages in which the act may still be under way are stopped
    first: else a request could leave after it was decided that nothing was sent. Then it is found out what is known of
    the effect, and whether another attempt is safe. Only with that a remedy is chosen.
    """
    remedy: Remedy | None = None
    while True:
        await run.stage.session.release()
        outcome = await _try(run, progress, remedy)
        effects.collect(run, progress, outcome)
        if await allowed_by_person(run, outcome):
            run.stage.session.restrict(permission(run, progress.declared))
            continue
        if isinstance(outcome, Passed):
            await run.seat.passed(progress.index)
            left = LEFT_OUT in outcome.details
            if not (progress.repeated or left):
                progress.contradicted = await effects.contradicted(run, progress.declared)
            return progress.record(), None
        done = await effects.await_answer(run, progress.declared, progress.sent, outcome)
        follows = run.left > 0 or run.plan.alternative
        if follows and not done and effects.under_way(progress, outcome):
            await effects.stop_sending(run, progress, outcome)
            outcome = replace(outcome, tainted=True)  # another attempt needs a page in which nothing goes on
        # Nothing that merely looks ends a script of the page: it may be busy with what is awaited.
        await run.stage.session.record(freeing=outcome.tainted or not progress.declared.looks_only)
        known = await effects.knowledge(run, progress.declared, outcome, progress.sent)
        verdict = again(RepeatWay.RETRY, known)
        if verdict is RepeatVerdict.PASSED:
            return await effects.settled(run, progress)
        failure, remedy = await _remedy(run, progress, outcome, wrote=known.wrote, known=verdict is RepeatVerdict.AGAIN)
        if ended := await _end_step(run, progress, failure, remedy):
            return ended
        progress.repeated = progress.repeated or known == Known(True, EffectAnswer.DENIED)


async def _remedy(
    run: Run, progress: StepState, outcome: Failure, *, wrote: bool, known: bool
) -> tuple[Failure, Remedy]:
    """Choose what follows a failure: what covers the element is removed, if a handler is for it; else the rule says."""
    clear = progress.request.clear
    if clear is not None and outcome.code == "ELEMENT_COVERED" and not wrote:
        before = run.journal.handled.total()
        if turn := await clear():
            return turn.failure, turn.give_up if isinstance(turn, TaskStop) else turn.remedy
        if run.journal.handled.total() > before:
            _begin(run, progress.request)
            progress.answered(outcome, Retry())
            return outcome, Retry()
    return await _answer(run, progress, outcome, known=known)


async def _end_step(
    run: Run, progress: StepState, failure: Failure, remedy: Remedy
) -> tuple[StepRecord, StepTransition] | None:
    """The end of the step by this remedy; None if another attempt follows."""
    match remedy:
        case GiveUp():
            return progress.record(), TaskStop(_as_declared(progress, failure), progress.index, remedy)
        case Skip(what="task"):
            return progress.record(), TaskStop(failure, progress.index, GiveUp("aborted"), skipped=True)
        case Skip():
            return progress.record(skipped=True), await go_on(run, progress.index, failure)
        case Rewind():
            return progress.record(), _rewind_request(run, progress, failure, remedy)
        case Retry() | Substitute() | RepairPrecondition() | Trust():
            return None
        case _:
            assert_never(remedy)


async def handle_loss(run: Run, progress: StepState, failure: Failure) -> tuple[StepRecord, StepTransition]:
    """Handle a page or browser that was lost while the agent looked at it; without a transition it looks again."""
    progress.attempts.append(
        Attempt(progress.current, run.t, 0.0, run.ports.clock.wall(), _attribute_cause(run, failure))
    )
    failure, remedy = await _answer(run, progress, failure, known=True)
    match remedy:
        case Rewind():
            return progress.record(), _rewind_request(run, progress, failure, remedy)
        case GiveUp():
            return progress.record(), TaskStop(failure, progress.index, remedy)
        case Retry() | Substitute() | RepairPrecondition() | Trust() | Skip():
            return progress.record(), None
        case _:
            assert_never(remedy)


def _as_declared(progress: StepState, failure: Failure) -> Failure:
    """Rewrite a failure of the last fallback as one of the step's own selector, which the file names."""
    own, last = progress.attempts[0].outcome, progress.attempts[-1].remedy
    if not (isinstance(last, Substitute) and isinstance(own, Failure)) or failure.code != own.code:
        return failure
    tried = [each.remedy.selector for each in progress.attempts if isinstance(each.remedy, Substitute)]
    message = f"{own.message}; {'its fallback was' if len(tried) == 1 else 'its fallbacks were'} tried in vain: "
    details = {**failure.details, **own.details}
    return replace(failure, message=message + ", ".join(tried), selector=own.selector, details=details).also(
        own.circumstances
    )


def _rewind_request(run: Run, progress: StepState, failure: Failure, remedy: Rewind) -> StepTransition:
    checkpoint = nearest(run, progress.index, remedy)
    assert checkpoint is not None  # otherwise the rewind would not have been permitted
    return RewindRequest(failure, progress.index, checkpoint, remedy)


async def _try(run: Run, progress: StepState, remedy: Remedy | None) -> Outcome:
    started, t = run.ports.clock.wall(), run.t
    request, step = progress.request, progress.current
    code, expect = request.code, request.expect
    last = progress.attempts[-1].outcome if progress.attempts else None
    before = last if isinstance(last, Failure) else None

    def once() -> Awaitable[Outcome]:
        return attempt(
            *(run, request.index, step, remedy, code),
            expect=expect,
            called=progress.called,
            before=before,
            ends=_end_of_repetition(run, progress),
        )

    outcome = await left_out(run, progress) or await _unrecorded(run, step) or await with_circuit(run, step, once)
    outcome = _with_known_reason(outcome, before)
    if isinstance(outcome, Failure):
        outcome = await run.stage.session.of(outcome.details.get("user")).by_page(outcome)
    elif isinstance(step, Assert) or (isinstance(step, Wait) and step.expr is not None) or LEFT_OUT in outcome.details:
        outcome = await _page_failure(run, step) or outcome
    outcome = _note_closed_pages(run, _attribute_cause(run, outcome))
    done = Attempt(_as_done(run, progress.current), t, run.t - t, started, outcome, remedy)
    progress.attempts.append(done)
    attempt_ended(run, request.index, request.step, done)
    return outcome


async def _page_failure(run: Run, step: Step) -> Failure | None:
    """The failure of a page that proves nothing, of those that the criteria of a step have read."""
    criteria = (getattr(step, "expr", None), step.when, *step.guards.values())
    for user in (None, *(user for each in criteria if each for user in read_users(each))):
        if failure := await run.stage.session.of(user).page_failure():
            return failure if user is None else of_user(failure, user)
    return None


def _end_of_repetition(run: Run, progress: StepState) -> RepeatUntil | None:
    step = progress.declared
    if not isinstance(step, RepeatedStep) or step.until is None:
        return None
    return RepeatUntil(step.act, step.until, step.at_most, partial(effects.written_so_far, run, progress))


def _with_known_reason(outcome: Outcome, before: Failure | None) -> Outcome:
    """An attempt that was cut off and knows no reason does not replace the reason of the one before."""
    if not isinstance(outcome, Failure) or outcome.code != "STEP_TIMEOUT" or not outcome.tainted:
        return outcome
    if before is None or before.scope is not Scope.PAGE:
        return outcome
    return replace(before, effect=outcome.effect, tainted=True, details={**before.details, **outcome.details})


async def _unrecorded(run: Run, step: Step) -> Failure | None:
    """Record that the task begins to write; returns the failure if that is impossible: nothing is sent then."""
    if step.effect_class != "write":
        return None
    try:
        async with asyncio.timeout(max(0.0, run.left)):
            await run.ports.before_write(run.plan)
    except Failed as failed:
        return failed.failure
    except TimeoutError:
        return task_timeout(run)
    return None


def _attribute_cause(run: Run, outcome: Outcome) -> Outcome:
    """Add the cause of a failure: a fault that ended the page or browser, or the process of a site that is down."""
    if isinstance(outcome, Failure) and outcome.family is Family.NETWORK:
        apart = outcome.circumstances.routed or "server" in outcome.details  # a tool server is no site
        return outcome if apart else run.ports.explain(outcome)
    if not isinstance(outcome, Failure) or outcome.family is not Family.BROWSER or not run.stage.injector.claim_loss():
        return outcome
    return outcome.also(Circumstances(injected=True))


def _note_closed_pages(run: Run, outcome: Outcome) -> Outcome:
    """The outcome, with the pages that the site closed meanwhile, and where the task went on."""
    closed = run.seat.closed_pages
    if not closed:
        return outcome
    outcome = replace(outcome, details={**outcome.details, CLOSED_PAGES: list(closed)})
    if isinstance(outcome, Passed):
        return outcome
    told = ", ".join(f"{each['closed']}, and the task went on at {each['went_on_at']}" for each in closed)
    return replace(outcome, message=f"{outcome.message}; the site had closed {told}")


def _as_done(run: Run, step: Step) -> Step:
    """The step with memory filled in, for reports; as declared if an entry is missing."""
    try:
        return resolve(step, run.stage.world.memory)
    except (MissingMemory, Failed):
        return step


async def _answer(run: Run, progress: StepState, failure: Failure, *, known: bool) -> tuple[Failure, Remedy]:
    """Choose the next remedy, and if another attempt follows, wait and provide a fresh page."""
    if _failure_key(failure) not in progress.remedies:
        progress.remedies[_failure_key(failure)] = run.plan.rulebook.remedies(failure, run.ports.random)
    failure, remedy = await _next(run, progress, failure, known=known)
    remedy_chosen(run, progress, failure, remedy)
    progress.answered(failure, remedy)
    match remedy:
        case Retry(after=after):
            await _sleep_before_retry(run, failure, after)
            progress.current = _retry_step(run, progress, failure)
        case Substitute(selector=selector):
            progress.current = progress.declared.model_copy(update={"selector": selector})
        case RepairPrecondition() | Trust():
            if ended := await _repair(run, progress, failure, remedy):
                return ended
        case Rewind() | Skip() | GiveUp():
            return failure, remedy
        case _:
            assert_never(remedy)
    if failure.tainted and (lost := await _renewed(run, failure)):
        return await _answer(run, progress, lost, known=known)
    return failure, remedy


async def _renewed(run: Run, failure: Failure) -> Failure | None:
    """Provide a page that can be trusted; returns the failure if there is none."""
    seat = run.stage.session.of(failure.details.get("user"))
    earlier = (str(failure.details["url"]),) if failure.circumstances.opened_before else seat.renewed_at
    return await seat.renew(failure, run.left, await effects.barred_reason(run, earlier, seat.user or None))


async def _next(run: Run, progress: StepState, failure: Failure, *, known: bool) -> tuple[Failure, Remedy]:
    """The next remedy that may be applied. If the task cannot go back, the rule is asked for another."""
    while True:
        remedy = next(progress.remedies[_failure_key(failure)], GiveUp())
        there = isinstance(remedy, Rewind) and nearest(run, progress.index, remedy) is not None
        soon = isinstance(remedy, Retry | Substitute) and known and effects.may_go_on(progress.declared, failure)
        if (there or soon) and await effects.stop_sending(run, progress, failure):
            now = await effects.knowledge(run, progress.declared, failure, progress.sent)
            known = known and again(RepeatWay.RETRY, now) is not RepeatVerdict.UNKNOWN
        by = None if isinstance(remedy, Rewind) else progress.declared.user  # a checkpoint has the pages of all
        why = await effects.barred_reason(run, asked_again(run, progress, failure, remedy, known=known), by)
        failure, allowed = permitted(run, progress, failure, remedy, known=known, barred=why)
        if not (isinstance(remedy, Rewind) and allowed is NO_WAY_BACK):
            return failure, allowed


def _failure_key(failure: Failure) -> Hashable:
    """The key under which a failure has its own remedies; for lost pages also whether others may be to blame.

    Waiting for a circuit is no retry.
    """
    if failure.circumstances.waits:
        return failure.code
    if failure.family is not Family.BROWSER:
        return failure.family
    return failure.code, failure.circumstances.others_may_be_to_blame


async def _repair(
    run: Run, progress: StepState, failure: Failure, remedy: RepairPrecondition | Trust
) -> tuple[Failure, Remedy] | None:
    """The end if the repair failed; if page or browser were lost meanwhile, their own rule answers that."""
    apply_repair = progress.request.apply_repair
    why = await apply_repair(remedy) if apply_repair else "nothing is declared that could correct it"
    if isinstance(why, Failure):
        return await _answer(run, progress, why, known=True)
    if not why:
        return None
    failure = replace(failure, message=f"{failure.message}; {why}")
    return failure, GiveUp("aborted" if isinstance(remedy, RepairPrecondition) else "failed")


def _shows_failure(run: Run, failure: Failure) -> bool:
    """Return whether the act's page is there with a bad answer or without a part, or the browser's own in its place."""
    answered = "status" in failure.details or "resource" in failure.details
    own = failure.effect is not Effect.NONE and not failure.circumstances.opened_before
    return own and (answered or (run.seat.url or "").startswith("chrome-error:"))


def _retry_step(run: Run, progress: StepState, failure: Failure) -> Step:
    """The step that a retry does. A click that was performed is not repeated; the request that it started is.

    A form is sent again only for a step that may be done twice, and in place of whose page an error is shown.
    """
    step, url = progress.declared, failure.details.get("url")
    kept: dict[str, Any] = {name: getattr(step, name) for name in ("remember", "timeout", "screenshot_id")}
    if progress.called is not None:  # the call is kept: what was done is only judged again
        return progress.current
    if failure.act_done:
        expected = getattr(step, "wanted_request", None) if failure.code == "REQUEST_EXPECTED" else None
        return Wait(value=0, expect_request=expected, **kept)
    if isinstance(step, Api | Download | Open) or failure.family is not Family.NETWORK:
        return progress.current
    posted = effects.has_posted(failure) or any(each.unsafe for each in progress.sent)
    wanted = step.status if isinstance(step, AnswerKeys) else None
    if posted and step.repeatable and _shows_failure(run, failure):
        return Reload(effect=step.effect, status=wanted, **kept)
    if failure.effect is not Effect.DONE or (posted and "resource" not in failure.details) or not isinstance(url, str):
        return progress.current
    return Open(url=url, status=wanted, **kept)
