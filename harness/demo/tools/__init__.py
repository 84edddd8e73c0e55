"""The tools of the shop (MCP): ``http://shop.local/mcp``, and a program that speaks over stdio.

They need the library ``mcp``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from harness.demo.worlds import Worlds

NOT_INSTALLED: Final = "the tools of the shop need the library mcp: pip install 'pytest-taskspec[mcp]'"


class Door:
    """The ASGI application of the path. It imports the library at the first request, since that takes 0.6 s."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        state = scope["app"].state
        if not hasattr(state, "tools"):
            try:
                await asyncio.to_thread(_load)
            except ModuleNotFoundError:
                await JSONResponse({"error": NOT_INSTALLED}, status_code=501)(scope, receive, send)
                return
            if not hasattr(state, "tools"):  # of several first requests, the first one that comes here
                state.tools = _Open(state.worlds)
        application = await state.tools.application()
        await application(scope, receive, send)


class _Open:
    """The server of one process; a task of its own keeps it until the process ends."""

    def __init__(self, worlds: Worlds) -> None:
        self._ready = asyncio.Event()
        self._manager = _manager(worlds)
        self._keeper = asyncio.create_task(self._keep())

    async def application(self) -> ASGIApp:
        """Return what serves the requests, when it is ready."""
        await self._ready.wait()
        return self._manager.handle_request

    async def _keep(self) -> None:
        async with self._manager.run():
            self._ready.set()
            await asyncio.Event().wait()


def _load() -> None:
    from harness.demo.tools import protocol  # noqa: F401 - it takes 0.6 s, and only tools need it


def _manager(worlds: Worlds) -> StreamableHTTPSessionManager:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from harness.demo.tools.protocol import server_of

    return StreamableHTTPSessionManager(server_of(worlds, _break_down))


async def _break_down(breakdown: Response, request: Request | None) -> None:
    """Break the connection of the request, or keep silent on it until the client is gone."""
    assert request is not None  # Streamable HTTP has one for each call
    await breakdown(request.scope, request.receive, _send_nothing)


async def _send_nothing(_message: Any) -> None:
    """The broken answers write to the connection itself, or nothing."""


ROUTES = [Route("/mcp", Door())]
