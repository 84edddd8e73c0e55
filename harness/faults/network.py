"""Faults between browser and site: a gate for every host that is struck."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from harness.faults.answers import ADDRESS, FaultedExchange, answer
from harness.faults.http import END, RequestHead, Stream, UrlPattern, plain
from harness.model.ports import Injection, Undo
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock
from harness.spec.faults import Fault, FaultBase, Hang, HostFault, Refuse, RequestFault, Reset, SocketFault, Tls
from harness.spec.faults.network import TlsProblem

# A fault that cannot be: what is to be mended is the fault, and not the step that it was to strike.


def blamed(failed: Failed, fault: FaultBase) -> Failed:
    """The same; of an invalid fault it says which one is to be mended, and where that stands."""
    failure = failed.failure
    if failure.code != "INVALID_INPUT" or failure.advice:
        return failed
    where = fault.source or "injected from Python"
    advice = f"Mend the fault `{fault.kind}` ({where}), not the step, as the message says."
    return Failed(replace(failure, advice=advice))


# A gate between the browser and one host: its port can be closed and opened, its requests struck.

BACKLOG = 512

Struck = Callable[[tuple[str, ...]], SocketFault | None]
"""The URLs a request goes by -> the fault that strikes it, None to let it pass."""


@dataclass(frozen=True, slots=True)
class Site:
    """What a gate stands before: the host's name and its real port."""

    host: str
    port: int


class FaultGate:
    """Listens on a port of its own, which stays the same. One that `looks` reads every request's head."""

    def __init__(self, site: Site, clock: Clock, *, looks: bool = False) -> None:
        self._site = site
        self._clock = clock
        self._looks = looks
        self.struck: Struck = lambda _: None
        self._socket: socket.socket | None = _bind(0)
        self._open = False
        self._ended = False
        self._connections: set[asyncio.Task[None]] = set()
        self._unused: set[asyncio.Task[None]] = set()
        self._resends = Resends()
        self.port: int = self._socket.getsockname()[1]

    def listen(self) -> None:
        """Open the port, unless the gate was closed for good. All of a gate must run on the loop's thread."""
        if self._open or self._ended:
            return
        self._socket = self._socket or _bind(self.port)
        self._socket.listen(BACKLOG)
        asyncio.get_running_loop().add_reader(self._socket, self._accept, self._socket)
        self._open = True

    def refuse(self) -> None:
        """Close the port, so that the kernel itself refuses; connections that stand are dropped."""
        self._shut()
        if sys.platform == "linux":
            # Bound and not listening, the port refuses, and nobody else can be given it meanwhile. Other kernels
            # may leave a connection to such a port without an answer.
            self._socket = _bind(self.port)
        for task in self._connections:
            task.cancel()

    def drop_unused(self) -> None:
        """End the connections on which no request has come yet: the next request comes on a new one."""
        for task in self._unused:
            task.cancel()

    def failed(self, url: str) -> None:
        """The browser has learnt that a request to this host failed."""
        self._resends.failed(url)

    async def close(self) -> None:
        """End everything, for good."""
        self._ended = True
        self._shut()
        tasks = tuple(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _shut(self) -> None:
        if self._socket is None:
            return
        if self._open:
            asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket, self._open = None, False

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:  # the client was gone before its turn
            return
        connection.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._serve(connection, self._clock.now()))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        # Also for a task that was cancelled before its first line ran.
        task.add_done_callback(lambda _: connection.close())

    async def _serve(self, connection: socket.socket, since: float) -> None:
        with contextlib.suppress(OSError):
            client = await Stream.of(connection)
            try:
                if self._looks:
                    await self._examine(client, since)
                else:
                    await answer(None, FaultedExchange(client, self._site.port, b""), self._clock)
            finally:
                client.drop()

    async def _examine(self, client: Stream, since: float) -> None:
        """Read the head of the request on a connection accepted at `since`; strike the request, or pass it on."""
        raw = await self._first(client)
        head, end, rest = raw.partition(END)
        request = RequestHead.parse(head) if end else None
        if request is None:
            await answer(None, FaultedExchange(client, self._site.port, raw), self._clock)
            return
        urls, stood = request.urls(self._site.host), self._clock.now() - since
        fault = self._resends.again(head, self._clock.now()) or self.struck(urls)

        def breaks() -> None:
            if fault is not None and stood >= FRESH:
                self._resends.remember(head, urls, fault, self._clock.now())

        first = raw if request.upgrade else request.closing() + rest
        await answer(fault, FaultedExchange(client, self._site.port, first, request, breaks), self._clock)

    async def _first(self, client: Stream) -> bytes:
        task = asyncio.current_task()
        assert task is not None
        self._unused.add(task)
        try:
            return await client.read_head()
        finally:
            self._unused.discard(task)


def _bind(port: int) -> socket.socket:
    # Only where the protocol is named, asyncio sets TCP_NODELAY on what is accepted: without it, 40 ms are lost.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setblocking(False)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((ADDRESS, port))
    except OSError:
        bound.close()
        raise
    return bound


# The `refuse` faults of one host: its gate is closed as long as one of them lasts.


@dataclass(eq=False)
class Refusal:
    """One that is on. `left` counts the connections still to be refused; None: it ends by time."""

    left: int | None
    met: Callable[[], None]
    """Told of each connection that was refused."""


@dataclass
class Refusals:
    """Opens and closes one gate. `listen` of the gate raises OSError when its port was taken meanwhile."""

    gate: FaultGate
    active: list[Refusal] = field(default_factory=list)

    def begin(self, connections: int | None, met: Callable[[], None]) -> Refusal:
        refusal = Refusal(connections, met)
        self.active.append(refusal)
        self.gate.refuse()
        return refusal

    def end(self, refusal: Refusal) -> None:
        """The gate opens again when this was the last one."""
        if refusal in self.active:
            self.active.remove(refusal)
        if not self.active:
            self.gate.listen()

    def count(self) -> None:
        """A connection was refused: the oldest that counts has one less to come; else one by time met it."""
        counting = [refusal for refusal in self.active if refusal.left is not None]
        for refusal in (*counting, *self.active)[:1]:
            refusal.met()
            if refusal.left is not None:
                refusal.left -= 1
                if refusal.left == 0:
                    self.end(refusal)


# Requests that the browser itself sends again after a fault.

FRESH = 0.01
"""Seconds; a request that came so soon was sent over a connection that was opened for it."""
WITHIN = 1.0
"""Seconds in which a request is sent again, if at all."""


@dataclass(frozen=True, slots=True)
class _Broken:
    """A request that was ended without a byte."""

    urls: frozenset[str]
    fault: SocketFault
    t: float


@dataclass
class Resends:
    """A connection may stand open before there is a request for it. When one breaks without a byte of an answer,
    Chromium takes it for outdated, and sends the request again over a new one: nobody above learns of the fault.

    So the same request, coming again before the browser said that it failed, is struck again and not counted again.
    """

    _broken: dict[bytes, _Broken] = field(default_factory=dict)

    def remember(self, head: bytes, urls: Iterable[str], fault: SocketFault, t: float) -> None:
        """A request that came over a connection which was no fresh one ends without a byte at `t`."""
        kept = {each: broken for each, broken in self._broken.items() if t <= broken.t + WITHIN}
        self._broken = kept | {head: _Broken(frozenset(urls), _once_more(fault), t)}

    def again(self, head: bytes, t: float) -> SocketFault | None:
        """What strikes the request when it is one that the browser sends again."""
        broken = self._broken.get(head)
        return broken.fault if broken and t <= broken.t + WITHIN else None

    def failed(self, url: str) -> None:
        """The browser has learnt that a request failed: what comes now is a new one."""
        gone = plain(url.partition("#")[0])
        self._broken = {head: broken for head, broken in self._broken.items() if gone not in broken.urls}


def _once_more(fault: SocketFault) -> SocketFault:
    """At once, and the site gets no request twice."""
    match fault:
        case Hang():
            return fault.model_copy(update={"seconds": 0.0})
        case Reset():
            return fault.model_copy(update={"commit": False})
        case _:
            return fault


REFUSED = ("ERR_CONNECTION_REFUSED", "ECONNREFUSED")
"""How Chromium and Playwright's own requests name a refused connection."""


class Network:
    """The gates of one task (ports.FaultTarget). Made by `prepare`; `close` must follow."""

    def __init__(
        self, patterns: Mapping[str, UrlPattern], gates: Mapping[str, FaultGate], ports: Mapping[str, int]
    ) -> None:
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

    async def strike(self, strike: Injection) -> Undo | None:
        """`refuse`, `tls`."""
        match strike.fault:
            case Refuse() as fault:
                return self._refuse(fault, strike.met)
            case Tls() as fault:
                return self._distrust(fault, strike.met)
            case fault:
                raise Failed(Failure("INTERNAL_ERROR", f"{fault.kind} is no fault of a host"))

    def _refuse(self, fault: Refuse, met: Callable[[], None]) -> Undo | None:
        refusals = self._refusals[fault.host.lower()]
        refusal = refusals.begin(fault.connections, met)
        if fault.connections is not None:
            return None  # it ends with the last of them, or with the gate

        async def heal() -> None:
            self._opening(lambda: refusals.end(refusal))

        return heal

    def _distrust(self, fault: Tls, met: Callable[[], None]) -> Undo:
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
        message = f"a fault names {name!r}, which is no host of [tool.harness.services]; known hosts: {known}"
        raise blamed(Failed(Failure("INVALID_INPUT", message)), unknown[0])
