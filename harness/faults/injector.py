"""Makes the declared faults strike at their steps and requests, and heals them. When is said in `occasions`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from harness.faults.blame import blamed
from harness.faults.network import Network
from harness.faults.occasions import Armed, Occasions, name_of, source_of
from harness.faults.tally import Tally
from harness.faults.unmet import why_unmet
from harness.model.ports import Hands, Heal, Strike
from harness.model.record import MetFault
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock
from harness.spec.faults import (
    Fault,
    FaultBase,
    InBrowser,
    InServices,
    InWorld,
    RequestFault,
    RouteFault,
    SocketFault,
    StepFault,
)
from harness.spec.steps import Step

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
    world: Hands
    services: Hands


class FaultInjector:
    """The faults of one task (ports.Injector). All on the loop's thread; `close` must follow."""

    def __init__(self, faults: Sequence[Fault], where: Where, clock: Clock, *, seed: int | None, task: str) -> None:
        self._where = where
        self._browser: Hands | None = None
        self._clock = clock
        self._began = clock.now()
        names = [name_of(fault, number) for number, fault in enumerate(faults)]
        self._occasions = [
            Occasions(fault, source_of(seed, task, name)) for fault, name in zip(faults, names, strict=True)
        ]
        self._tallies = {id(each): Tally(name, each.fault) for each, name in zip(self._occasions, names, strict=True)}
        self._armed = Armed(self._occasions)
        self._routed: set[int] = set()
        self._standing: list[tuple[Occasions, Heal]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._strikes: dict[asyncio.Task[Heal | None], Occasions] = {}
        """Strikes under way: not broken off, for nobody could heal what one had done by then."""
        self._losses: list[tuple[Occasions, int]] = []
        """Strikes that end a page or browser and that no failure was put down to yet, with the steps begun by then."""
        self._begun = 0
        self._step = -1
        """Which one began last."""
        where.network.arm(self.struck)

    def attach(self, browser: Hands) -> None:
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
        for each in self._occasions:
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

    def _takes(self, occasions: Occasions, urls: tuple[str, ...]) -> bool:
        due = self._due(occasions, urls)
        if due:
            self._took(occasions)
        return due

    def _due(self, occasions: Occasions, urls: tuple[str, ...]) -> bool:
        fault = occasions.fault
        assert isinstance(fault, RequestFault)
        return self._where.network.matches(fault, urls) and occasions.due(self._t)

    def _took(self, occasions: Occasions) -> None:
        occasions.strike()
        self._met(occasions)

    def claim(self) -> bool:
        """Whether the page or browser that was lost just now was ended by a fault; each loss can be claimed once."""
        recent = [entry for entry in self._losses if entry[1] >= self._begun - NOTICED]
        self._losses = recent[1:]
        return bool(recent)

    def met(self) -> tuple[MetFault, ...]:
        """What became of the faults so far, in the order of the file."""
        return tuple(self._tallies[id(each)].record(why_unmet(each, self._armed.step)) for each in self._occasions)

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

    def _met(self, occasions: Occasions) -> None:
        self._tallies[id(occasions)].strike(self._t, self._step)
        if occasions.fault.kind in ENDS_THE_BROWSER:
            self._losses.append((occasions, self._begun))

    async def _route(self) -> None:
        """Requests that are struck inside of the browser are looked at there, from the step that arms them on."""
        for each in self._armed.requests():
            if isinstance(each.fault, RouteFault) and id(each) not in self._routed:
                self._routed.add(id(each))
                await self._strike(each)

    async def _later(self, each: Occasions, delay: float) -> None:
        each.waits = True
        await self._clock.sleep(delay)
        each.waits = False
        with suppress(Failed):  # its tally says so
            await self._strike(each)

    async def _strike(self, each: Occasions) -> None:
        task = asyncio.get_running_loop().create_task(self._done(each))
        self._strikes[task] = each
        task.add_done_callback(self._strikes.pop)
        heal = await asyncio.shield(task)
        if heal is not None and each.fault.lasts is not None:
            self._start(self._heal_after(each, heal, each.fault.lasts))

    async def _done(self, each: Occasions) -> Heal | None:
        strike = Strike(each.fault, each.random, lambda: self._met(each), lambda urls: self._takes(each, urls))
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

    def _hands(self, fault: FaultBase) -> Hands:
        if isinstance(fault, InWorld):
            return self._where.world
        if isinstance(fault, InServices):
            return self._where.services
        if not isinstance(fault, InBrowser | RouteFault):
            return self._where.network
        if self._browser is None:
            raise Failed(Failure("INTERNAL_ERROR", f"fault {fault.kind}: there is no browser yet"))
        return self._browser

    async def _heal_after(self, each: Occasions, heal: Heal, seconds: float) -> None:
        await self._clock.sleep(seconds)
        await self._heal(each, heal)  # one that is broken off here is done again by `close`
        self._standing = [entry for entry in self._standing if entry[1] is not heal]

    async def _heal(self, each: Occasions, heal: Heal) -> None:
        tally = self._tallies[id(each)]
        try:
            await heal()
        except Exception as error:  # noqa: BLE001 - one that cannot be healed must not keep the others from it
            tally.problem = _said(error)
        else:
            tally.heal(self._t)
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
