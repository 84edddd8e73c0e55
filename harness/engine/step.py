"""The whole of step execution: try, and while it fails, apply the next remedy (docs/design/steps-and-recovery.md)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import replace
from typing import Any, assert_never
from urllib.parse import urljoin, urlsplit

from harness.engine.attempt import StepRequest, StepState, attempt
from harness.engine.effects import barred, collect, contradicted, denied, done_before, posted, settled, took_effect
from harness.engine.remedies import NO_WAY_BACK, asked_again, nearest, permitted
from harness.engine.run import RewindRequest, Run, StepTransition, TaskStop
from harness.model.events import AttemptEnded, RemedyChosen, StepEnded, StepStarted
from harness.model.record import Attempt, StepRecord
from harness.recovery import GiveUp, Remedy, RepairPrecondition, Retry, Rewind, Skip, Substitute, Trust
from harness.recovery.catalog import Effect, Family, Scope
from harness.recovery.failure import Circumstances, Failed, Failure, Outcome, Passed
from harness.recovery.network import NetworkRule
from harness.resilience.breaker import Breaker, CircuitOpen, CircuitState, Transition
from harness.resilience.circuits import CircuitScope
from harness.spec.references import MissingMemory, resolve
from harness.spec.steps import Api, Download, Open, Step, Wait

# A site that failed too often in a row is left alone for a while (docs/design/events-and-resilience.md).

DOWN = frozenset(
    {
        "NET_DNS",
        "NET_CONNECTION_REFUSED",
        "NET_TIMEOUT",
        "NET_CONNECTION_RESET",
        "NET_EMPTY_RESPONSE",
        "NET_UNREACHABLE",
        "NET_PROTOCOL",
        "HTTP_TIMEOUT",
        "HTTP_UNAVAILABLE",
    }
)
"""What says that a site is down. 429 and 500 do not: it answers, if not what was wanted."""
LOOK = 0.25
"""Seconds between two looks at a circuit that is waited for."""
RECOVERY_SECONDS = 15.0
"""How long a retry waits for a service to be started again; most take a second."""
PROBE_SECONDS = 5.0
"""How long a task waits at a time while another one is trying the site."""


async def through(run: Run, step: Step, attempt: Callable[[], Awaitable[Outcome]]) -> Outcome:
    """Make the attempt, unless its site is being left alone; what comes of it counts for the site that it names.

    Only steps that say where they go are held back. A passed one counts for its site, a failed one for the host that
    failed, and a cancelled one for nobody.
    """
    url = _url(run, step)
    breaker = run.ports.breaker(url) if url is not None else None
    try:
        ticket = breaker.admit() if breaker else None
    except CircuitOpen as refusal:
        assert breaker is not None
        return _refused(run, breaker, refusal, url)
    try:
        outcome = await attempt()
        blamed = _blamed(run, outcome)
        before = _last(blamed or breaker)
        if blamed is not None and blamed is not breaker:
            outcome = _count(blamed, outcome)
            if ticket is not None and breaker is not None and _same_site(breaker, blamed):
                ticket.failed(_said(outcome))  # its http leads on to its https
        elif ticket is not None and blamed is not None:
            ticket.failed(_said(outcome))
        elif ticket is not None and isinstance(outcome, Passed):
            ticket.succeeded()
        return _told(outcome, before, blamed or breaker)
    finally:
        if ticket is not None:
            ticket.released()


async def rest(run: Run, failure: Failure, seconds: float) -> None:
    """Wait before a retry; not on for a circuit that has closed. A service of ours is waited for: it comes back."""
    url = failure.details.get("url")
    breaker = run.ports.breaker(url) if failure.code == "CIRCUIT_OPEN" and isinstance(url, str) else None
    clock = run.ports.clock
    until = clock.now() + seconds
    while breaker is not None and breaker.rests_for() > LOOK and until - clock.now() > LOOK:
        await clock.sleep(LOOK)
    left = until - clock.now()
    await clock.sleep(left if breaker is None else min(left, breaker.rests_for()))
    if (failure.code in DOWN or breaker is not None) and isinstance(url, str):
        await _recovered(run, url)


async def _recovered(run: Run, url: str) -> None:
    """A service of ours that is being started again is waited for: a retry before would be in vain."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(min(run.left, RECOVERY_SECONDS)):
            await run.ports.recover(url)


def _url(run: Run, step: Step) -> str | None:
    """Where a step goes, in full, when it says so."""
    if not isinstance(step, Open | Api):
        return None
    try:
        resolved = resolve(step, run.stage.world.memory)
        return urljoin(run.plan.base_url or "", resolved.url) if isinstance(resolved, Open | Api) else None
    except (MissingMemory, Failed, ValueError):  # the attempt says what is wrong with it
        return None


def _blamed(run: Run, outcome: Outcome) -> Breaker | None:
    """The circuit of the host that is down."""
    if not isinstance(outcome, Failure) or outcome.code not in DOWN:
        return None
    url = outcome.details.get("url")
    return run.ports.breaker(url) if isinstance(url, str) else None


def _count(breaker: Breaker, outcome: Outcome) -> Outcome:
    """A failure of a host that nobody knew the step would go to; of one that is left alone anyway, that is said."""
    try:
        breaker.admit().failed(_said(outcome))
    except CircuitOpen as refusal:
        return _led_there(outcome, refusal)
    return outcome


def _led_there(outcome: Outcome, refusal: CircuitOpen) -> Outcome:
    """The step names another host, or none: a redirect, or a click, has led there."""
    if not isinstance(outcome, Failure):
        return outcome
    circuit = {"name": refusal.name, "state": "open"}
    message = f"{outcome.message}; the step does not name that site, whose {refusal}"
    return replace(outcome, message=message, details={**outcome.details, "circuit": circuit})


def _same_site(named: Breaker, blamed: Breaker) -> bool:
    """Whether the blamed one is the `https` of the named `http`. Another port of one host is another program."""
    origins = [urlsplit(each.name.removeprefix(f"{CircuitScope.ORIGIN}:")) for each in (named, blamed)]
    schemes, hosts = [each.scheme for each in origins], {each.hostname for each in origins}
    return schemes == ["http", "https"] and len(hosts) == 1


def _said(outcome: Outcome) -> str:
    """In general words: other tasks are told, and do not know what is secret in this one."""
    return f"{outcome.code}: {outcome.row.cause.removesuffix('.')}" if isinstance(outcome, Failure) else ""


def _last(breaker: Breaker | None) -> Transition | None:
    return breaker.history[-1] if breaker and breaker.history else None


def _told(outcome: Outcome, before: Transition | None, breaker: Breaker | None) -> Outcome:
    """The outcome, with what it did to the circuit."""
    now = _last(breaker)
    if breaker is None or now is None or now is before:
        return outcome
    circuit = {"name": breaker.name, "state": now.after.value, "reason": now.reason}
    details: dict[str, Any] = {**outcome.details, "circuit": circuit}
    return replace(outcome, details=details)


def _refused(run: Run, breaker: Breaker, refusal: CircuitOpen, url: str | None) -> Failure:
    waits = _waits(run, breaker)
    longest = min(PROBE_SECONDS, refusal.reopens_in) if refusal.probing else refusal.reopens_in
    details = {
        "url": url,
        "circuit": {"name": refusal.name, "state": "open"},
        "failures": refusal.failures,
        "last_error": refusal.error,
        "reopens_in": round(refusal.reopens_in, 1),
    }
    text = f"nothing was sent: {refusal}"
    after, how = longest if waits else None, Circumstances(waits=waits)
    return Failure("CIRCUIT_OPEN", text, details=details, retry_after=after, circumstances=how)


def _waits(run: Run, breaker: Breaker) -> bool:
    """Whether the task waits: as its rule says; else the first time, for an outage may be short.

    Of a site that failed again when it was tried, nobody expects anything: to wait on would cost each task that time.
    """
    rule = run.plan.rulebook.on_network_error
    if not isinstance(rule, NetworkRule):
        return False
    if rule.wait_for_circuit is not None:
        return rule.wait_for_circuit
    opened = next((each for each in reversed(breaker.history) if each.after is CircuitState.OPEN), None)
    return opened is None or opened.before is CircuitState.CLOSED


SKIPPABLE = frozenset(Family) - {Family.NONE, Family.BROWSER}
"""What an `optional` step may fail with, or with its page: not policy, authentication, or a browser that is gone."""


async def do_step(run: Run, request: StepRequest) -> tuple[StepRecord, StepTransition]:
    """Do a step to its end. Returns the record, and what follows it."""
    run.journal.attribute(await run.stage.session.heard())
    run.ports.emit(StepStarted(run.plan, request.index, request.step, run.ports.clock.wall()))
    progress = StepState(request, request.step)
    record, turn = await _replayed(run, progress) or await _until_settled(run, progress)
    if isinstance(turn, TaskStop | RewindRequest) and request.step.optional and skippable(turn.failure):
        record, turn = progress.record(skipped=True), await go_on(run, request.index, turn.failure)
    run.ports.emit(StepEnded(run.plan, record))
    return record, turn


def skippable(failure: Failure) -> bool:
    """Whether a task can go on after a step that ended so."""
    hung = failure.family is Family.BROWSER and failure.scope is Scope.PAGE
    return (failure.family in SKIPPABLE or hung) and failure.type != "timeout_task"


async def go_on(run: Run, index: int, failure: Failure) -> TaskStop | None:
    """After a skipped step the next one needs a page that answers."""
    lost = await _renewed(run, failure) if failure.tainted else None
    return TaskStop(lost, index, GiveUp()) if lost else None


async def _replayed(run: Run, progress: StepState) -> tuple[StepRecord, StepTransition] | None:
    """A write that was done before a rewind, and still stands."""
    earlier = run.journal.done_before(progress.index, progress.declared, by_agent=run.plan.agent is not None)
    return await done_before(run, progress, earlier) if earlier else None


async def _until_settled(run: Run, progress: StepState) -> tuple[StepRecord, StepTransition]:
    remedy: Remedy | None = None
    while True:
        outcome = await _try(run, progress, remedy)
        collect(run, progress, outcome)
        if isinstance(outcome, Passed):
            await run.stage.session.passed(progress.index)
            progress.contradicted = not progress.repeated and await contradicted(run, progress.declared)
            return progress.record(), None
        await run.stage.session.record()
        took = await took_effect(run, progress.declared, outcome, progress.sent)
        if took:
            return await settled(run, progress)
        failure, remedy = await _answer(run, progress, outcome, known=took is not None)
        if ended := await _ended(run, progress, failure, remedy):
            return ended
        progress.repeated = progress.repeated or denied(progress.declared, outcome, took, progress.sent)


async def _ended(
    run: Run, progress: StepState, failure: Failure, remedy: Remedy
) -> tuple[StepRecord, StepTransition] | None:
    """How the step ends with the remedy; None: it is tried once more."""
    match remedy:
        case GiveUp():
            return progress.record(), TaskStop(_as_declared(progress, failure), progress.index, remedy)
        case Skip(what="task"):
            return progress.record(), TaskStop(failure, progress.index, GiveUp("aborted"), skipped=True)
        case Skip():
            return progress.record(skipped=True), await go_on(run, progress.index, failure)
        case Rewind():
            return progress.record(), _back(run, progress, failure, remedy)
        case Retry() | Substitute() | RepairPrecondition() | Trust():
            return None
        case _:
            assert_never(remedy)


async def lost(run: Run, progress: StepState, failure: Failure) -> tuple[StepRecord, StepTransition]:
    """A page or browser that was lost while nobody acted, as the agent looked at it; no turn: look again."""
    progress.attempts.append(Attempt(progress.current, run.t, 0.0, run.ports.clock.wall(), _attributed(run, failure)))
    failure, remedy = await _answer(run, progress, failure, known=True)
    match remedy:
        case Rewind():
            return progress.record(), _back(run, progress, failure, remedy)
        case GiveUp():
            return progress.record(), TaskStop(failure, progress.index, remedy)
        case Retry() | Substitute() | RepairPrecondition() | Trust() | Skip():
            return progress.record(), None
        case _:
            assert_never(remedy)


def _as_declared(progress: StepState, failure: Failure) -> Failure:
    """A failure of the last fallback as one of the step's own selector, which the file names."""
    own, last = progress.attempts[0].outcome, progress.attempts[-1].remedy
    if not (isinstance(last, Substitute) and isinstance(own, Failure)) or failure.code != own.code:
        return failure
    tried = [each.remedy.selector for each in progress.attempts if isinstance(each.remedy, Substitute)]
    message = f"{own.message}; nor does {'its fallback' if len(tried) == 1 else 'any of its fallbacks'} help: "
    details = {**failure.details, **own.details}
    return replace(failure, message=message + ", ".join(tried), selector=own.selector, details=details).also(
        own.circumstances
    )


def _back(run: Run, progress: StepState, failure: Failure, remedy: Rewind) -> StepTransition:
    checkpoint = nearest(run, progress.index, remedy)
    assert checkpoint is not None  # else it would not have been permitted
    return RewindRequest(failure, progress.index, checkpoint, remedy)


async def _try(run: Run, progress: StepState, remedy: Remedy | None) -> Outcome:
    started, t = run.ports.clock.wall(), run.t
    request, step = progress.request, progress.current
    code, expect = request.code, request.expect
    outcome = await through(run, step, lambda: attempt(run, request.index, step, remedy, code, expect=expect))
    outcome = _attributed(run, outcome)
    done = Attempt(_as_done(run, progress.current), t, run.t - t, started, outcome, remedy)
    progress.attempts.append(done)
    run.ports.emit(AttemptEnded(run.plan, progress.index, done))
    return outcome


def _attributed(run: Run, outcome: Outcome) -> Outcome:
    """Who is to blame: a fault, of a page or browser that it has ended; a site's process, of a host that is down."""
    if isinstance(outcome, Failure) and outcome.family is Family.NETWORK:
        return run.ports.explain(outcome)
    if not isinstance(outcome, Failure) or outcome.family is not Family.BROWSER or not run.stage.injector.claim():
        return outcome
    return outcome.also(Circumstances(injected=True))


def _as_done(run: Run, step: Step) -> Step:
    """The step with memory filled in, for reports; as declared when it needs what is not there."""
    try:
        return resolve(step, run.stage.world.memory)
    except (MissingMemory, Failed):
        return step


async def _answer(run: Run, progress: StepState, failure: Failure, *, known: bool) -> tuple[Failure, Remedy]:
    """The next remedy; one that leads to another attempt is made ready: waited for, its page fresh."""
    if _failure_key(failure) not in progress.remedies:
        progress.remedies[_failure_key(failure)] = run.plan.rulebook.remedies(failure, run.ports.random)
    failure, remedy = await _next(run, progress, failure, known=known)
    run.ports.emit(RemedyChosen(run.plan, progress.index, failure, remedy, len(progress.attempts)))
    progress.answered(failure, remedy)
    match remedy:
        case Retry(after=after):
            await rest(run, failure, after)
            progress.current = _again(progress, failure)
        case Substitute(selector=selector):
            progress.current = progress.declared.model_copy(update={"selector": selector})
        case RepairPrecondition() | Trust():
            if why := await _cured(progress, remedy):
                return await _remedy_failed(run, progress, failure, remedy, why)
        case Rewind() | Skip() | GiveUp():
            return failure, remedy
        case _:
            assert_never(remedy)
    if failure.tainted and (lost := await _renewed(run, failure)):
        return await _answer(run, progress, lost, known=known)
    return failure, remedy


async def _renewed(run: Run, failure: Failure) -> Failure | None:
    """A page to go on with; why there is none."""
    session = run.stage.session
    earlier = (str(failure.details["url"]),) if failure.circumstances.opened_before else session.renewed_at
    return await session.renew(failure, run.left, await barred(run, earlier))


async def _next(run: Run, progress: StepState, failure: Failure, *, known: bool) -> tuple[Failure, Remedy]:
    """The next remedy that may be applied here. Where the task cannot go back, the rule may know something else."""
    while True:
        remedy = next(progress.remedies[_failure_key(failure)], GiveUp())
        why = await barred(run, asked_again(run, progress, failure, remedy, known=known))
        failure, allowed = permitted(run, progress, failure, remedy, known=known, barred=why)
        if not (isinstance(remedy, Rewind) and allowed is NO_WAY_BACK):
            return failure, allowed


def _failure_key(failure: Failure) -> Hashable:
    """What has remedies of its own; of lost pages and browsers each kind, and whether others are to blame.

    Waiting for a circuit is no retry.
    """
    if failure.circumstances.waits:
        return failure.code
    if failure.family is not Family.BROWSER:
        return failure.family
    return failure.code, failure.circumstances.others_may_be_to_blame


async def _cured(progress: StepState, remedy: RepairPrecondition | Trust) -> str | Failure | None:
    cure = progress.request.cure
    return await cure(remedy) if cure else "there is nothing that could set it right"


async def _remedy_failed(
    run: Run, progress: StepState, failure: Failure, remedy: RepairPrecondition | Trust, why: str | Failure
) -> tuple[Failure, Remedy]:
    """The end; but where page or browser were lost meanwhile, that is for its own rule to answer."""
    if isinstance(why, Failure):
        return await _answer(run, progress, why, known=True)
    failure = replace(failure, message=f"{failure.message}; {why}")
    return failure, GiveUp("aborted" if isinstance(remedy, RepairPrecondition) else "failed")


def _again(progress: StepState, failure: Failure) -> Step:
    """What a retry does. A click that was performed is not repeated: the GET that it started is."""
    step, url = progress.declared, failure.details.get("url")
    if failure.act_done:
        return Wait(value=0, remember=step.remember, timeout=step.timeout, screenshot_id=step.screenshot_id)
    if isinstance(step, Api | Download) or failure.family is not Family.NETWORK:
        return progress.current
    if failure.effect is not Effect.DONE or posted(failure) or any(each.unsafe for each in progress.sent):
        return progress.current
    if not isinstance(url, str):
        return progress.current
    return Open(url=url, timeout=step.timeout, remember=step.remember, screenshot_id=step.screenshot_id)
