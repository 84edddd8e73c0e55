"""Faults between browser and site: a gate for every host that is struck."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

from harness.faults.blame import blamed
from harness.faults.gate import Gate, Site, Struck
from harness.faults.pattern import UrlPattern
from harness.faults.refusal import Refusals
from harness.model.ports import Heal, Strike
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock
from harness.spec.faults import Fault, HostFault, Refuse, RequestFault, SocketFault, Tls
from harness.spec.faults.network import TlsProblem

REFUSED = ("ERR_CONNECTION_REFUSED", "ECONNREFUSED")
"""How Chromium and Playwright's own requests name a refused connection."""


class Network:
    """The gates of one task (ports.Hands). Made by `prepare`; `close` must follow."""

    def __init__(self, patterns: Mapping[str, UrlPattern], gates: Mapping[str, Gate], ports: Mapping[str, int]) -> None:
        self._patterns = patterns
        self._gates = gates
        self._ports = ports
        self._refusals = {host: Refusals(gate) for host, gate in gates.items()}
        self._distrusted: list[tuple[str, TlsProblem, Callable[[], None]]] = []

    @property
    def hosts(self) -> dict[str, int]:
        """Host -> port for this task's browser: the gate's, where there is one."""
        return {host: self._gates[host].port if host in self._gates else port for host, port in self._ports.items()}

    def arm(self, struck: Struck) -> None:
        """From now on `struck` says which requests are struck."""
        for gate in self._gates.values():
            gate.struck = struck

    def matches(self, fault: RequestFault, urls: tuple[str, ...]) -> bool:
        """Whether the fault's pattern is that of a request that goes by these URLs."""
        return any(self._patterns[fault.url].matches(url) for url in urls)

    async def strike(self, strike: Strike) -> Heal | None:
        """`refuse`, `tls`."""
        match strike.fault:
            case Refuse() as fault:
                return self._refuse(fault, strike.met)
            case Tls() as fault:
                return self._distrust(fault, strike.met)
            case fault:
                raise Failed(Failure("INTERNAL_ERROR", f"{fault.kind} is no fault of a host"))

    def _refuse(self, fault: Refuse, met: Callable[[], None]) -> Heal | None:
        refusals = self._refusals[fault.host.lower()]
        refusal = refusals.begin(fault.connections, met)
        if fault.connections is not None:
            return None  # it ends with the last of them, or with the gate

        async def heal() -> None:
            self._opening(lambda: refusals.end(refusal))

        return heal

    def _distrust(self, fault: Tls, met: Callable[[], None]) -> Heal:
        host = fault.host.lower()
        entry = (host, fault.problem, met)
        self._distrusted.append(entry)
        self._gates[host].drop_unused()

        async def heal() -> None:
            if entry in self._distrusted:
                self._distrusted.remove(entry)

        return heal

    def tls_problem(self, host: str) -> TlsProblem | None:
        """What the browser's next https connection to the host meets; it meets it now."""
        for named, problem, met in self._distrusted:
            if named == host.lower():
                met()
                return problem
        return None

    def request_failed(self, url: str, error: str) -> None:
        """Called for every request that failed in the browser; `error` is the browser's own word for it."""
        host = (urlsplit(url).hostname or "").lower()
        if host not in self._gates:
            return
        self._gates[host].failed(url)
        if any(name in error for name in REFUSED):
            self._opening(self._refusals[host].count)

    @staticmethod
    def _opening(act: Callable[[], None]) -> None:
        try:
            act()
        except OSError as error:
            message = f"refuse: the port could not be opened again: {error}"
            raise Failed(Failure("INTERNAL_ERROR", message, cause=error)) from error

    async def close(self) -> None:
        """End every gate."""
        await asyncio.gather(*(gate.close() for gate in self._gates.values()), return_exceptions=True)


async def prepare(faults: Sequence[Fault], *, hosts: Mapping[str, int], clock: Clock) -> Network:
    """Open a gate for every host that may be struck. Raises Failed(INVALID_INPUT) for a host that is not known."""
    ports = {host.lower(): port for host, port in hosts.items()}
    patterns = {fault.url: UrlPattern.parse(fault.url) for fault in faults if isinstance(fault, RequestFault)}
    held = [patterns[fault.url] for fault in faults if isinstance(fault, SocketFault)]
    named = {fault.host.lower() for fault in faults if isinstance(fault, HostFault)}
    _refuse_unknown(faults, patterns, ports)
    # Where each request has its own connection, each has its own certificate as well.
    secured = {fault.host.lower() for fault in faults if isinstance(fault, Tls)}
    looked_at = {host for host in ports if any(pattern.may_match(host) for pattern in held)} | secured
    gates = {
        host: Gate(Site(host, port), clock, looks=host in looked_at)
        for host, port in ports.items()
        if host in looked_at or host in named
    }
    for gate in gates.values():
        gate.listen()
    return Network(patterns, gates, ports)


def _refuse_unknown(faults: Sequence[Fault], patterns: Mapping[str, UrlPattern], ports: Mapping[str, int]) -> None:
    unknown: list[HostFault | SocketFault] = [
        fault for fault in faults if isinstance(fault, HostFault) and fault.host.lower() not in ports
    ]
    unknown += [
        fault
        for fault in faults
        if isinstance(fault, SocketFault) and not any(patterns[fault.url].may_match(host) for host in ports)
    ]
    if unknown:
        known, name = ", ".join(sorted(ports)) or "none", unknown[0].target
        message = f"a fault names {name!r}, which is no host of [tool.harness.services]; known hosts: {known}"
        raise blamed(Failed(Failure("INVALID_INPUT", message)), unknown[0])
