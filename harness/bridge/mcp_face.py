"""The MCP face of the bridge: at `/mcp` of a server, and over standard input and output. Only it uses the library."""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from harness.bridge.hub import BridgeHub
from harness.bridge.mcp_tools import BridgeTools, FaceReply, listed_tools
from harness.bridge.messages import LONGEST_MESSAGE
from harness.bridge.refusals import RefusedMessageError

if TYPE_CHECKING:
    from anyio import AsyncFile
    from mcp.server.lowlevel import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import Receive, Scope, Send

_CallTool = Callable[[str, Mapping[str, Any], str], Awaitable[FaceReply]]
"""Calls a tool: its name, its arguments, name and version of the client."""
_MayAct = Callable[[Mapping[str, Any]], bool]
"""Whether the ASGI scope of a request has a token that may take tasks."""
_Endpoint = Callable[["Request"], Awaitable["Response"]]
NAME: Final = "taskspec"
NO_MCP: Final = "the MCP face needs the library `mcp`: pip install 'pytest-taskspec[mcp]'"
_INSTRUCTIONS: Final = (
    "Drive browser tasks: `task_take` gives a task and the session's handle; then `observe` and `act` in turns, and "
    "`finish` when the goal is reached. Every answer tells the number of the present turn, which `act` takes."
)


def _mcp_server(call: _CallTool) -> Server[Any]:
    """The server of the seven tools. Raises ImportError without the library."""
    import mcp_types as types
    from mcp.server.lowlevel import Server

    async def list_tools(_context: Any, _parameters: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=each.name,
                    description=each.description,
                    input_schema=dict(each.parameters),
                    annotations=types.ToolAnnotations(
                        read_only_hint=each.reads, idempotent_hint=each.reads or each.name in ("act", "finish")
                    ),
                )
                for each in listed_tools()
            ]
        )

    async def call_tool(context: Any, parameters: types.CallToolRequestParams) -> types.CallToolResult:
        reply = await call(parameters.name, parameters.arguments or {}, _client(context))
        pictures = [
            types.ImageContent(type="image", data=base64.b64encode(content).decode(), mime_type=kind)
            for kind, content in reply.pictures
        ]
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=json.dumps(reply.structured, ensure_ascii=False)), *pictures],
            structured_content=dict(reply.structured),
            is_error=reply.is_error,
        )

    return Server(
        NAME,
        version=version("pytest-taskspec"),
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _client(context: Any) -> str:
    parameters = getattr(context.session, "client_params", None)
    info = getattr(parameters, "client_info", None)
    return f"{info.name} {info.version}".strip()[:200] if info is not None else ""


async def serve_stdio(call: _CallTool, lines: AsyncFile[str]) -> None:
    """Serve one client, whose lines these are, until they end. Raises ImportError without the library."""
    from mcp.server.stdio import stdio_server

    server = _mcp_server(call)
    async with stdio_server(stdin=lines) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def mcp_routes(hub: BridgeHub, may_act: _MayAct) -> list[BaseRoute]:
    """`/mcp`, for clients of both eras of MCP, `/calls`: the same tools without it, and `/hooks`."""
    from starlette.routing import Route

    tools = BridgeTools(hub)
    hooks = Route("/hooks", _acting(partial(_answer_hook, hub), may_act), methods=["POST"])
    calls = Route("/calls", _acting(partial(_answer_call, tools), may_act), methods=["POST"])
    return [Route("/mcp", _McpFace(hub, tools.call, may_act)), calls, hooks]


def _acting(endpoint: _Endpoint, may_act: _MayAct) -> _Endpoint:
    """The endpoint, for those whose token may take tasks."""

    async def checked(request: Request) -> Response:
        return await endpoint(request) if may_act(request.scope) else _forbidden()

    return checked


def _forbidden() -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse({"type": "error", "payload": RefusedMessageError("AUTH_FORBIDDEN").payload}, 403)


class ToolCallRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /calls`."""

    tool: str
    arguments: dict[str, Any] = {}
    client: str = ""


async def _answer_call(tools: BridgeTools, request: Request) -> Response:
    """One call; the answer is the `FaceReply`, whatever becomes of it."""
    from starlette.responses import JSONResponse, Response

    try:
        wanted = msgspec.json.decode(await request.body(), type=ToolCallRequest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        refused = RefusedMessageError("PROTO_INVALID_MESSAGE", f"the body is no call of a tool: {error}")
        return JSONResponse({"type": "error", "payload": refused.payload}, 400)
    reply = await tools.call(wanted.tool, wanted.arguments, wanted.client[:200])
    return Response(msgspec.json.encode(reply), media_type="application/json")


async def _answer_hook(hub: BridgeHub, request: Request) -> Response:
    """One event of a hook, or the refusal that 001 demands."""
    from starlette.responses import JSONResponse

    try:
        document = msgspec.json.decode(await request.body())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        document = None
    try:
        return JSONResponse(hub.hooks.take(document))
    except RefusedMessageError as refused:
        told = {"received": False, "code": refused.code, "errors": refused.details["errors"]}
        return JSONResponse(told, 400)


class _McpFace:
    """An ASGI application that loads the library when it is first asked: few runs have such a client."""

    def __init__(self, hub: BridgeHub, call: _CallTool, may_act: _MayAct) -> None:
        self._hub = hub
        self._call = call
        self._may_act = may_act
        self._loading: asyncio.Task[StreamableHTTPSessionManager] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.responses import JSONResponse

        if not self._may_act(scope):
            await _forbidden()(scope, receive, send)
            return
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
        try:
            manager = await asyncio.shield(self._loading)
        except ImportError:
            told = {"type": "error", "payload": {"code": "SYS_INTERNAL_ERROR", "message": NO_MCP}}
            await JSONResponse(told, 501)(scope, receive, send)
            return
        await manager.handle_request(scope, receive, send)

    async def _load(self) -> StreamableHTTPSessionManager:
        await asyncio.to_thread(importlib.import_module, "mcp.server.streamable_http_manager")
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        server = _mcp_server(self._call)
        manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=LONGEST_MESSAGE
        )
        running = asyncio.Event()
        self._hub.spawn(self._run(manager, running))
        await running.wait()
        return manager

    @staticmethod
    async def _run(manager: StreamableHTTPSessionManager, running: asyncio.Event) -> None:
        """Own the manager until the hub ends."""
        async with manager.run():
            running.set()
            await asyncio.Event().wait()
