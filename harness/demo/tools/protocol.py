"""The shop's tools as a server of MCP, for both eras of the protocol. It is imported at the first use: 0.6 s."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import mcp_types as protocol
from jsonschema import Draft202012Validator
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from starlette.requests import Request
from starlette.responses import Response

from harness.demo import VERSION
from harness.demo.shop import RefusedError
from harness.demo.tools.shop import TOOLS, BrokenDownError, ShopTool
from harness.demo.visit import world_id
from harness.demo.worlds import DEFAULT_WORLD, Document, Worlds

WORLD: Final = "pytest-taskspec/world"
"""The key of a call's ``_meta`` that names the world."""

Context = ServerRequestContext[Any, Any]
_BreakDown = Callable[[Response, Request | None], Awaitable[None]]
"""Breaks the connection of a call as the answer demands, or keeps silent on it."""
_BY_NAME: Final[Mapping[str, ShopTool]] = {tool.name: tool for tool in TOOLS}


def server_of(worlds: Worlds, break_down: _BreakDown) -> Server[Any]:
    """Make the server over a store of worlds."""

    async def call(context: Context, params: protocol.CallToolRequestParams) -> protocol.CallToolResult:
        tool = _BY_NAME.get(params.name)
        if tool is None:
            raise MCPError(protocol.INVALID_PARAMS, f"Unknown tool: {params.name}")
        arguments = params.arguments or {}
        error = next(iter(Draft202012Validator(tool.schema).iter_errors(dict(arguments))), None)
        if error:
            return _refusal(f"{error.json_path}: {error.message}")
        try:
            return _answer(tool.act(worlds, _world_of(context), arguments))
        except RefusedError as refusal:
            return _refusal(str(refusal))
        except BrokenDownError as broken:
            await break_down(broken.breakdown, context.request)
            return _refusal("The checkout has broken down.")  # nobody reads it: the connection is gone

    return Server("taskspec-demo-shop", version=VERSION, on_list_tools=_list, on_call_tool=call)


async def _list(_context: Context, _params: protocol.PaginatedRequestParams | None) -> protocol.ListToolsResult:
    return protocol.ListToolsResult(tools=[_described(tool) for tool in TOOLS])


def _described(tool: ShopTool) -> protocol.Tool:
    hints = protocol.ToolAnnotations(
        read_only_hint=tool.effect == "read",
        idempotent_hint=tool.effect != "write",
        destructive_hint=tool.effect != "read",
        open_world_hint=False,
    )
    return protocol.Tool(name=tool.name, description=tool.description, input_schema=tool.schema, annotations=hints)


def _world_of(context: Context) -> str:
    """Return the world that the call names, else the one of the User-Agent, else the default."""
    named = (context.meta or {}).get(WORLD)
    if isinstance(named, str) and named:
        return named
    return world_id(context.request) if context.request is not None else DEFAULT_WORLD


def _answer(result: Document) -> protocol.CallToolResult:
    text = protocol.TextContent(text=json.dumps(result, ensure_ascii=False))
    return protocol.CallToolResult(content=[text], structured_content=result)


def _refusal(message: str) -> protocol.CallToolResult:
    return protocol.CallToolResult(content=[protocol.TextContent(text=message)], is_error=True)
