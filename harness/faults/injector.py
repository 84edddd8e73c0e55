"""Makes the declared faults strike at their steps and requests, and heals them. When is said in `Triggers`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from harness.faults.network import Network, blamed
from harness.model.ports import FaultTarget, Injection, Undo
from harness.model.record import MetFault
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock
from harness.spec.faults import (
    AlertOnLoad,
    ElementFault,
    Fault,
    FaultBase,
    HostFault,
    InBrowser,
    InServices,
    InWorld,
    Popup,
    RequestFault,
    RouteFault,
    SessionExpired,
    SocketFault,
    StepFault,
    StorageCleared,
    UnexpectedDialog,
)
from harness.spec.steps import Step

# When a fault strikes: counted and drawn, from its declaration and a seed alone. Pure.


def name_of(fault: Fault, number: int) -> str:
    """Its id, or `<kind>-<number>` by its place in the file."""
    return fault.id or f"{fault.kind}-{number}"


def source_of(seed: int | None, task: str, name: str) -> Random:
    """A random source of its own for each fault, so that faults added or left out do not change the others."""
    return Random(f"{seed or 0}/{task}/{name}")


@dataclass
class Triggers:
    """The occasions of one fault so far."""

    fault: Fault
    random: Random
    seen: int = 0
    struck: int = 0
    early_or_late: int = 0
    """Occasions outside of `after` and `until`."""
    waits: bool = False
    """Whether its `delay` runs."""

    def at_step(self, index: int, step: Step) -> bool:
        """Whether a step that begins is one of its occasions."""
        act = getattr(self.fault, "act", None)
        return isinstance(self.fault, StepFault) and index >= self.fault.step and act in (None, step.act)

    def due(self, t: float) -> bool:
        """Whether it would strike this occasion, `t` seconds after the start of the task; counts the occasion.

        `strike` must follow when it does.
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
        """It strikes the occasion that was due."""
        self.struck += 1


@dataclass
class ArmedFault:
    """Whether the step from which a request fault strikes has come."""

    triggers: Sequence[Triggers]
    step: int = field(default=-1)

    def up_to(self, index: int) -> None:
        """A step begins; what was armed stays so."""
        self.step = max(self.step, index)

    def requests(self) -> list[Triggers]:
        """The request faults that are armed, in the order of the file."""
        return [each for each in self.triggers if isinstance(each.fault, RequestFault) and each.fault.step <= self.step]


# What became of each fault.

KEPT = 100
"""Strikes of one fault whose times are kept."""


@dataclass
class FaultCounter:
    """One fault's strikes and healings, in seconds since the start of the task."""

    name: str
    fault: Fault
    count: int = 0
    strikes: list[float] = field(default_factory=list)
    healed: list[float] = field(default_factory=list)
    problem: str = ""
    steps: list[int] = field(default_factory=list)

    def strike(self, t: float, step: int = -1) -> None:
        """`step`: the one under way. When there is no room for more, the place of the last one is taken."""
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
        """`why`: what was missing, should it never have struck."""
        times, steps = tuple(self.strikes), tuple(self.steps)
        why = "" if self.count else why
        return MetFault(self.name, self.fault, self.count, times, tuple(self.healed), self.problem, steps, why)


# Why a fault never struck, in words. Pure.


def why_unmet(triggers: Triggers, reached: int) -> str:
    """What was missing; `reached`: the last step that began. Of one that struck it says nothing of use."""
    fault = triggers.fault
    if reached < fault.step:
        return f"step {fault.step} was never reached"
    if triggers.waits and isinstance(fault, StepFault):
        return f"the task ended before its `delay` of {fault.delay:g} s was over"
    if triggers.struck:
        return _without_effect(fault)
    if triggers.seen == 0:
        return _no_occasion(triggers)
    if triggers.seen < fault.nth:
        return f"`nth` is {fault.nth}, and there were only {triggers.seen} of its occasions"
    return f"it had {triggers.seen} occasions, and its `probability` of {fault.probability:g} chose none"


def _no_occasion(triggers: Triggers) -> str:
    fault = triggers.fault
    if triggers.early_or_late:
        return f"all {triggers.early_or_late} of its occasions were before `after` or past `until`"
    if isinstance(fault, RequestFault):
        return "no request matched its `url`"
    act = fault.act or ""
    return f"no {act} step began from step {fault.step} on".replace("  ", " ")


def _without_effect(fault: Fault) -> str:
    return next(words for kinds, words in _WANTED if isinstance(fault, kinds))


_WANTED: tuple[tuple[type[FaultBase], str], ...] = (
    (ElementFault, "its `selector` matched nothing on any page while it stood"),
    (HostFault, "nothing connected to its `host` while it stood"),
    (RequestFault, "no request matched its `url`"),
    (AlertOnLoad, "no page was loaded while it stood"),
    (SessionExpired, "there were no cookies to take away"),
    (StorageCleared, "the open pages had stored nothing"),
    (UnexpectedDialog, "the page did not open it"),
    (Popup, "the page did not open it"),
    (FaultBase, "what it strikes was not there, or did not answer"),
)
"""What a fault that was done may still have waited for in vain."""

NOTICED = 1
"""So many steps later at the most a lost page or browser is noticed."""
ENDS_THE_BROWSER = ("page_crash", "endless_loop", "browser_stop", "browser_kill", "driver_kill")
"""Kinds after which a page or a browser is lost: such a loss is not the site's or the machine's."""
STRIKE_SECONDS = 10.0
"""How long the end of a task waits for a strike that is under way."""


@dataclass(frozen=True, slots=True)
class Where:
    """Who does the damage in each place."""

    network: Network
    world: FaultTarget
    services: FaultTarget


class FaultInjector:
    """The faults of one task (ports.Injector). All on the loop's thread; `close` must follow."""

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
        """Strikes under way: not broken off, for nobody could heal what one had done by then."""
        self._losses: list[tuple[Triggers, int]] = []
        """Strikes that end a page or browser and that no failure was put down to yet, with the steps begun by then."""
        self._begun = 0
        self._step = -1
        """Which one began last."""
        where.network.arm(self.struck)

    def attach(self, browser: FaultTarget) -> None:
        """The task's browser is there."""
        self._browser = browser

    def begin(self, at: float) -> None:
        """When the task began: what its times are counted from. Monotonic, in seconds."""
        self._began = at

    async def before_step(self, index: int, step: Step) -> None:
        """Arm what is armed from here on, and strike with what strikes this step. Raises Failed when that cannot be."""
        self._begun += 1
        self._step = index
        self._armed.up_to(index)
        await self._route()
        for each in self._triggers:
            if not each.at_step(index, step) or not each.due(self._t):
                continue
            each.strike()
            delay = each.fault.delay if isinstance(each.fault, StepFault) else 0
            if delay:
                self._start(self._later(each, delay))
            else:
                await self._strike(each)

    def struck(self, urls: tuple[str, ...]) -> SocketFault | None:
        """What strikes the request that goes by these URLs at the socket; counted. Of several the first in the file.

        It is an occasion of every fault whose pattern it matches, so that no fault shifts another's.
        """
        armed = ((each, each.fault) for each in self._armed.requests())
        due = [(each, fault) for each, fault in armed if isinstance(fault, SocketFault) and self._due(each, urls)]
        for each, fault in due[:1]:
            self._took(each)
            return fault
        return None

    def _takes(self, triggers: Triggers, urls: tuple[str, ...]) -> bool:
        due = self._due(triggers, urls)
        if due:
            self._took(triggers)
        return due

    def _due(self, triggers: Triggers, urls: tuple[str, ...]) -> bool:
        fault = triggers.fault
        assert isinstance(fault, RequestFault)
        return self._where.network.matches(fault, urls) and triggers.due(self._t)

    def _took(self, triggers: Triggers) -> None:
        triggers.strike()
        self._met(triggers)

    def claim(self) -> bool:
        """Whether the page or browser that was lost just now was ended by a fault; each loss can be claimed once."""
        recent = [entry for entry in self._losses if entry[1] >= self._begun - NOTICED]
        self._losses = recent[1:]
        return bool(recent)

    def met(self) -> tuple[MetFault, ...]:
        """What became of the faults so far, in the order of the file."""
        return tuple(self._tallies[id(each)].record(why_unmet(each, self._armed.step)) for each in self._triggers)

    async def close(self) -> None:
        """Heal everything. Never raises; `met` is complete afterwards."""
        await _end(self._tasks)
        await self._finish_strikes()
        while self._standing:
            await self._heal(*self._standing.pop())
        await self._where.network.close()

    async def _finish_strikes(self) -> None:
        """Let the strikes that are under way end. Of one that does not, nobody knows what it has done."""
        if self._strikes:
            await asyncio.wait(self._strikes, timeout=STRIKE_SECONDS)
        for each in self._strikes.values():
            self._tallies[id(each)].problem = f"its strike did not end within {STRIKE_SECONDS:g} s"
        await _end(self._strikes)

    @property
    def _t(self) -> float:
        return self._clock.now() - self._began

    def _met(self, triggers: Triggers) -> None:
        self._tallies[id(triggers)].strike(self._t, self._step)
        if triggers.fault.kind in ENDS_THE_BROWSER:
            self._losses.append((triggers, self._begun))

    async def _route(self) -> None:
        """Requests that are struck inside of the browser are looked at there, from the step that arms them on."""
        for each in self._armed.requests():
            if isinstance(each.fault, RouteFault) and id(each) not in self._routed:
                self._routed.add(id(each))
                await self._strike(each)

    async def _later(self, each: Triggers, delay: float) -> None:
        each.waits = True
        await self._clock.sleep(delay)
        each.waits = False
        with suppress(Failed):  # its tally says so
            await self._strike(each)

    async def _strike(self, each: Triggers) -> None:
        task = asyncio.get_running_loop().create_task(self._done(each))
        self._strikes[task] = each
        task.add_done_callback(self._strikes.pop)
        heal = await asyncio.shield(task)
        if heal is not None and each.fault.lasts is not None:
            self._start(self._heal_after(each, heal, each.fault.lasts))

    async def _done(self, each: Triggers) -> Undo | None:
        strike = Injection(each.fault, each.random, lambda: self._met(each), lambda urls: self._takes(each, urls))
        try:
            heal = await self._hands(each.fault).strike(strike)
        except Exception as error:
            self._tallies[id(each)].problem = _said(error)
            if isinstance(error, Failed):
                raise blamed(error, each.fault) from error.__cause__
            raise
        if heal is not None:
            self._standing.append((each, heal))
        return heal

    def _hands(self, fault: FaultBase) -> FaultTarget:
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
        await self._heal(each, heal)  # one that is broken off here is done again by `close`
        self._standing = [entry for entry in self._standing if entry[1] is not heal]

    async def _heal(self, each: Triggers, heal: Undo) -> None:
        counter = self._tallies[id(each)]
        try:
            await heal()
        except Exception as error:  # noqa: BLE001 - one that cannot be healed must not keep the others from it
            counter.problem = _said(error)
        else:
            counter.heal(self._t)
            self._losses = [entry for entry in self._losses if entry[0] is not each]

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _said(error: Exception) -> str:
    return error.failure.message if isinstance(error, Failed) else f"{type(error).__name__}: {error}"


async def _end(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
