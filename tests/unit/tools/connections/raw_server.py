"""A tool server without a library, which can misbehave: `python raw_server.py [new|old] [habit ...]`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

ERA, HABITS = sys.argv[1], set(sys.argv[2:])
OUT = threading.Lock()
INFO = {"name": "raw", "version": "1"}
TOOLS = [
    {
        "name": "echo",
        "description": "Says it again.",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True, "destructiveHint": True},
    },
    {"name": "strict", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object", "required": ["n"]}},
]


def write(message: dict[str, Any]) -> None:
    with OUT:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def call(name: str, arguments: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    match name:
        case "sleep":
            time.sleep(arguments["seconds"])
            return text("slept")
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "endless":
            news = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}})
            part = {"line": "x" * 1000, "lines": "not of MCP\n", "news": news + "\n"}[arguments["kind"]]
            with OUT:
                while True:
                    sys.stdout.write(part)
        case "close":
            os.close(1)
            time.sleep(60)
        case "junk":
            with OUT:
                sys.stdout.write('Listening on nothing\n\n{}\n[1, 2]\n{"jsonrpc": "2.0"}\n\x00\x01\n')
            return text("after junk")
        case "big":
            return text("x" * arguments["size"])
        case "parts":
            image = {"type": "image", "mimeType": "image/png", "data": "AAECAw=="}
            link = {"type": "resource_link", "uri": "file:///a.txt", "name": "a"}
            inner = {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "four"}}
            return {"content": [{"type": "text", "text": "one"}, image, link, inner], "structuredContent": {"n": 1}}
        case "fails":
            return {**text("no stock"), "isError": True}
        case "unknown_here":
            return {**text("Unknown tool: unknown_here"), "isError": True}
        case "invalid_here":
            return {**text("MCP error -32602: Input validation error: n is required"), "isError": True}
        case "wrong":
            return {"content": "none"}
        case "strict":
            return {**text("{}"), "structuredContent": {"m": 1}}
        case "input":
            schema = {"type": "object", "properties": {}}
            asked = {"method": "elicitation/create", "params": {"message": "who?", "requestedSchema": schema}}
            return {"resultType": "input_required", "inputRequests": {"a": asked}, "requestState": "s"}
        case "change":
            write({"method": "notifications/tools/list_changed"})
            return text("changed")
    return {**text(json.dumps(arguments)), "structuredContent": {"arguments": arguments, "meta": meta}}


REFUSALS = {
    "missing": (-32602, "Tool missing not found"),
    "badly": (-32602, "Invalid arguments for tool badly: n is required"),
    "broken": (-32603, "division by zero"),
    "nonsense": (-32600, "Invalid Request"),
    "refuses": (0, "as its arguments say"),
}


def answer(request: dict[str, Any]) -> None:
    method, params = request["method"], request.get("params") or {}
    result: dict[str, Any] | None = None
    if method == "server/discover" and ERA == "new":
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        result |= {"_meta": {"io.modelcontextprotocol/serverInfo": INFO}}
    elif method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}, "serverInfo": INFO}
    elif method == "tools/list":
        later = {"nextCursor": "2"} if not params.get("cursor") else {}
        result = {"tools": TOOLS[:1] if later else TOOLS[1:], **later}
    elif method == "tools/call" and params["name"] not in REFUSALS:
        result = call(params["name"], params.get("arguments") or {}, params.get("_meta") or {})
    if result is not None and ERA == "new":
        result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", **result}
    if result is not None:
        write({"id": request["id"], "result": result})
    else:
        code, message = REFUSALS.get(params.get("name", ""), (-32601, "Method not found"))
        if params.get("name") == "refuses":
            code, message = params["arguments"]["code"], params["arguments"]["message"]
            sys.stderr.write("refused\n")
        write({"id": request["id"], "error": {"code": code, "message": message}})


def main() -> None:
    if "stubborn" in HABITS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "dies" in HABITS:
        sys.exit("no database")
    if "deaf" in HABITS:
        time.sleep(60)
    if "talks" in HABITS:
        print("Welcome to the server!", flush=True)
        time.sleep(60)
    calls = 0
    for line in sys.stdin:
        request = json.loads(line)
        if (request.get("params") or {}).get("name") == "exit":
            sys.stderr.write("out of order\n")
            sys.exit(3)
        if "id" in request:
            threading.Thread(target=answer, args=(request,), daemon=True).start()
        calls += request["method"] == "tools/call"
        if "tired" in HABITS and calls:
            time.sleep(60)
    if "stubborn" in HABITS or "ignores_eof" in HABITS:
        time.sleep(60)


if __name__ == "__main__":
    main()
