"""A tool server over HTTP, by the library: `python tool_server.py PORT [new|old] [habit ...]`; port 0 is any."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse
from starlette.types import Message, Receive, Scope, Send

PORT, ERA, HABITS = int(sys.argv[1]), sys.argv[2], set(sys.argv[3:])
server = MCPServer("shop", version="7")


@server.tool()
def echo(text: str = "", n: int = 0) -> str:
    return f"{text}{n}"


@server.tool()
async def slow(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slow"


@server.tool()
def kill() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@server.tool()
def big(size: int) -> str:
    return "x" * size


@server.tool()
def fails() -> str:
    raise ValueError("no stock")


@server.tool()
async def change(ctx: Context[Any, Any]) -> str:
    server.add_tool(echo, name="echo2")
    await ctx.session.send_tool_list_changed()
    return "changed"


class Gate:
    """Answers instead of the server, as the call says in the tool's name: `status_401`, `moved_far`, ..."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self._app(scope, receive, send)
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        message = json.loads(body)
        answer = self._instead(scope, message, str(message.get("params", {}).get("name", "")))
        if answer is not None:
            return await answer(scope, receive, send)
        parts = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def again() -> Message:
            return next(parts, None) or await receive()

        await self._app(scope, again, send)

    def _instead(self, scope: Scope, message: dict[str, Any], tool: str) -> Any:
        headers = dict(scope["headers"])
        if "guarded" in HABITS and headers.get(b"authorization") != b"Bearer right":
            return JSONResponse({"error": "invalid_token"}, 401, {"www-authenticate": "Bearer"})
        if ERA == "old" and message.get("method") == "server/discover":
            return PlainTextResponse("Bad Request", 400)
        if tool.startswith("status_"):
            wait = {"retry-after": "7"} if tool.endswith(("429", "503")) else {}
            return PlainTextResponse("not now", int(tool.removeprefix("status_")), wait)
        if tool == "oauth":
            return JSONResponse({"error": "invalid_grant"}, 400)
        if tool == "moved_far":
            return RedirectResponse("http://elsewhere.local/mcp", 307)
        if tool == "page":
            return PlainTextResponse("<html>", 200)
        if scope["path"] == "/moved":
            return RedirectResponse("/mcp", 307)
        return None


app = Gate(server.streamable_http_app(json_response="json" in HABITS, transport_security=None, host="0.0.0.0"))
config = uvicorn.Config(app, host="127.0.0.1", port=PORT, log_level="error", lifespan="on")
serving = uvicorn.Server(config)


async def main() -> None:
    task = asyncio.create_task(serving.serve())
    while not serving.started:
        await asyncio.sleep(0.01)
    print(serving.servers[0].sockets[0].getsockname()[1], flush=True)
    await task


if __name__ == "__main__":
    asyncio.run(main())
