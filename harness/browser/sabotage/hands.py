"""Chooses who does a fault to the browser."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from itertools import count
from typing import TypeVar

from playwright.async_api import Error as PlaywrightError

from harness.browser.lease import Fleet, Lease
from harness.browser.sabotage import kept, moments, processes
from harness.browser.sabotage.standing import Broken, InDocuments, Offline, Standing, Told
from harness.browser.tab import Tab
from harness.model.ports import Heal, Strike
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock
from harness.spec import faults

T = TypeVar("T")
STRIKE_SECONDS = 2.0
"""How long the browser may take to be struck, or healed; one that is slower, or gone, is left as it is."""
_SHARED = (
    "fault browser_kill: the browser at --task-browser-endpoint is shared with others, who would lose theirs; use a "
    "`playwright run-server --unsafe`, which gives each run its own"
)


class Sabotage:
    """Faults of one session's browser (ports.Hands). May be called while an act is under way.

    A page or browser that is gone, or does not answer, is not struck, and `Strike.met` not called: the step finds out.
    What lasts is laid on whatever takes its place.
    """

    def __init__(self, lease: Lease, fleet: Fleet, clock: Clock) -> None:
        self._lease = lease
        self._fleet = fleet
        self._clock = clock
        self._told = Told()
        self._numbers = count(1)
        self._standing: list[Standing] = []
        lease.on_move = self._move

    async def strike(self, strike: Strike) -> Heal | None:
        """Do it. Raises Failed when it cannot be done at all."""
        tab, chromium = self._lease.tab, self._lease.chromium
        match strike.fault:
            case faults.ElementFault() | faults.AlertOnLoad() | faults.ClockMoved() as fault:
                return await self._stand(InDocuments(strike, f"{fault.kind}-{next(self._numbers)}", self._told))
            case faults.Offline():
                return await self._stand(Offline(strike))
            case faults.Dns() | faults.Abort():
                return await self._stand(Broken(strike))
            case faults.Dialog():
                return await _bounded(moments.dialog(tab, strike))
            case faults.BrowserStop():
                return processes.stop(chromium, strike, self._lease.world)
            case faults.BrowserKill():
                await self._kill(strike)
            case faults.DriverKill():
                self._kill_driver(strike)
            case _:
                await _bounded(self._at_once(tab, strike))
        return None

    async def _at_once(self, tab: Tab, strike: Strike) -> None:
        """What nothing can heal."""
        match strike.fault:
            case faults.PageCrash():
                await moments.crash(tab, strike, self._clock)
            case faults.EndlessLoop():
                await moments.loop(tab, strike)
            case faults.Popup():
                await moments.popup(tab, strike)
            case faults.SessionExpired():
                await kept.expire_session(tab.context, strike)
            case faults.StorageCleared():
                await kept.clear_storage(tab.context, strike)
            case fault:
                raise Failed(Failure("INTERNAL_ERROR", f"fault {fault.kind} is none of the browser"))

    async def _stand(self, standing: Standing) -> Heal:
        self._standing.append(standing)
        try:
            await _bounded(standing.lay(self._lease.tab.context))
        except Failed:
            self._standing.remove(standing)
            raise

        async def heal() -> None:
            if standing in self._standing:  # healed already, in a healing that was broken off
                self._standing.remove(standing)
            await _bounded(standing.lift(self._lease.tab.context))

        return heal

    async def _move(self, tab: Tab) -> None:
        """The session goes on in another context."""
        for standing in self._standing:
            with contextlib.suppress(Failed):  # a page that hung could not tell that the selector is none
                await _bounded(standing.lay(tab.context))

    async def _kill(self, strike: Strike) -> None:
        chromium = self._lease.chromium
        if not chromium.process.killable:
            raise Failed(Failure("BROWSER_ENDPOINT_UNFIT", _SHARED))
        if chromium.alive:
            await chromium.crash(self._lease.world)
            await self._lease.kill()
            strike.met()

    def _kill_driver(self, strike: Strike) -> None:
        if self._fleet.driver_alive:
            self._fleet.kill_driver(self._lease.world)
            strike.met()


async def _bounded(work: Awaitable[T]) -> T | None:
    try:
        async with asyncio.timeout(STRIKE_SECONDS):
            return await work
    except (PlaywrightError, TimeoutError):
        return None
