"""Doors: addresses on one port of a run, each for one task, with a path and a token of its own.

Through one of their routes the process of an agent asks models.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from harness.model.inference import ForwardedRequest, ForwardsRequests
from harness.serve.edges import SCOPE, EdgeRefusal, bearer_of, no_such_path, refuse
from harness.serve.server import LOOPBACK, QuietUvicorn, bind, uvicorn_config
from harness.serve.tokens import TokenScope
from harness.spec.names import read_host

_ENDED_WITHIN: Final = 3.0
"""Seconds that the server may take to end."""
_LONGEST_FRAME: Final = 100 * 1024 * 1024
"""Bytes of one message of a WebSocket, as browsers take them: files come in them. The bridge takes less."""
MODELS: Final = "/models"
"""The path below which the APIs of the providers are served."""
_LONGEST_QUESTION: Final = 32 * 1024 * 1024
"""Bytes of one request to a model, as the providers allow them."""


class TaskDoor(Struct, frozen=True):
    """What one task has on the server."""

    name: str
    token: str
    address: str
    """Host, port and path, without a scheme: `127.0.0.1:41234/5tF...`."""
    app: ASGIApp


class Doors:
    """The server of a run for the processes that it starts itself. Only those know its addresses."""

    def __init__(self) -> None:
        self._doors: dict[str, TaskDoor] = {}
        self._listener: socket.socket | None = None
        self._served: asyncio.Task[None] | None = None
        self._server: QuietUvicorn | None = None

    async def open(self, app: Callable[[str], ASGIApp]) -> TaskDoor:
        """Serve an application, which is made with its token, until `shut`. Raises PortTakenError."""
        if self._listener is None:
            await self._start()
        assert self._listener is not None
        name, token = secrets.token_urlsafe(12), secrets.token_urlsafe(32)
        address = f"{LOOPBACK}:{self._listener.getsockname()[1]}/{name}"
        self._doors[name] = TaskDoor(name, token, address, app(token))
        return self._doors[name]

    def shut(self, door: TaskDoor) -> None:
        """Answer nothing there any more."""
        self._doors.pop(door.name, None)

    async def _start(self) -> None:
        self._listener = bind(LOOPBACK, 0)
        ready = asyncio.Event()
        self._server = QuietUvicorn(uvicorn_config(self._serve, _LONGEST_FRAME), ready.set)
        self._served = asyncio.create_task(self._server.serve([self._listener]))
        waits = asyncio.create_task(ready.wait())
        await asyncio.wait({waits, self._served}, return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        _, name, *rest = [*scope["path"].split("/", 2), ""][:3]  # `OPTIONS *` has no slash
        door, connection = self._doors.get(name), HTTPConnection(scope)
        refusal = _refusal(connection, door)
        if refusal is not None and scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
        elif refusal is not None:
            await refuse(refusal)(scope, receive, send)
        elif door is not None:
            path = f"/{rest[0] if rest else ''}"
            inside = {**scope, "path": path, "raw_path": path.encode(), "root_path": "", SCOPE: TokenScope.AGENT}
            await door.app(inside, receive, send)

    async def close(self) -> None:
        """End the server. Bounded."""
        self._doors.clear()
        if self._server is None or self._served is None:
            return
        self._server.should_exit = True
        await asyncio.wait({self._served}, timeout=_ENDED_WITHIN)
        self._served.cancel()
        await asyncio.gather(self._served, return_exceptions=True)


def _refusal(connection: HTTPConnection, door: TaskDoor | None) -> EdgeRefusal | None:
    """Why a connection is refused. The first message of a WebSocket has its token, so it is let in without one."""
    told = connection.headers.getlist("host")
    host = read_host(told[0]) if len(told) == 1 else None
    if host is None or host.name not in (LOOPBACK, "localhost") or "origin" in connection.headers:
        return EdgeRefusal(403, "AUTH_FORBIDDEN", "this server is for the processes of its run, and not for pages")
    if door is None or no_such_path(connection.scope["path"]):
        return EdgeRefusal(404, "SESS_NOT_FOUND", "no task is served here, or it is over")
    token = bearer_of(connection) or connection.headers.get("x-api-key", "")  # as providers of models want their keys
    right = hmac.compare_digest(token.encode("utf-8", "replace"), door.token.encode())
    if connection.scope["type"] == "websocket" or right:
        return None
    return EdgeRefusal(401, "AUTH_INVALID", "the token of the task is needed, as `Authorization: Bearer ...`")


def forwarding_routes(gateway: ForwardsRequests) -> list[BaseRoute]:
    """The routes through which an agent's process asks models."""

    async def endpoint(request: Request) -> Response:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > _LONGEST_QUESTION:
                return JSONResponse({"error": {"message": f"more than {_LONGEST_QUESTION} bytes"}}, 413)
        path = request.scope["path"].removeprefix(MODELS)
        answer = await gateway.forward(ForwardedRequest(request.method, path, dict(request.headers), bytes(body)))
        return StreamingResponse(answer.chunks, answer.status, answer.headers)

    return [Route(MODELS + "/{path:path}", endpoint, methods=["GET", "POST"])]
