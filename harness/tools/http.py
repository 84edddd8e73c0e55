"""The way to a tool server at an address: Streamable HTTP, and the transport below the client of MCP.

The client does not survive an error of its transport: all calls that are under way would end with one that failed. So
this transport answers instead, and keeps the error with the call on whose behalf the request was made:

    ToolConnection._ask     makes a SentCall, and puts it into `current` of the call's own task
    -> the client of MCP    carries that context along to whatever it sends for the call
    -> ToolTransport        finds the SentCall there, and sends the request
         an answer              is handed on; `_AnswerBody` notes in the SentCall where it breaks off
         a refusal              is handed on; what it means is in `SentCall.problem`
         no answer at all       why is in `SentCall.problem`; the client gets a 502, of which it makes some error
    <- ToolConnection       raises `SentCall.problem` in place of whatever error the client has made
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import httpx2

from harness.resilience import Clock
from harness.resilience.verdict import OAUTH, retry_after
from harness.tools.connection import ToolConnection
from harness.tools.exchange import (
    FORGOTTEN,
    Connect,
    Hosts,
    SentCall,
    ServerDied,
    Streams,
    ToolProblem,
    ToolServerError,
    current,
)

_LOOPBACK: Final = "127.0.0.1"
_NOTICE: Final = 2.0
"""Seconds that a message without an answer may take: the client sends the next one only then."""
_SHORT: Final = 2_000
"""Bytes that such a message has at most."""
_SHOWN: Final = 300
"""Characters of the body of a refusal that a message shows."""
_REFUSAL: Final = 64 * 1024
"""Bytes of the body of a refusal that are read."""
SESSION: Final = "mcp-session-id"
_NOT_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
_LONGEST: Final = 20 * 1024 * 1024
"""Bytes of one answer, or of one event of a stream."""


def over_http(url: str, headers: Mapping[str, str], hosts: Hosts, clock: Clock, *, longest: int = _LONGEST) -> Connect:
    """Connections to the server at `url`; requests to a host of `hosts` go to its port, with its name as `Host`.

    `headers` are sent with each request. `longest`: bytes of one answer; one that is longer is GARBLED.
    """
    return lambda events: ToolConnection(AddressLink(url, headers, hosts, clock, longest), events)


class AddressLink:
    """An address. It has no process, and ends by itself only if the server forgets the session."""

    trouble = ""
    pid: int | None = None
    died: ServerDied | None = None

    def __init__(self, url: str, headers: Mapping[str, str], hosts: Hosts, clock: Clock, longest: int) -> None:
        self._url, self._headers, self._hosts, self._clock, self._longest = url, headers, hosts, clock, longest
        self._forgotten = False

    @contextlib.asynccontextmanager
    async def streams(self, over: Callable[[], None]) -> AsyncIterator[Streams]:
        from mcp.client.streamable_http import streamable_http_client  # takes half a second

        def forgotten() -> None:
            self._forgotten = True
            over()

        transport = ToolTransport(self._hosts, self._clock, self._longest, forgotten)
        async with (
            # It has no limits of its own: each call has one.
            httpx2.AsyncClient(transport=transport, headers=dict(self._headers), timeout=None) as client,
            streamable_http_client(self._url, http_client=client, max_sse_event_size=self._longest) as streams,
        ):
            yield streams

    async def stop(self) -> None:
        """Nothing is left of it when the client has ended."""

    def lost(self, *, sent: bool) -> ToolServerError:
        problem = ToolProblem.LOST if sent else ToolProblem.UNREACHED
        return ToolServerError(problem, FORGOTTEN if self._forgotten else "the connection to it has ended")


class ToolTransport(httpx2.AsyncBaseTransport):
    """The connections to one server."""

    def __init__(self, hosts: Hosts, clock: Clock, longest: int, forgotten: Callable[[], None]) -> None:
        """`forgotten` is called when the server does not know the session any more."""
        self._hosts, self._clock, self._longest, self._forgotten = hosts, clock, longest, forgotten
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False, limits=httpx2.Limits(max_connections=None))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer the request; never raises an error of the network."""
        if request.method != "POST":
            return await self._send(request, SentCall())
        body = await request.aread()
        read = _document(body) if len(body) <= _SHORT else None
        if isinstance(read, dict) and "id" not in read:  # nothing answers it
            try:
                async with asyncio.timeout(_NOTICE):
                    return await self._send(request, SentCall())
            except TimeoutError:
                return httpx2.Response(202, request=request)
        sending = current.get() or SentCall()
        if sending.opening and sending.final:
            return httpx2.Response(502, request=request)
        return await self._judged(request, await self._send(request, sending), sending)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _send(self, request: httpx2.Request, sending: SentCall) -> httpx2.Response:
        try:
            answer = await self._inner.handle_async_request(self._directed(request, sending))
        except httpx2.TransportError as error:
            _record(error, request, sending)
            return httpx2.Response(502, request=request)
        events = answer.headers.get("content-type", "").lower().startswith("text/event-stream")
        body = _AnswerBody(answer, request, sending, self._longest, events=events)
        return httpx2.Response(answer.status_code, headers=answer.headers, stream=body, extensions=answer.extensions)

    def _directed(self, request: httpx2.Request, sending: SentCall) -> httpx2.Request:
        """The request as it goes out. The client keeps its own, by which it judges redirects."""

        async def trace(event: str, _: Mapping[str, Any]) -> None:
            if event.endswith("send_request_headers.started"):
                if sending.ended:
                    raise _TooLateError("nobody waits for it any more")
                sending.sent = True

        port = self._hosts().get(request.url.host.lower())
        url = request.url if port is None else request.url.copy_with(scheme="http", host=_LOOPBACK, port=port)
        headers = httpx2.Headers(request.headers)
        headers["accept-encoding"] = "identity"  # the size of an answer is limited before it is decoded
        extensions = {**request.extensions, "trace": trace}
        return httpx2.Request(request.method, url, headers=headers, stream=request.stream, extensions=extensions)

    async def _judged(self, request: httpx2.Request, answer: httpx2.Response, sending: SentCall) -> httpx2.Response:
        """The answer; the meaning of a refusal is kept with the call."""
        if answer.status_code < 400:
            return answer
        body = await _beginning(answer)
        problem, said = self._problem(request, answer, body, opening=sending.opening)
        if problem is not None:
            wait = retry_after(answer.headers, self._clock.wall()) if problem is ToolProblem.BUSY else None
            sending.fail(problem, said, retry_after=wait, final=problem in _FINAL)
        changed = ("content-length", "transfer-encoding", "content-encoding")
        headers = {name: value for name, value in answer.headers.items() if name not in changed}
        return httpx2.Response(answer.status_code, headers=headers, content=body)

    def _problem(
        self, request: httpx2.Request, answer: httpx2.Response, body: bytes, *, opening: bool
    ) -> tuple[ToolProblem | None, str]:
        """What a refusal means; None: it is an error of the protocol, which the client reads.

        `opening`: there is no connection yet, so that whatever is refused, nothing can be called.
        """
        status = answer.status_code
        said = f"it answers {status} {answer.reason_phrase}".rstrip()
        more = body[:_SHOWN].decode(errors="replace").strip()
        said = f"{said}: {more}" if more else said
        if (refused := _refused(status, body)) is not None:
            wanted = answer.headers.get("www-authenticate", "")[:_SHOWN]
            told = f"{said} (it wants {wanted})" if wanted else said
            return ToolProblem.UNAUTHORIZED if opening else refused, told
        if status in (429, 503) and "retry-after" in answer.headers:
            return ToolProblem.BUSY, said
        if SESSION in request.headers and _is_of_session(status, body):
            self._forgotten()
            return ToolProblem.UNREACHED, f"{FORGOTTEN} ({said})"
        if _of_the_protocol(body):
            return None, said
        return (ToolProblem.LOST if status >= 500 or status == 429 else ToolProblem.GARBLED), said


_FINAL: Final = (ToolProblem.UNAUTHORIZED, ToolProblem.FORBIDDEN, ToolProblem.BUSY, ToolProblem.UNREACHED)


class _TooLateError(httpx2.TransportError):
    """The request could be sent only when its call had ended, and was counted as not sent."""


class _AnswerBody(httpx2.AsyncByteStream):
    """The body of an answer. It ends quietly where the connection breaks, or the answer becomes too long."""

    def __init__(
        self, answer: httpx2.Response, request: httpx2.Request, sending: SentCall, most: int, *, events: bool
    ) -> None:
        """`most`: bytes of the answer, or of one of its `events`."""
        assert isinstance(answer.stream, httpx2.AsyncByteStream)
        self._stream, self._request, self._sending = answer.stream, request, sending
        self._most, self._events = most, events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._stream:
                if self._sending.ended:  # the client of older revisions would read on for ever
                    return
                end = max(chunk.rfind(b"\n\n"), chunk.rfind(b"\r\n\r\n")) if self._events else -1
                size = size + len(chunk) if end < 0 else len(chunk) - end
                if size > self._most:
                    self._sending.fail(ToolProblem.GARBLED, f"its answer has more than {self._most} bytes", final=True)
                    return
                yield chunk
        except httpx2.TransportError as error:
            _record(error, self._request, self._sending)
        else:
            if self._events:  # the client reads no further than the answer
                self._sending.fail(ToolProblem.LOST, "its answer ended before it was complete", final=False)

    async def aclose(self) -> None:
        await self._stream.aclose()


def _record(error: httpx2.TransportError, request: httpx2.Request, sending: SentCall) -> None:
    said = str(error) or type(error).__name__
    if isinstance(error, _NOT_SENT) or not sending.sent:
        place = request.url.copy_with(userinfo=b"", query=None, fragment=None)
        sending.fail(ToolProblem.UNREACHED, f"it cannot be reached at {place}: {said}", final=True)
    else:
        sending.fail(ToolProblem.LOST, f"the connection broke before its answer was complete: {said}", final=True)


def _document(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _of_the_protocol(body: bytes) -> bool:
    read = _document(body)
    return isinstance(read, dict) and "jsonrpc" in read and isinstance(read.get("error"), dict)


def _is_of_session(status: int, body: bytes) -> bool:
    """Whether a refusal says that the session is not known: then nothing was done. Other 404 and 400 prove nothing."""
    says = b"session" in body.lower()
    return (status == 404 and (says or not body.strip())) or (status == 400 and says and _of_the_protocol(body))


_OF_THE_CALL: Final = ("insufficient_scope", "access_denied")
"""Errors of OAuth about what was asked for, and not about the credentials."""


def _refused(status: int, body: bytes) -> ToolProblem | None:
    """Whether a refusal is about the credentials (401), or about what they allow (403); None: about neither.

    MCP demands 401 for a token that is missing or not valid, and 403 with `insufficient_scope` for one that lacks a
    right. The body may be an error of RFC 6749 or RFC 6750.
    """
    read = _document(body)
    said = read.get("error") if isinstance(read, dict) else None
    error = said if isinstance(said, str) and said in OAUTH else None
    if error in _OF_THE_CALL or (status == 403 and error is None):
        return ToolProblem.FORBIDDEN
    return ToolProblem.UNAUTHORIZED if status == 401 or error is not None else None


async def _beginning(answer: httpx2.Response) -> bytes:
    body = b""
    async for chunk in answer.stream:  # type: ignore[union-attr]
        body += chunk
        if len(body) > _REFUSAL:
            break
    await answer.aclose()
    return body[:_REFUSAL]
