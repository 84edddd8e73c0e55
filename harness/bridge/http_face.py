"""The HTTP face of the bridge: sessions, their messages one by one or as a stream, and bodies by their hash."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pydantic import ValidationError

from harness.bridge.hub import BridgeHub
from harness.bridge.messages import LONGEST_MESSAGE, SEQUENCE, ClientMessage, Phase, SessionCreate, read_message
from harness.bridge.protocol import invalid
from harness.bridge.refusals import RefusedMessageError
from harness.bridge.session import BridgeSession

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

ANSWERED_WITHIN: Final = 35.0
"""Seconds that a request may take: above the last stage of long work, at which it has an answer."""
_HEARTBEAT: Final = 15.0
"""Seconds between two signs of life in a stream."""
_STATUS: Final[Mapping[str, int]] = {
    "SESS_NOT_FOUND": 404, "SESS_CLOSED": 410, "SESS_LIMIT": 429, "SESS_TURN_OVER": 409, "SESS_BUSY": 409,
    "SYS_STOPPING": 503, "SESS_NO_TASK": 409, "SESS_TASK_REFUSED": 409,
    "SESS_NOT_RESUMABLE": 409, "AUTH_FORBIDDEN": 403, "PROTO_INVALID_MESSAGE": 400,
    "PROTO_SEQUENCE_ERROR": 409, "PROTO_ID_REUSED": 409, "HOOK_VALIDATION_FAILED": 400,
}  # fmt: skip
"""Code of a refusal -> status of the answer."""
_NAMES: Final[Mapping[int, str]] = {
    403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Gone", 429: "TooManyRequests", 503: "ServiceUnavailable",
}  # fmt: skip
_MayAct = Callable[[Mapping[str, Any]], bool]
"""Whether the ASGI scope of a request has a token that may take tasks."""
_HASH = re.compile("[0-9a-f]{64}")
_SEQ = re.compile("[0-9]{1,18}")


def http_routes(hub: BridgeHub, may_act: _MayAct) -> list[BaseRoute]:
    """The routes of the HTTP face; `session` lists need any token, all else one that may act."""
    from starlette.routing import Route

    face = _HttpFace(hub)

    def acting(endpoint: Callable[[Request], Any]) -> Callable[[Request], Any]:
        async def checked(request: Request) -> Response:
            if not may_act(request.scope):
                return _refusal(RefusedMessageError("AUTH_FORBIDDEN"))
            try:
                answer: Response = await endpoint(request)
            except RefusedMessageError as refused:
                return _refusal(refused)
            return answer

        return checked

    return [
        Route("/sessions", face.list, methods=["GET"]),
        Route("/sessions", acting(face.create), methods=["POST"]),
        Route("/sessions/{session}", acting(face.show), methods=["GET"]),
        Route("/sessions/{session}", acting(face.close), methods=["DELETE"]),
        Route("/sessions/{session}/messages", acting(face.message), methods=["POST"]),
        Route("/sessions/{session}/messages", acting(face.stream), methods=["GET"]),
        Route("/blobs/{sha256}", acting(face.blob), methods=["GET"]),
    ]


def _refusal(refused: RefusedMessageError) -> Response:
    status = _STATUS.get(refused.code, 400)
    return _answer({"error": _NAMES.get(status, "BadRequest"), **refused.payload}, status)


def _answer(document: Mapping[str, Any], status: int = 200) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse(document, status)


class _HttpFace:
    def __init__(self, hub: BridgeHub) -> None:
        self._hub = hub

    async def list(self, _request: Request) -> Response:
        return _answer({"sessions": [each.summary() for each in self._hub.sessions.values()]})

    async def create(self, request: Request) -> Response:
        try:
            body = await _json(request)
            wanted = SessionCreate.model_validate({} if body is None else body)
        except ValidationError as error:
            raise RefusedMessageError("PROTO_INVALID_MESSAGE", str(error.errors(include_url=False)[0]["msg"])) from None
        session = self._hub.create(wanted, request.headers.get("user-agent", "")[:200])
        self._hub.be_there(session)
        return _answer(session.snapshot(), 201)

    async def show(self, request: Request) -> Response:
        return _answer(self._session(request).snapshot())

    async def close(self, request: Request) -> Response:
        session = self._session(request)
        self._hub.close(session, "it was closed over HTTP")
        return _answer(session.snapshot())

    async def message(self, request: Request) -> Response:
        """One message and its answer, which is `pending` for work that takes longer."""
        session = self._session(request)
        message = _joined_message(self._hub, await _json(request))
        self._hub.be_there(session)
        async with asyncio.timeout(ANSWERED_WITHIN):
            kind, payload = await self._hub.answer(session, message)
        status = _STATUS.get(str(payload.get("code")), 400) if kind == "error" else 200
        return _answer(session.envelope(kind, payload, message.id), status)

    async def stream(self, request: Request) -> Response:
        """The session's messages as server-sent events; `Last-Event-ID` has the last that was received."""
        from starlette.responses import StreamingResponse

        last = request.headers.get("last-event-id", "")
        events = session_events(self._hub, self._session(request), last)
        return StreamingResponse(events, media_type="text/event-stream")

    async def blob(self, request: Request) -> Response:
        from starlette.responses import PlainTextResponse, Response

        name = request.path_params["sha256"]
        found = self._hub.blob(name) if _HASH.fullmatch(name) else None
        if found is None:
            return PlainTextResponse("there is no such body, or it was dropped since", 404)
        return Response(found[1], media_type=found[0])

    def _session(self, request: Request) -> BridgeSession:
        return self._hub.going_on(request.path_params["session"])


class StreamOutlet:
    """A stream of server-sent events; it starts with a replay."""

    MOST: Final = 1024 * 1024
    """Bytes that may wait for a client that does not read, beside a replay."""

    def __init__(self, session: BridgeSession, most: int) -> None:
        self._most = most
        self.waiting: deque[bytes] = deque()
        self.over = False
        self._session = session
        self._more = asyncio.Event()

    def send(self, message: Mapping[str, Any]) -> None:
        """Queue a message. A client that does not read is gone: its stream would not end by itself."""
        if self.over:
            return
        seq = message.get("seq")
        head = f"id: {message['epoch']}:{seq}\n".encode() if seq else b""
        self.waiting.append(head + b"data: " + msgspec.json.encode(message) + b"\n\n")
        if sum(map(len, self.waiting)) > self._most:
            self.waiting.clear()
            self.cut("CONN_SLOW_CONSUMER")
            self._session.detach(self)
        self._more.set()

    def cut(self, code: str) -> None:
        """End the stream; its last event says why."""
        self.waiting.append(f'event: end\ndata: {{"code": "{code}"}}\n\n'.encode())
        self.over = True
        self._more.set()

    async def more(self) -> None:
        """Return when there is something, or after a while."""
        self._more.clear()
        if not self.waiting:
            try:
                async with asyncio.timeout(_HEARTBEAT):
                    await self._more.wait()
            except TimeoutError:
                self.waiting.append(b": still there\n\n")


async def session_events(hub: BridgeHub, session: BridgeSession, last: str) -> AsyncIterator[bytes]:
    """What `last` had not seen, and what comes. The client counts as being there from the first look at this on."""
    epoch, _, seq = last.rpartition(":")
    after = int(seq) if _SEQ.fullmatch(seq) else session.buffer.last
    outlet = StreamOutlet(session, StreamOutlet.MOST + hub.limits.replay_bytes)
    replay = session.buffer.after(after, epoch, hub.clock.now())
    session.attach(outlet)
    try:
        hub.desk.wake()
        if not replay.complete:
            outlet.send({"type": "replay_buffer", "payload": {**replay.payload, "messages": []}})
        for each in replay.messages:
            outlet.send(each)
        while True:
            while outlet.waiting:
                yield outlet.waiting.popleft()
            if outlet.over or session.over:
                return
            await outlet.more()
    finally:
        session.detach(outlet)


async def _json(request: Request) -> Any:
    """The body of a request. Raises RefusedMessageError."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_MESSAGE:
            raise RefusedMessageError("PROTO_INVALID_MESSAGE", f"a message has at most {LONGEST_MESSAGE} bytes")
    try:
        return msgspec.json.decode(body) if body else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise RefusedMessageError("PROTO_INVALID_MESSAGE", f"the body is no JSON: {error}") from None


def _joined_message(hub: BridgeHub, document: Any) -> ClientMessage:
    """The message of a request to a session. Raises RefusedMessageError."""
    found = read_message(document)
    if not isinstance(found, ClientMessage):
        raise hub.hooks.invalid(document, found) or invalid(found)
    expected = SEQUENCE[Phase.JOINED] - {"subscribe"}
    if found.type not in expected:
        raise RefusedMessageError(
            "PROTO_SEQUENCE_ERROR", f"`{found.type}` may not come over HTTP", expected=sorted(expected),
            received=found.type, currentPhase=str(Phase.JOINED),
        )  # fmt: skip
    return found
