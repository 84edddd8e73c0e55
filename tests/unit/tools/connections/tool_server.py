"""Tool servers over HTTP, by the library: one for each line `PORT [new|old] [habit ...]` of the input; port 0 is any.

Each is a fork of this process, because to import the library takes a second. Its pid and port are written.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

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
    await ctx.notify_tools_changed()
    return "changed"


class Gate:
    """Answers instead of the server, as the call says in the tool's name: `status_401`, `moved_far`, ..."""

    def __init__(self, app: Any, era: str, habits: set[str]) -> None:
        self._app, self._era, self._habits = app, era, habits

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
        if "guarded" in self._habits and headers.get(b"authorization") != b"Bearer right":
            return JSONResponse({"error": "invalid_token"}, 401, {"www-authenticate": "Bearer"})
        if self._era == "old" and message.get("method") == "server/discover":
            return PlainTextResponse("Bad Request", 400)
        if tool.startswith("status_"):
            wait = {"retry-after": "7"} if tool.endswith(("429", "503")) else {}
            return PlainTextResponse("not now", int(tool.removeprefix("status_")), wait)
        if tool.startswith("bare_"):
            return PlainTextResponse("not now", int(tool.removeprefix("bare_")))
        if tool == "oauth":
            return JSONResponse({"error": "invalid_grant"}, 400)
        if tool == "scope":
            wanted = 'Bearer error="insufficient_scope", scope="orders:write"'
            return PlainTextResponse("", 403, {"www-authenticate": wanted})
        if tool == "expired":
            return JSONResponse({"error": "invalid_token"}, 403)
        if tool == "refuses":
            return refusal(message, **message["params"]["arguments"])
        if tool == "endless":
            return endless(**message["params"]["arguments"])
        if tool == "moved_far":
            return RedirectResponse("http://elsewhere.local/mcp", 307)
        if tool == "page":
            return PlainTextResponse("<html>", 200)
        if scope["path"] == "/moved":
            return RedirectResponse("/mcp", 307)
        return None


GONE = [0]
"""The number of clients that have left an answer without end."""
NEWS = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 1000}}
PARTS = {
    "comments": b": ping\n\n",
    "line": b"x" * 1000,
    "news": f"data: {json.dumps(NEWS)}\n\n".encode(),
    "spaces": b" " * 1000,
}


@server.tool()
def gone() -> int:
    return GONE[0]


def endless(kind: str, pause: float) -> Any:
    """An answer without end, of parts of one kind."""

    async def parts() -> AsyncIterator[bytes]:
        try:
            while True:
                yield PARTS[kind]
                await asyncio.sleep(pause)
        finally:
            GONE[0] += 1

    return StreamingResponse(parts(), 200, media_type="application/json" if kind == "spaces" else "text/event-stream")


def refusal(message: dict[str, Any], code: int, text: str, how: str) -> Any:
    """An error of the server's own, in one of the ways in which it may come."""
    error = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}}
    if how == "events":
        return PlainTextResponse(f"data: {json.dumps(error)}\n\n", 200, media_type="text/event-stream")
    if how == "cut":
        return PlainTextResponse(": nothing comes\n\n", 200, media_type="text/event-stream")
    return JSONResponse(error, 400 if how == "status" else 200)


async def serve(port: int, era: str, *habits: str) -> None:
    app = server.streamable_http_app(json_response="json" in habits, host="0.0.0.0")
    gate = Gate(app, era, set(habits))
    serving = uvicorn.Server(uvicorn.Config(gate, host="127.0.0.1", port=port, log_level="error", lifespan="on"))
    task = asyncio.create_task(serving.serve())
    while not serving.started:
        await asyncio.sleep(0.01)
    print(os.getpid(), serving.servers[0].sockets[0].getsockname()[1], flush=True)
    await task


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while line := sys.stdin.readline():
        if os.fork() == 0:
            port, era, *habits = line.split()
            asyncio.run(serve(int(port), era, *habits))
            return


if __name__ == "__main__":
    main()
