"""Injects the declared faults at their steps and requests, and undoes them. `Triggers` decides when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from harness.faults.network import REFUSED, Network, name_fault
from harness.model.ports import FaultTarget, Injection, Undo
from harness.model.record import MetFault
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock
from harness.spec.faults import (
    AlertOnLoad,
    DelayedState,
    ElementFault,
    Fault,
    FaultBase,
    HostFault,
    InBrowser,
    InServices,
    InWorld,
    ModelFault,
    Popup,
    RequestFault,
    RouteFault,
    SessionExpired,
    Slow,
    SocketFault,
    StepFault,
    StorageCleared,
    ToolFault,
    UnexpectedDialog,
)
from harness.spec.steps import Step

F = TypeVar("F", bound=FaultBase)

# Decides when a fault strikes: by counting and drawing, from its declaration and a seed alone. Pure.


def name_of(fault: Fault, number: int) -> str:
    """The id of a fault, or `<kind>-<number>` by its place in the file."""
    return fault.id or f"{fault.kind}-{number}"


def source_of(seed: int | None, task: str, name: str) -> Random:
    """A random source for each fault, so that adding or removing a fault does not change the others."""
    return Random(f"{seed or 0}/{task}/{name}")


@dataclass
class Triggers:
    """Counts the occasions of one fault."""

    fault: Fault
    random: Random
    seen: int = 0
    struck: int = 0
    early_or_late: int = 0
    """The number of occasions outside of `after` and `until`."""
    waits: bool = False
    """Whether its `delay` is running."""

    def at_step(self, index: int, step: Step) -> bool:
        """Return whether a step that begins is one of its occasions."""
        act = getattr(self.fault, "act", None)
        return isinstance(self.fault, StepFault) and index >= self.fault.step and act in (None, step.act)

    def count_occasion(self, t: float) -> bool:
        """Count an occasion at `t` seconds after the start of the task; return whether the fault strikes it.

        If so, `strike` must follow.
        """
        fault = self.fault
        if not fault.after <= t <= (t if fault.until is None else fault.until):
            self.early_or_late += 1
            return False
        self.seen += 1
        if self.seen < fault.nth or (fault.most is not None and self.struck >= fault.most):
            return False
        return fault.probability == 1 or self.random.random() < fault.probability

    def strike(self) -> None:
        """Count a strike."""
        self.struck += 1


@dataclass
class ArmedFault:
    """The request faults that are armed: those whose step has begun."""

    triggers: Sequence[Triggers]
    step: int = field(default=-1)

    def up_to(self, index: int) -> None:
        """A step begins; faults that were armed stay armed."""
        self.step = max(self.step, index)

    def requests(self) -> list[Triggers]:
        """The request faults that are armed, in the order of the file."""
        return [each for each in self.triggers if isinstance(each.fault, RequestFault) and each.fault.step <= self.step]


# The outcome of each fault.

KEPT = 100
"""The number of strikes of one fault whose times are kept."""


@dataclass
class FaultCounter:
    """The times of one fault's strikes and of their undoing, in seconds since the start of the task."""

    name: str
    fault: Fault
    count: int = 0
    strikes: list[float] = field(default_factory=list)
    healed: list[float] = field(default_factory=list)
    problem: str = ""
    steps: list[int] = field(default_factory=list)

    def strike(self, t: float, step: int = -1) -> None:
        """Record a strike; `step` is the running one. When the list is full, the last entry is replaced."""
        self.count += 1
        if len(self.strikes) == KEPT:
            self.strikes.pop()
            self.steps.pop()
        self.strikes.append(round(t, 3))
        self.steps.append(step)

    def heal(self, t: float) -> None:
        if len(self.healed) < KEPT:
            self.healed.append(round(t, 3))

    def record(self, why: str = "") -> MetFault:
        """The record of the fault; `why`: what was missing, if it never struck."""
        times, steps = tuple(self.strikes), tuple(self.steps)
        why = "" if self.count else why
        return MetFault(self.name, self.fault, self.count, times, tuple(self.healed), self.problem, steps, why)


# The reason why a fault never struck, in words. Pure.


def why_unmet(triggers: Triggers, reached: int) -> str:
    """The reason why a fault had no effect; `reached`: the last step that began. Only for one that never struck."""
    fault = triggers.fault
    if reached < fault.step:
        return f"step {fault.step} was never reached"
    if triggers.waits and isinstance(fault, StepFault):
        return f"the task ended before its `delay` of {fault.delay:g} s was over"
    if triggers.struck:
        return next(words for kinds, words in _WANTED if isinstance(fault, kinds))
    if triggers.seen == 0:
        return _no_occasion(triggers)
    if triggers.seen < fault.nth:
        return f"`nth` is {fault.nth}, and it had only {triggers.seen} occasions"
    return f"it had {triggers.seen} occasions, and its `probability` of {fault.probability:g} chose none"


def _no_occasion(triggers: Triggers) -> str:
    fault = triggers.fault
    if triggers.early_or_late:
        return f"all {triggers.early_or_late} of its occasions were before `after` or later than `until`"
    if isinstance(fault, RequestFault):
        return "no request matched its `url`"
    if isinstance(fault, ModelFault):
        return f"the model `{fault.model}` was not asked" if fault.model else "no model was asked"
    if isinstance(fault, ToolFault):
        return f"`{fault.target}` was not called" if fault.target != fault.kind else "no tool was called"
    if isinstance(fault, DelayedState) and fault.when_there:
        return f"{fault.target} did not exist before any of the steps from step {fault.step} on"
    act = fault.act or ""
    return f"no {act} step began from step {fault.step} on".replace("  ", " ")


_WANTED: tuple[tuple[type[FaultBase], str], ...] = (
    (ElementFault, "its `selector` matched nothing on any page while the fault was active"),
    (HostFault, "nothing connected to its `host` while the fault was active"),
    (RequestFault, "no request matched its `url`"),
    (AlertOnLoad, "no page was loaded while the fault was active"),
    (SessionExpired, "there were no cookies to delete"),
    (StorageCleared, "the open pages had stored nothing"),
    (UnexpectedDialog, "the page did not open it"),
    (Popup, "the page did not open it"),
    (FaultBase, "its target did not exist or did not answer"),
)
"""What a fault that was injected may have waited for in vain."""

_NOTICED = 1
"""The number of steps within which a lost page or browser is noticed."""
_ENDS_THE_BROWSER = ("page_crash", "endless_loop", "browser_stop", "browser_kill", "driver_kill")
"""Kinds of faults after which a page or browser is lost: neither the site nor the machine caused that loss."""
STRIKE_SECONDS = 10.0
"""Seconds that the end of a task waits for a running injection."""


class WorldTarget(FaultTarget, Protocol):
    """Injects faults into the state of a task."""

    async def has(self, fault: DelayedState) -> bool:
        """Return whether the environment has the place of a late value. Raises Failed."""
        ...


class Where(Struct, frozen=True):
    """The targets of faults in each place."""

    network: Network
    world: WorldTarget
    services: FaultTarget


class FaultInjector:
    """The faults of one task (ports.Injector). All of it runs on the loop's thread; `close` must follow."""

    def __init__(self, faults: Sequence[Fault], where: Where, clock: Clock, *, seed: int | None, task: str) -> None:
        self._where = where
        self._browser: FaultTarget | None = None
        self._clock = clock
        self._began = clock.now()
        names = [name_of(fault, number) for number, fault in enumerate(faults)]
        self._triggers = [
            Triggers(fault, source_of(seed, task, name)) for fault, name in zip(faults, names, strict=True)
        ]
        self._tallies = {
            id(each): FaultCounter(name, each.fault) for each, name in zip(self._triggers, names, strict=True)
        }
        self._armed = ArmedFault(self._triggers)
        self._routed: set[int] = set()
        self._standing: list[tuple[Triggers, Undo]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._strikes: dict[asyncio.Task[Undo | None], Triggers] = {}
        """Injections under way. They are not cancelled, since what one has done by then could not be undone."""
        self._losses: list[tuple[Triggers, int]] = []
        """Strikes that end a page or browser and belong to no failure yet, with the number of steps begun by then."""
        self._begun = 0
        self._step = -1
        """The index of the step that began last."""
        where.network.arm(self.strike_request)

    def attach(self, browser: FaultTarget) -> None:
        """Set the task's browser as a target."""
        self._browser = browser

    def begin(self, at: float) -> None:
        """Set the time when the task began (monotonic seconds); all times count from it."""
        self._began = at

    async def before_step(self, index: int, step: Step) -> None:
        """Arm the faults from this step on, and inject those that strike it. Raises Failed if that is impossible."""
        self._begun += 1
        self._step = index
        self._armed.up_to(index)
        await self._route()
        for each in self._triggers:
            if not each.at_step(index, step) or not await self._is_there(each) or not each.count_occasion(self._t):
                continue
            each.strike()
            delay = each.fault.delay if isinstance(each.fault, StepFault) else 0
            if delay:
                self._start(self._strike_later(each, delay))
            else:
                await self._strike(each)

    async def _is_there(self, each: Triggers) -> bool:
        """Return whether the fault has a place to strike. One that has struck as often as it may is not looked at."""
        fault = each.fault
        if not isinstance(fault, DelayedState) or not fault.when_there or each.struck == fault.most:
            return True
        return await self._where.world.has(fault)

    def strike_request(self, urls: tuple[str, ...]) -> SocketFault | None:
        """Count the request with these URLs, and return the fault that strikes it; of several the first in the file.

        The request is an occasion of every fault whose pattern it matches, so that no fault shifts another's.
        """
        armed = ((each, each.fault) for each in self._armed.requests())
        due = [(each, fault) for each, fault in armed if isinstance(fault, SocketFault) and self._is_due(each, urls)]
        for each, fault in due[:1]:
            self._note_taken(each)
            return fault
        return None

    def strike_model(self, model: str, step: int) -> ModelFault | None:
        """Count a request to the model of that name, for the choice of a step, and return the fault that strikes it.

        The request is an occasion of every fault that it may be struck by; of several, the first in the file strikes.
        """
        self._armed.up_to(step)  # the choice of a step is before the step
        return self._strike_first(ModelFault, step, lambda fault: fault.model in (None, model))

    def strike_tool(self, server: str, tool: str, step: int) -> ToolFault | None:
        """Count a try of a call in a step, and return the fault that strikes it; of several, the first in the file.

        The try is an occasion of every fault that it may be struck by.
        """
        return self._strike_first(ToolFault, step, lambda fault: fault.fits(server, tool))

    def _strike_first(self, kind: type[F], step: int, fits: Callable[[F], bool]) -> F | None:
        struck: F | None = None
        for each in self._triggers:
            fault: FaultBase = each.fault
            if not isinstance(fault, kind) or fault.step > step or not fits(fault):
                continue
            if each.count_occasion(self._t) and struck is None:
                each.strike()
                self._tallies[id(each)].strike(self._t, step)
                struck = fault
        return struck

    def broken(self, urls: tuple[str, ...]) -> int:
        """The number of requests with these URLs whose answers faults of the network have spoiled so far."""
        return sum(
            each.struck
            for each in self._armed.requests()
            if isinstance(each.fault, SocketFault) and not isinstance(each.fault, Slow) and self._matches(each, urls)
        )

    def refused(self, url: str) -> None:
        """A request to a model found its host's port closed."""
        self._where.network.request_failed(url, REFUSED[0])

    def _matches(self, triggers: Triggers, urls: tuple[str, ...]) -> bool:
        fault = triggers.fault
        assert isinstance(fault, RequestFault)
        return self._where.network.matches(fault, urls)

    def _takes_request(self, triggers: Triggers, urls: tuple[str, ...]) -> bool:
        due = self._is_due(triggers, urls)
        if due:
            self._note_taken(triggers)
        return due

    def _is_due(self, triggers: Triggers, urls: tuple[str, ...]) -> bool:
        return self._matches(triggers, urls) and triggers.count_occasion(self._t)

    def _note_taken(self, triggers: Triggers) -> None:
        triggers.strike()
        self._note_strike(triggers)

    def claim_loss(self) -> bool:
        """Return whether a fault ended the page or browser that was just lost; each loss can be claimed once."""
        recent = [entry for entry in self._losses if entry[1] >= self._begun - _NOTICED]
        self._losses = recent[1:]
        return bool(recent)

    def results(self) -> tuple[MetFault, ...]:
        """The results of the faults so far, in the order of the file."""
        return tuple(self._tallies[id(each)].record(why_unmet(each, self._armed.step)) for each in self._triggers)

    async def close(self) -> None:
        """Undo all faults. It never raises; `results` is complete afterwards."""
        await _end(self._tasks)
        await self._finish_strikes()
        while self._standing:
            await self._heal(*self._standing.pop())
        await self._where.network.close()

    async def _finish_strikes(self) -> None:
        """Wait for running injections. If one does not end, its effect is unknown."""
        if self._strikes:
            await asyncio.wait(self._strikes, timeout=STRIKE_SECONDS)
        for each in self._strikes.values():
            self._tallies[id(each)].problem = f"the strike did not end within {STRIKE_SECONDS:g} s"
        await _end(self._strikes)

    @property
    def _t(self) -> float:
        return self._clock.now() - self._began

    def _note_strike(self, triggers: Triggers) -> None:
        self._tallies[id(triggers)].strike(self._t, self._step)
        if triggers.fault.kind in _ENDS_THE_BROWSER:
            self._losses.append((triggers, self._begun))

    async def _route(self) -> None:
        """Route requests inside the browser for faults that strike there, from the step that arms them."""
        for each in self._armed.requests():
            if isinstance(each.fault, RouteFault) and id(each) not in self._routed:
                self._routed.add(id(each))
                await self._strike(each)

    async def _strike_later(self, each: Triggers, delay: float) -> None:
        each.waits = True
        await self._clock.sleep(delay)
        each.waits = False
        with suppress(Failed):  # its tally says so
            await self._strike(each)

    async def _strike(self, each: Triggers) -> None:
        task = asyncio.get_running_loop().create_task(self._inject(each))
        self._strikes[task] = each
        task.add_done_callback(self._strikes.pop)
        heal = await asyncio.shield(task)
        if heal is not None and each.fault.lasts is not None:
            self._start(self._heal_after(each, heal, each.fault.lasts))

    async def _inject(self, each: Triggers) -> Undo | None:
        strike = Injection(
            each.fault, each.random, lambda: self._note_strike(each), lambda urls: self._takes_request(each, urls)
        )
        try:
            heal = await self._target_of(each.fault).strike(strike)
        except Exception as error:
            self._tallies[id(each)].problem = _error_message(error)
            if isinstance(error, Failed):
                raise name_fault(error, each.fault) from error.__cause__
            raise
        if heal is not None:
            self._standing.append((each, heal))
        return heal

    def _target_of(self, fault: FaultBase) -> FaultTarget:
        if isinstance(fault, InWorld):
            return self._where.world
        if isinstance(fault, InServices):
            return self._where.services
        if not isinstance(fault, InBrowser | RouteFault):
            return self._where.network
        if self._browser is None:
            raise Failed(Failure("INTERNAL_ERROR", f"fault {fault.kind}: there is no browser yet"))
        return self._browser

    async def _heal_after(self, each: Triggers, heal: Undo, seconds: float) -> None:
        await self._clock.sleep(seconds)
        await self._heal(each, heal)  # `close` repeats one that is interrupted here
        self._standing = [entry for entry in self._standing if entry[1] is not heal]

    async def _heal(self, each: Triggers, heal: Undo) -> None:
        counter = self._tallies[id(each)]
        try:
            await heal()
        except Exception as error:  # noqa: BLE001 - one that cannot be healed must not keep the others from it
            counter.problem = _error_message(error)
        else:
            counter.heal(self._t)
            self._losses = [entry for entry in self._losses if entry[0] is not each]

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _error_message(error: Exception) -> str:
    return error.failure.message if isinstance(error, Failed) else f"{type(error).__name__}: {error}"


async def _end(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
