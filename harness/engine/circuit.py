"""A site that failed too often in a row is left alone for a while (specs/004 4.3, specs/000 Layer 2, DESIGN 8)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urljoin, urlsplit

from harness.engine.run import Run
from harness.recovery.failure import Failed, Failure, Outcome, Passed
from harness.recovery.network import NetworkRule
from harness.resilience.breaker import Breaker, CircuitOpen, State, Transition
from harness.resilience.circuits import Scope
from harness.spec.references import MissingMemory, resolve
from harness.spec.steps import Api, Open, Step

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
    origins = [urlsplit(each.name.removeprefix(f"{Scope.ORIGIN}:")) for each in (named, blamed)]
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
        **({"waits": True} if waits else {}),
    }
    text = f"nothing was sent: {refusal}"
    return Failure("CIRCUIT_OPEN", text, details=details, retry_after=longest if waits else None)


def _waits(run: Run, breaker: Breaker) -> bool:
    """Whether the task waits: as its rule says; else the first time, for an outage may be short.

    Of a site that failed again when it was tried, nobody expects anything: to wait on would cost each task that time.
    """
    rule = run.plan.rulebook.on_network_error
    if not isinstance(rule, NetworkRule):
        return False
    if rule.wait_for_circuit is not None:
        return rule.wait_for_circuit
    opened = next((each for each in reversed(breaker.history) if each.after is State.OPEN), None)
    return opened is None or opened.before is State.CLOSED
