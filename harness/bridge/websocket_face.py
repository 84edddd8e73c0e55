"""The WebSocket face of the bridge, at `/bridge`."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from harness.bridge.hub import BridgeHub
from harness.bridge.messages import Phase, Subscribe
from harness.bridge.protocol import AUTH_WITHIN, Admit, ClientConnection
from harness.bridge.refusals import WIRE_CODES, RefusedMessageError

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.websockets import WebSocket

BEHIND: Final = 1024 * 1024
"""Bytes that may wait for a client that does not read, beside a replay."""
A_SECOND: Final = 50
"""Messages of a client that are taken in a second; more wait."""
_CLOSED_BY_CODE: Final = 4000
"""The WebSocket's code when the bridge ends a connection; the reason has the code of `WIRE_CODES`."""

_LEFT: Final = (1000, 1001)
"""The codes with which a client that leaves closes its connection (RFC 6455)."""
_WITHOUT_CODE: Final = 1005
"""The code of a client that closes without one, and, without the key `reason`, of a connection that broke (uvicorn)."""


class SeenEvents(Protocol):
    """Some events of a run, as lines of JSON, and the offset in its file after them."""

    @property
    def lines(self) -> tuple[str, ...]: ...
    @property
    def end(self) -> int: ...


_FollowRun = Callable[[str, int], tuple[str, AsyncIterator[SeenEvents | None]]]
"""A run (empty: the newest) and an offset -> its id, and its events as they come, for ever. Raises LookupError."""


def websocket_routes(hub: BridgeHub, admit: Admit, follow: _FollowRun | None = None) -> list[BaseRoute]:
    """The route of the WebSocket face. `follow` has the events of runs, for who subscribes."""
    from starlette.routing import WebSocketRoute

    async def endpoint(websocket: WebSocket) -> None:
        await websocket.accept()
        await SocketOutlet(websocket, follow, BEHIND + hub.limits.replay_bytes).serve(hub, admit)

    return [WebSocketRoute("/bridge", endpoint)]


def _has_left(message: Mapping[str, Any]) -> bool:
    """Whether a client has closed its connection, which otherwise broke."""
    code = message.get("code")
    return code in _LEFT or (code == _WITHOUT_CODE and "reason" in message)


def _whole(lines: Iterable[str]) -> Iterator[msgspec.Raw]:
    """The lines that are JSON: an offset may be inside a line, and a process may have been killed while it wrote."""
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError):
            yield msgspec.json.decode(line.encode(), type=msgspec.Raw)


class SocketOutlet:
    """One WebSocket: what is sent waits in a bounded queue, so that a slow client delays nobody."""

    def __init__(self, websocket: WebSocket, follow: _FollowRun | None = None, most: int = BEHIND) -> None:
        """`most`: bytes that may wait for the client; a replay is one message."""
        self._most = most
        self._websocket = websocket
        self._follow = follow
        self._subscription: asyncio.Task[None] | None = None
        self._waiting: deque[str] = deque()
        self._size = 0
        self._more = asyncio.Event()
        self._written = asyncio.Event()
        self._cut = ""
        self._broken = False
        self._unread = asyncio.Event()
        """Set when the client does not read: a write under way to it would not end."""

    def send(self, message: Mapping[str, Any]) -> None:
        """Queue a message."""
        if self._cut:
            return
        text = msgspec.json.encode(message).decode()
        self._size += len(text)
        if self._size > self._most:
            self.cut("CONN_SLOW_CONSUMER")
            return
        self._waiting.append(text)
        self._more.set()

    def cut(self, code: str) -> None:
        """End the connection after what is queued; at once if the client does not read."""
        if not self._cut:
            self._cut = code
            self._more.set()
            if code == "CONN_SLOW_CONSUMER":
                self._waiting.clear()
                self._unread.set()

    async def serve(self, hub: BridgeHub, admit: Admit) -> None:
        """Serve the connection to its end."""
        connection = ClientConnection(hub, self, admit)
        if self._follow is not None:
            connection.subscribed = partial(self._subscribe, self._follow)
        reader = asyncio.create_task(self._read(connection, hub))
        writer = asyncio.create_task(self._write())
        late = asyncio.create_task(self._authenticated(connection, hub))
        unread = asyncio.create_task(self._unread.wait())
        tasks: list[asyncio.Task[Any]] = [reader, writer, late, unread]
        try:
            await asyncio.wait({reader, writer, unread}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            connection.lost(broken=self._broken)
            tasks += [self._subscription] if self._subscription else []
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with contextlib.suppress(Exception):  # the client may be gone already
                async with asyncio.timeout(1):
                    await self._websocket.close(_CLOSED_BY_CODE, self._cut)

    def _subscribe(self, follow: _FollowRun, wanted: Subscribe, id: str) -> None:  # noqa: A002
        """Send the events of a run from now on, in place of those of another. Raises RefusedMessageError."""
        try:
            run, events = follow(wanted.run, wanted.offset)
        except LookupError as error:
            raise RefusedMessageError("PROTO_NOT_OFFERED", str(error.args[0])) from error
        if self._subscription is not None:
            self._subscription.cancel()
        self._subscription = asyncio.create_task(self._send_events(run, events, id))

    async def _send_events(self, run: str, events: AsyncIterator[SeenEvents | None], id: str) -> None:  # noqa: A002
        async for found in events:
            if found is not None:
                payload = {"run": run, "end": found.end, "events": list(_whole(found.lines))}
                moment = datetime.now(UTC).isoformat(timespec="milliseconds")
                self.send({"type": "record", "id": id, "timestamp": moment, "payload": payload})
            while self._size > BEHIND // 4:  # events can wait in their file
                self._written.clear()
                await self._written.wait()

    async def _read(self, connection: ClientConnection, hub: BridgeHub) -> None:
        moments: deque[float] = deque(maxlen=A_SECOND)
        while not self._cut:
            message = await self._websocket.receive()
            if message["type"] != "websocket.receive":
                self._broken = not _has_left(message)
                return
            now = hub.clock.now()
            if len(moments) == A_SECOND and now - moments[0] < 1:
                await hub.clock.sleep(1 - (now - moments[0]))
            moments.append(hub.clock.now())
            connection.take(message.get("text") or message.get("bytes") or "")

    async def _write(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            while self._waiting:
                text = self._waiting.popleft()
                await self._websocket.send_text(text)
                self._size -= len(text)
                self._written.set()
            if self._cut:
                await self._say_why()
                return

    async def _say_why(self) -> None:
        if self._cut.startswith(("AUTH_", "CONN_SLOW")):
            return  # told already, or not read
        payload = {**RefusedMessageError(self._cut).payload, "recoverable": False}
        told = {"type": "connection_error", "id": "", "payload": payload}
        await self._websocket.send_text(msgspec.json.encode(told).decode())

    async def _authenticated(self, connection: ClientConnection, hub: BridgeHub) -> None:
        await hub.clock.sleep(AUTH_WITHIN)
        if connection.phase is Phase.CONNECTED:
            self.send({"type": "connection_error", "id": "", "payload": {"code": "AUTH_REQUIRED",
                       "message": WIRE_CODES["AUTH_REQUIRED"].summary, "recoverable": False}})  # fmt: skip
            self.cut("AUTH_REQUIRED")
