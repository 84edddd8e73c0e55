"""Arms the declared faults before their steps, and heals them (refuse, hang, delayed_state)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from harness.failure import Failed, Failure
from harness.faults.gate import Gate, Site
from harness.faults.hanging import Hanging
from harness.faults.refusal import Refusal, Refusals
from harness.resilience import Clock
from harness.spec.faults import DelayedState, Fault, Hang, Refuse

Write = Callable[[str, str, Any], Awaitable[None]]
"""(channel, path, value): puts a value into an environment channel; raises Failed."""

REFUSED = ("ERR_CONNECTION_REFUSED", "ECONNREFUSED")
"""How Chromium and Playwright's own requests name a refused connection."""


async def prepare(faults: Sequence[Fault], *, hosts: Mapping[str, int], write: Write, clock: Clock) -> FaultInjector:
    """Open a gate for every host that refuses or hangs. Raises Failed(INVALID_INPUT) for a host that is not known."""
    ports = {host.lower(): port for host, port in hosts.items()}
    hanging = [Hanging(fault) for fault in faults if isinstance(fault, Hang)]
    held = {host: [each for each in hanging if each.pattern.may_match(host)] for host in ports}
    _refuse_unknown(faults, hanging, ports)
    refused = {fault.host.lower() for fault in faults if isinstance(fault, Refuse)}
    gates = {
        host: Gate(Site(host, port), clock, _holder(held[host]))
        for host, port in ports.items()
        if held[host] or host in refused
    }
    for gate in gates.values():
        gate.listen()
    return FaultInjector(faults, hanging, gates, ports, write=write, clock=clock)


class FaultInjector:
    """The faults of one task. Made by `prepare`; `close` must follow. All on the loop's thread."""

    def __init__(
        self,
        faults: Sequence[Fault],
        hanging: Sequence[Hanging],
        gates: Mapping[str, Gate],
        ports: Mapping[str, int],
        *,
        write: Write,
        clock: Clock,
    ) -> None:
        self.problems: list[Failure] = []
        """What went wrong in the background, e.g. a late value that could not be written."""
        self._waiting = list(faults)
        self._hanging = hanging
        self._refusals = {host: Refusals(gate) for host, gate in gates.items()}
        self._gates = gates
        self._ports = ports
        self._write = write
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def hosts(self) -> dict[str, int]:
        """Host -> port for this task's browser: the gate's, where there is one."""
        return {host: self._gates[host].port if host in self._gates else port for host, port in self._ports.items()}

    async def before_step(self, index: int) -> None:
        """Arm the faults whose step has come; each is armed once, however often its step is repeated.

        Raises Failed when a value that is due at once cannot be written.
        """
        due = [fault for fault in self._waiting if fault.step <= index]
        self._waiting = [fault for fault in self._waiting if fault.step > index]
        for fault in due:
            await self._arm(fault)

    def request_failed(self, url: str, error: str) -> None:
        """Called for every request that failed in the browser; `error` is the browser's own word for it."""
        refusals = self._refusals.get((urlsplit(url).hostname or "").lower())
        if refusals is not None and any(name in error for name in REFUSED):
            self._opening(refusals.count)

    async def close(self) -> None:
        """Heal everything. Never raises; `problems` is complete afterwards."""
        self._waiting = []
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(gate.close() for gate in self._gates.values()), return_exceptions=True)

    async def _arm(self, fault: Fault) -> None:
        match fault:
            case Refuse():
                self._refuse(fault)
            case Hang():
                for each in self._hanging:
                    each.armed = each.armed or each.fault is fault
            case DelayedState():
                await self._delay(fault)

    def _refuse(self, fault: Refuse) -> None:
        refusals = self._refusals[fault.host.lower()]
        refusal = refusals.begin(fault.connections)
        if fault.seconds is not None:
            self._start(self._heal(refusals, refusal, fault.seconds))

    async def _heal(self, refusals: Refusals, refusal: Refusal, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._opening(lambda: refusals.end(refusal))

    def _opening(self, act: Callable[[], None]) -> None:
        try:
            act()
        except OSError as error:
            self.problems.append(Failure("INTERNAL_ERROR", f"refuse: the port could not be opened again: {error}"))

    async def _delay(self, fault: DelayedState) -> None:
        if fault.seconds == 0:
            await self._write(fault.channel, fault.path, fault.value)
            return
        if fault.meanwhile is not None:
            await self._write(fault.channel, fault.path, fault.meanwhile)
        self._start(self._arrive(fault))

    async def _arrive(self, fault: DelayedState) -> None:
        await self._clock.sleep(fault.seconds)
        try:
            await self._write(fault.channel, fault.path, fault.value)
        except Failed as error:
            self.problems.append(error.failure)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _holder(hanging: Sequence[Hanging]) -> Callable[[tuple[str, ...]], float | None] | None:
    """How long a request is held; None for a host where nothing hangs, whose requests need no look."""
    if not hanging:
        return None
    return lambda urls: next((each.fault.seconds for each in hanging if each.takes(urls)), None)


def _refuse_unknown(faults: Sequence[Fault], hanging: Sequence[Hanging], ports: Mapping[str, int]) -> None:
    unknown = [fault.host for fault in faults if isinstance(fault, Refuse) and fault.host.lower() not in ports]
    unknown += [each.fault.url for each in hanging if not any(each.pattern.may_match(host) for host in ports)]
    if unknown:
        known = ", ".join(sorted(ports)) or "none"
        message = f"a fault names {unknown[0]!r}, which is no host of [tool.harness.services]; known hosts: {known}"
        raise Failed(Failure("INVALID_INPUT", message))
