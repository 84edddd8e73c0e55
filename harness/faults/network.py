"""Faults between browser and site: each affected host gets a gate."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from msgspec import Struct

from harness.faults.answers import END, FaultedExchange, RequestHead, answer, read_head
from harness.model.ports import Injection, Undo
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock
from harness.resilience.streams import BACKLOG, Stream, accept, bound
from harness.spec.faults import Fault, FaultBase, Hang, HostFault, Refuse, RequestFault, Reset, SocketFault, Tls
from harness.spec.faults.network import TlsProblem
from harness.spec.url_patterns import UrlPattern, plain
from harness.values import replace

# A fault that cannot be injected: the error is in the fault, not in the step that it was to strike.


def name_fault(failed: Failed, fault: FaultBase) -> Failed:
    """The same failure; for an invalid fault it also names the fault and its place."""
    failure = failed.failure
    if failure.code != "INVALID_INPUT" or failure.advice:
        return failed
    where = fault.source or "injected from Python"
    advice = f"Fix the fault `{fault.kind}` ({where}) as the message says; the step is not wrong."
    return Failed(replace(failure, advice=advice))


# A gate between the browser and one host: it can close and open its port, and strike requests.

Struck = Callable[[tuple[str, ...]], SocketFault | None]
"""The URLs of a request -> the fault that strikes it, or None to let it pass."""


class Site(Struct, frozen=True):
    """The site behind a gate: the host's name and its real port."""

    host: str
    port: int


class FaultGate:
    """Listens on a port of its own, which never changes. With `looks` it reads every request's head."""

    def __init__(self, site: Site, clock: Clock, *, looks: bool = False) -> None:
        self._site = site
        self._clock = clock
        self._looks = looks
        self.struck: Struck = lambda _: None
        self._socket: socket.socket | None = bound()
        self._open = False
        self._ended = False
        self.connections: set[asyncio.Task[None]] = set()
        """One task for each open connection."""
        self.unused: set[asyncio.Task[None]] = set()
        """The `connections` that have no request yet."""
        self._resends = Resends()
        self.port: int = self._socket.getsockname()[1]

    def listen(self) -> None:
        """Open the port, unless the gate was closed for good. All of a gate must run on the loop's thread."""
        if self._open or self._ended:
            return
        self._socket = self._socket or bound(self.port)
        self._socket.listen(BACKLOG)
        asyncio.get_running_loop().add_reader(
            self._socket, accept, self._socket, lambda made: self._serve(made, self._clock.now()), self.connections
        )
        self._open = True

    def refuse(self) -> None:
        """Close the port, so that the kernel itself refuses; open connections are dropped."""
        self._close_port()
        if sys.platform == "linux":
            # A port that is bound and not listening refuses connections, and no other program can take it meanwhile.
            # Other kernels may leave a connection to such a port without an answer.
            self._socket = bound(self.port)
        for task in self.connections:
            task.cancel()

    def drop_unused(self) -> None:
        """Close the connections without a request yet, so that the next request comes on a new one."""
        for task in self.unused:
            task.cancel()

    def failed(self, url: str) -> None:
        """The browser has reported that a request to this host failed."""
        self._resends.failed(url)

    async def close(self) -> None:
        """Close everything for good."""
        self._ended = True
        self._close_port()
        tasks = tuple(self.connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _close_port(self) -> None:
        if self._socket is None:
            return
        if self._open:
            asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket, self._open = None, False

    async def _serve(self, connection: socket.socket, since: float) -> None:
        with contextlib.suppress(OSError):
            client = Stream(*await asyncio.open_connection(sock=connection))
            try:
                if self._looks:
                    await self._examine(client, since)
                else:
                    await answer(None, FaultedExchange(client, self._site.port, b""), self._clock)
            finally:
                client.drop()

    async def _examine(self, client: Stream, since: float) -> None:
        """Read the head of the request on a connection accepted at `since`; strike the request, or pass it on."""
        raw = await self._read_first_head(client)
        head, end, rest = raw.partition(END)
        request = RequestHead.parse(head) if end else None
        if request is None:
            await answer(None, FaultedExchange(client, self._site.port, raw), self._clock)
            return
        urls, stood = request.urls(self._site.host), self._clock.now() - since
        fault = self._resends.fault_for_repeat(head, self._clock.now()) or self.struck(urls)

        def breaks() -> None:
            if fault is not None and stood >= _FRESH:
                self._resends.remember(head, urls, fault, self._clock.now())

        first = raw if request.upgrade else request.closing() + rest
        await answer(fault, FaultedExchange(client, self._site.port, first, request, breaks), self._clock)

    async def _read_first_head(self, client: Stream) -> bytes:
        task = asyncio.current_task()
        assert task is not None
        self.unused.add(task)
        try:
            return await read_head(client)
        finally:
            self.unused.discard(task)


# The `refuse` faults of one host: its gate is closed as long as one of them lasts.


@dataclass(eq=False)
class Refusal:
    """A running refusal. `left` counts the connections still to be refused; None: it ends by time."""

    left: int | None
    met: Callable[[], None]
    """Called for each connection that was refused."""


@dataclass
class Refusals:
    """Opens and closes one gate. The gate's `listen` raises OSError if its port was taken meanwhile."""

    gate: FaultGate
    active: list[Refusal] = field(default_factory=list)

    def begin(self, connections: int | None, met: Callable[[], None]) -> Refusal:
        refusal = Refusal(connections, met)
        self.active.append(refusal)
        self.gate.refuse()
        return refusal

    def end(self, refusal: Refusal) -> None:
        """End a refusal; after the last one the gate opens again."""
        if refusal in self.active:
            self.active.remove(refusal)
        if not self.active:
            self.gate.listen()

    def count(self) -> None:
        """Count a refused connection for the oldest refusal that counts, else for one that ends by time."""
        counting = [refusal for refusal in self.active if refusal.left is not None]
        for refusal in (*counting, *self.active)[:1]:
            refusal.met()
            if refusal.left is not None:
                refusal.left -= 1
                if refusal.left == 0:
                    self.end(refusal)


# Requests that the browser itself repeats after a fault.

_FRESH = 0.01
"""Seconds; a request within this time was sent over a connection that was opened for it."""
WITHIN = 1.0
"""Seconds within which a request is repeated, if at all."""


class _Broken(Struct, frozen=True):
    """A request that was ended without a byte."""

    urls: frozenset[str]
    fault: SocketFault
    t: float


@dataclass
class Resends:
    """Recognizes requests that Chromium repeats by itself.

    A connection may be open before there is a request for it. If one breaks without a byte of an answer, Chromium takes
    it for outdated, and sends the request again over a new one: nothing above learns of the fault. So if the same
    request comes again before the browser has reported a failure, it is struck again and not counted again.
    """

    _broken: dict[bytes, _Broken] = field(default_factory=dict)

    def remember(self, head: bytes, urls: Iterable[str], fault: SocketFault, t: float) -> None:
        """Remember a request that came over a connection which was not new and that ends without a byte at `t`."""
        kept = {each: broken for each, broken in self._broken.items() if t <= broken.t + WITHIN}
        self._broken = kept | {head: _Broken(frozenset(urls), _once_more(fault), t)}

    def fault_for_repeat(self, head: bytes, t: float) -> SocketFault | None:
        """The fault for a request that the browser repeats; None for a new request."""
        broken = self._broken.get(head)
        return broken.fault if broken and t <= broken.t + WITHIN else None

    def failed(self, url: str) -> None:
        """The browser has reported that a request failed, so a later one is new."""
        gone = plain(url.partition("#")[0])
        self._broken = {head: broken for head, broken in self._broken.items() if gone not in broken.urls}


def _once_more(fault: SocketFault) -> SocketFault:
    """The fault for a repetition: it acts at once, and the site gets no request twice."""
    match fault:
        case Hang():
            return fault.model_copy(update={"seconds": 0.0})
        case Reset():
            return fault.model_copy(update={"commit": False})
        case _:
            return fault


REFUSED = ("ERR_CONNECTION_REFUSED", "ECONNREFUSED")
"""The names that Chromium and Playwright's own requests give to a refused connection."""


class Network:
    """The gates of one task (ports.FaultTarget). `prepare` makes it; `close` must follow."""

    def __init__(
        self, patterns: Mapping[str, UrlPattern], gates: Mapping[str, FaultGate], ports: Mapping[str, int]
    ) -> None:
        self._patterns = patterns
        self.gates = gates
        """Host name -> its gate."""
        self._ports = ports
        self._refusals = {host: Refusals(gate) for host, gate in gates.items()}
        self._distrusted: list[tuple[str, TlsProblem, Callable[[], None]]] = []

    @property
    def hosts(self) -> dict[str, int]:
        """Host -> port for this task's browser: the gate's, if there is one."""
        return {host: self.gates[host].port if host in self.gates else port for host, port in self._ports.items()}

    def arm(self, struck: Struck) -> None:
        """Set the function that decides which requests are struck."""
        for gate in self.gates.values():
            gate.struck = struck

    def matches(self, fault: RequestFault, urls: tuple[str, ...]) -> bool:
        """Return whether the fault's pattern matches a request with these URLs."""
        return any(self._patterns[fault.url].matches(plain(url)) for url in urls)

    async def strike(self, strike: Injection) -> Undo | None:
        """Inject `refuse` or `tls`."""
        match strike.fault:
            case Refuse() as fault:
                return self._refuse(fault, strike.met)
            case Tls() as fault:
                return self._distrust(fault, strike.met)
            case fault:
                raise Failed(Failure("INTERNAL_ERROR", f"{fault.kind} is not a fault of a host"))

    def _refuse(self, fault: Refuse, met: Callable[[], None]) -> Undo | None:
        refusals = self._refusals[fault.host.lower()]
        refusal = refusals.begin(fault.connections, met)
        if fault.connections is not None:
            return None  # the fault ends with the last connection, or with the gate

        async def heal() -> None:
            self._opening(lambda: refusals.end(refusal))

        return heal

    def _distrust(self, fault: Tls, met: Callable[[], None]) -> Undo:
        host = fault.host.lower()
        entry = (host, fault.problem, met)
        self._distrusted.append(entry)
        self.gates[host].drop_unused()

        async def heal() -> None:
            if entry in self._distrusted:
                self._distrusted.remove(entry)

        return heal

    def tls_problem(self, host: str) -> TlsProblem | None:
        """The TLS fault of the browser's next https connection to the host; it counts as met."""
        for named, problem, met in self._distrusted:
            if named == host.lower():
                met()
                return problem
        return None

    def request_failed(self, url: str, error: str) -> None:
        """Called for every request that failed in the browser; `error` is the browser's name of the error."""
        host = (urlsplit(url).hostname or "").lower()
        if host not in self.gates:
            return
        self.gates[host].failed(url)
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
        await asyncio.gather(*(gate.close() for gate in self.gates.values()), return_exceptions=True)


async def prepare(faults: Sequence[Fault], *, hosts: Mapping[str, int], clock: Clock) -> Network:
    """Open a gate for every host that may be struck. Raises Failed(INVALID_INPUT) for an unknown host."""
    ports = {host.lower(): port for host, port in hosts.items()}
    patterns = {fault.url: UrlPattern.parse(fault.url) for fault in faults if isinstance(fault, RequestFault)}
    held = [patterns[fault.url] for fault in faults if isinstance(fault, SocketFault)]
    named = {fault.host.lower() for fault in faults if isinstance(fault, HostFault)}
    _refuse_unknown(faults, patterns, ports)
    # Each request has its own connection, so each also has its own certificate.
    secured = {fault.host.lower() for fault in faults if isinstance(fault, Tls)}
    looked_at = {host for host in ports if any(pattern.may_match(host) for pattern in held)} | secured
    gates = {
        host: FaultGate(Site(host, port), clock, looks=host in looked_at)
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
        message = f"a fault names {name!r}, which is not a host of [tool.harness.services]; known hosts: {known}"
        raise name_fault(Failed(Failure("INVALID_INPUT", message)), unknown[0])
