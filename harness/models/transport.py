"""The transport below the providers' clients: the task's hosts, recordings, and faults of models.

It stands below the real client, so a recorded answer is parsed as one that came over the network.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol, runtime_checkable

import httpx2
from msgspec import Struct

from harness.models.canonical import CanonicalRequest, Redact, between_runs, canonical, translate_answer
from harness.models.cassettes import KEPT_HEADERS, Cassette
from harness.models.exchange import Exchange, current
from harness.models.spoiled import INVENTED, invented
from harness.models.verdicts import TooLongError
from harness.resilience import Clock, SystemClock
from harness.spec.faults import (
    Empty,
    Garbage,
    Hang,
    ModelCut,
    ModelFault,
    ModelSlowFirstToken,
    ModelStall,
    Reset,
    Slow,
    SocketFault,
    Status,
    Truncate,
)
from harness.spec.url_patterns import plain

_LOOPBACK = "127.0.0.1"
LONGEST = 20 * 1024 * 1024
"""Bytes of an answer that are read."""
_SHOWN = 200
"""Bytes of an answer that a message shows."""
Hosts = Callable[[], Mapping[str, int]]
"""Host name, in lower case -> port on 127.0.0.1, as the task's requests find it; read for each request."""


@runtime_checkable
class StrikesModels(Protocol):
    """The faults of a task, as they strike its requests to models (`faults.injector.FaultInjector`)."""

    def strike_model(self, model: str, step: int) -> ModelFault | None:
        """Count a request to the model of that name, for the choice of a step; return the fault that strikes it."""

    def strike_request(self, urls: tuple[str, ...]) -> SocketFault | None:
        """Count a request that no gate sees; return the fault of the network that strikes it."""

    def broken(self, urls: tuple[str, ...]) -> int:
        """The number of requests with these URLs whose answers faults have spoiled so far."""

    def refused(self, url: str) -> None:
        """Count a connection that was refused, for the faults that last for a number of them."""


class NoModelFaults:
    """The faults of a task without any: nothing is struck, and nothing counted."""

    def strike_model(self, model: str, step: int) -> ModelFault | None: ...
    def strike_request(self, urls: tuple[str, ...]) -> SocketFault | None: ...
    def broken(self, urls: tuple[str, ...]) -> int:  # noqa: ARG002
        return 0

    def refused(self, url: str) -> None: ...


class Way(Struct, frozen=True):
    """What lies between the requests of one task's agent and the providers."""

    cassette: Cassette | None = None
    faults: StrikesModels = NoModelFaults()
    ignore: tuple[re.Pattern[str], ...] = ()
    """What differs between two runs of the same request."""
    redact: Redact = str
    clock: Clock = SystemClock()


Ways = Callable[[str], Way]
"""The name of an agent -> its way. Raises CassetteError if its recordings cannot be read."""


def straight(_agent: str) -> Way:
    """The way without recordings and faults."""
    return Way()


class TaskTransport(httpx2.AsyncBaseTransport):
    """The way of one task's requests to models. It closes nothing: `inner` belongs to the run."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, hosts: Hosts, ways: Ways = straight) -> None:
        """`ways` returns the way of an agent's requests, by its name."""
        self._inner = inner
        self._hosts = hosts
        self._ways = ways

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer the request: by a fault, a recording, or the provider. Raises CassetteMissError if none may.

        A request to a host of the project's services goes to its port, with its name as `Host`.
        """
        now = current.get() or Exchange("", "", lambda: 0.0, 0.0, 0)  # of a request that no agent makes
        way = self._ways(now.agent)
        request.headers["accept-encoding"] = "identity"  # a recording is text
        body = await request.aread()
        fault = way.faults.strike_model(now.model, now.step)
        if isinstance(fault, INVENTED):
            made = invented(fault, request.url.path, body)
            return _response(request, made.status, {"content-type": made.content_type}, _one(made.body))
        if isinstance(fault, ModelSlowFirstToken):
            await way.clock.sleep(fault.seconds)
        answer = await self._answer(request, body, now, way)
        if isinstance(fault, ModelStall | ModelCut):
            return await _spoiled(fault, answer, way.clock)
        return answer.response(answer.whole())

    async def _answer(self, request: httpx2.Request, body: bytes, now: Exchange, way: Way) -> _Answer:
        cassette = way.cassette
        if cassette is None:
            return _Answer(request, await self._send(request, way), lambda _: None, now)
        asked = canonical(now.model, request.method, request.url.path, body, way.ignore, way.redact)
        found = cassette.find(asked)
        if found is None:
            return await self._recorded(request, cassette, asked, way, now)
        now.replayed, now.recording = True, found.key
        text = translate_answer(found.body, between_runs(found.refs, asked.refs))
        replayed = _response(request, found.status, found.headers, _one(text.encode()))
        fault = way.faults.strike_request(_urls(request))
        if fault is not None:
            replayed = await _struck(fault, request, replayed, way.clock)
        # An answer that a fault has spoiled does not count: the next request gets the recorded one.
        whole = fault is None or isinstance(fault, Slow)
        return _Answer(request, replayed, lambda _: cassette.count(found) if whole else None, now)

    async def _recorded(
        self, request: httpx2.Request, cassette: Cassette, asked: CanonicalRequest, way: Way, now: Exchange
    ) -> _Answer:
        """The provider's answer, which is kept once it has arrived in full, unless a fault has spoiled it."""
        urls, began = _urls(request), way.clock.now()
        before = way.faults.broken(urls)
        answer = await self._send(request, way)

        def finish(body: bytes) -> None:
            if way.faults.broken(urls) == before:
                headers = {name: way.redact(answer.headers[name]) for name in KEPT_HEADERS if name in answer.headers}
                text, ms = way.redact(body.decode("utf-8", "replace")), round((way.clock.now() - began) * 1000)
                now.recording = cassette.add(asked, answer.status_code, headers, text, ms).key

        return _Answer(request, answer, finish, now)

    async def _send(self, request: httpx2.Request, way: Way) -> httpx2.Response:
        url = str(request.url)
        port = self._hosts().get(request.url.host.lower())
        if port is not None:
            request.url = request.url.copy_with(scheme="http", host=_LOOPBACK, port=port)
        try:
            return await self._inner.handle_async_request(request)
        except httpx2.ConnectError:
            way.faults.refused(url)
            raise


async def _spoiled(fault: ModelStall | ModelCut, answer: _Answer, clock: Clock) -> httpx2.Response:
    """The beginning of the answer; after a silence the rest, too."""
    body = b"".join([chunk async for chunk in answer.chunks()])
    first, rest = split(body)

    async def parts() -> AsyncIterator[bytes]:
        yield first
        if isinstance(fault, ModelStall):
            await clock.sleep(fault.seconds)
            yield rest
            answer.finish(body)

    return answer.response(parts())


class _Answer(Struct, frozen=True):
    """An answer on its way to the client; `finish` is called with its body once that has arrived in full."""

    request: httpx2.Request
    inner: httpx2.Response
    finish: Callable[[bytes], None]
    exchange: Exchange

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body. Raises TooLongError for one that is larger than any answer of a model."""
        stream, seen, size = self.inner.stream, self.exchange, 0
        assert isinstance(stream, httpx2.AsyncByteStream)
        headers = (self.inner.headers.get(name) for name in ("content-type", "location"))
        seen.head = " ".join((str(self.inner.status_code), *filter(None, headers)))
        seen.beginning = b""
        try:
            async for chunk in stream:
                size += len(chunk)
                if size > LONGEST:
                    raise TooLongError(f"the answer has more than {LONGEST} bytes", request=self.request)
                if len(seen.beginning) < _SHOWN:
                    seen.beginning = (seen.beginning + chunk)[:_SHOWN]
                yield chunk
        finally:
            await stream.aclose()

    async def whole(self) -> AsyncIterator[bytes]:
        """All of it; a client that has read the last event of a stream may stop before its end."""
        parts: list[bytes] = []
        try:
            async for chunk in self.chunks():
                parts.append(chunk)
                yield chunk
        except GeneratorExit:
            if ends(body := b"".join(parts)):
                self.finish(body)
            raise
        self.finish(b"".join(parts))

    def response(self, content: AsyncIterator[bytes]) -> httpx2.Response:
        lost = ("content-length", "transfer-encoding")  # the stream may become shorter
        headers = {name: value for name, value in self.inner.headers.items() if name not in lost}
        return _response(self.request, self.inner.status_code, headers, content)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, content: AsyncIterator[bytes]) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._content:
            yield chunk

    async def aclose(self) -> None:
        if (close := getattr(self._content, "aclose", None)) is not None:
            await close()


def _response(
    request: httpx2.Request, status: int, headers: Mapping[str, str], content: AsyncIterator[bytes]
) -> httpx2.Response:
    return httpx2.Response(status, headers=headers, stream=_Body(content), request=request)


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _urls(request: httpx2.Request) -> tuple[str, ...]:
    return (plain(str(request.url)),)


_ENDS = (b"data: [DONE]", b"event: message_stop", b"event: response.completed", b"event: response.incomplete")
"""What the last event of a provider's stream contains."""


def ends(body: bytes) -> bool:
    """Return whether a stream has had its last event."""
    return any(end in body[-100_000:] for end in _ENDS)


def split(body: bytes) -> tuple[bytes, bytes]:
    """An answer in two parts: a stream between two of its first events, anything else in its middle."""
    events = body.split(b"\n\n")
    if len(events) < 3:
        return body[: len(body) // 2], body[len(body) // 2 :]
    first = b"\n\n".join(events[: max(1, len(events) // 3)]) + b"\n\n"
    return first, body[len(first) :]


# A fault of the network that strikes a request which a recording answers: there is no connection that it could strike.


async def _struck(
    fault: SocketFault, request: httpx2.Request, answer: httpx2.Response, clock: Clock
) -> httpx2.Response:
    match fault:
        case Slow(seconds=seconds):
            await clock.sleep(seconds)
            return answer
        case Status():
            headers = {} if fault.retry_after is None else {"retry-after": f"{fault.retry_after:g}"}
            return _response(request, fault.status, headers, _one(fault.body.encode()))
        case Truncate():
            return _response(request, answer.status_code, answer.headers, _broken(answer, fault.bytes))
        case Hang(seconds=seconds):
            await clock.sleep(seconds)
            raise httpx2.RemoteProtocolError("Server disconnected without sending a response.", request=request)
        case Empty() | Garbage():
            raise httpx2.RemoteProtocolError("Server disconnected without sending a response.", request=request)
        case Reset():
            raise httpx2.ReadError("Connection reset by peer", request=request)


async def _broken(answer: httpx2.Response, most: int) -> AsyncIterator[bytes]:
    body = await answer.aread()
    yield body[: min(most, len(body) - 1)]
    raise httpx2.RemoteProtocolError("peer closed connection without sending complete message body")


def connections() -> httpx2.AsyncBaseTransport:
    """The connections that all tasks of a run share."""
    return httpx2.AsyncHTTPTransport(trust_env=False, limits=httpx2.Limits(max_connections=None))
