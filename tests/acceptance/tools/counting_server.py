"""A shop's tool server that counts what it does in SQLite and can misbehave; the standard library alone, no MCP SDK.

`counting_server.py DATABASE stdio ERA [HABIT ...]` speaks over standard input and output, `counting_server.py DATABASE
http` writes its port and serves `/ERA/NAME[/HABIT...]`. ERA is `new` (2026-07-28) or `old` (2025-11-25). The argument
`case` names who is counted; `does` says how the call misbehaves: the first `times` times (0: always).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ARGUMENTS = {
    "case": {"type": "string"},
    "does": {"type": "string"},
    "times": {"type": "integer"},
    "size": {"type": "integer"},
}
SCHEMA = {"type": "object", "properties": ARGUMENTS, "required": ["case"]}
TOOLS = [
    {"name": "get_order", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
    {"name": "set_order", "inputSchema": SCHEMA, "annotations": {"idempotentHint": True}},
    {"name": "place_order", "inputSchema": SCHEMA},
    {"name": "get_books", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]
INFO = {"name": "counting", "version": "1"}
LONG = 600.0
LINGER_NOT = struct.pack("ii", 1, 0)


class Books:
    """What reached the server, and what took effect."""

    def __init__(self, file: Path) -> None:
        self.file = file
        with closing(self.open()) as database, database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("CREATE TABLE IF NOT EXISTS seen (what TEXT, name TEXT, tool TEXT, at REAL)")

    def open(self) -> sqlite3.Connection:
        return sqlite3.connect(self.file, timeout=30)

    def note(self, what: str, name: str, tool: str = "") -> int:
        """Add a line (`request`, `call`, `effect`); return how many there are like it."""
        with closing(self.open()) as database, database:
            database.execute("INSERT INTO seen VALUES (?, ?, ?, ?)", (what, name, tool, time.time()))
            return self.count(what, name, database)

    def count(self, what: str, name: str, database: sqlite3.Connection | None = None) -> int:
        if database is None:
            with closing(self.open()) as opened:
                return self.count(what, name, opened)
        ((number,),) = database.execute("SELECT count(*) FROM seen WHERE what = ? AND name = ?", (what, name))
        return int(number)

    def order(self, what: str, wanted: bool = True) -> None:
        """Let all servers of the folder behave in this way from now on, or no more."""
        file = self.file.with_name(what)
        if wanted:
            file.touch()
        else:
            file.unlink()

    def is_ordered(self, what: str) -> bool:
        return self.file.with_name(what).exists()

    def all(self, what: str) -> dict[str, int]:
        """Name -> how many there are."""
        with closing(self.open()) as database:
            return dict(database.execute("SELECT name, count(*) FROM seen WHERE what = ? GROUP BY name", (what,)))

    def times(self, what: str, name: str) -> list[float]:
        """When each came."""
        with closing(self.open()) as database:
            return [at for (at,) in database.execute("SELECT at FROM seen WHERE what = ? AND name = ?", (what, name))]


class Ending(Exception):
    """There is no answer: the process ends, or the connection is reset."""


class Refusal(Exception):
    """An HTTP status instead of an answer."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(status)
        self.status, self.headers = status, {name.replace("_", "-"): value for name, value in headers.items()}


class Objection(Exception):
    """An error of JSON-RPC instead of a result."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)


def answer(request: dict[str, Any], era: str, books: Books, say: Callable[[str], None]) -> dict[str, Any]:
    """The message that answers a request; `say` writes a line of no meaning."""
    method, params = request["method"], request.get("params") or {}
    try:
        result = _result(method, params, era, books, say)
    except Objection as error:
        code, message = error.args
        return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}}
    if era == "new":
        result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", **result}
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def _result(method: str, params: dict[str, Any], era: str, books: Books, say: Callable[[str], None]) -> dict[str, Any]:
    match method:
        case "server/discover" if era == "new":
            info = {"io.modelcontextprotocol/serverInfo": INFO}
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "_meta": info}
        case "initialize" if era == "old":
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO}
        case "tools/list":
            return _list(books)
        case "tools/call":
            return _call(params["name"], params.get("arguments") or {}, books, say)
        case _:
            raise Objection(-32601, f"Method not found: {method}")


def _list(books: Books) -> dict[str, Any]:
    books.note("list", "all")
    if books.is_ordered("slow_list"):
        time.sleep(3)
    if books.is_ordered("no_list"):
        raise Objection(-32603, "the catalogue is being painted")
    books.note("listed", "all")
    return {"tools": TOOLS}


def _call(tool: str, arguments: dict[str, Any], books: Books, say: Callable[[str], None]) -> dict[str, Any]:
    if tool == "get_books":
        return _found({"effects": books.all("effect")})
    case, does, times = arguments["case"], arguments.get("does", ""), arguments.get("times", 0)
    number = books.note("call", case, tool)
    if times and number > times:
        does = ""
    match does:
        case "die":
            raise Ending
        case "fail":
            return {"content": [{"type": "text", "text": "no stock"}], "isError": True}
        case "busy":
            raise Refusal(503, Retry_After="1")
        case "limited":
            raise Refusal(429, Retry_After="1")
        case "unauthorized":
            raise Refusal(401, WWW_Authenticate="Bearer")
        case "forbidden":
            raise Refusal(403)
        case "forget":
            raise Refusal(404)
        case "unknown":
            raise Objection(-32602, f"Unknown tool: {tool}")
        case "input":
            form = {
                "method": "elicitation/create",
                "params": {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}},
            }
            return {"resultType": "input_required", "inputRequests": {"a": form}, "requestState": "s"}
    books.note("effect", case, tool)
    match does:
        case "lose":
            raise Ending
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(LONG)  # the signal stops another thread first, and this one would still answer
        case "hang":
            time.sleep(LONG)
        case "garble":
            return {"content": "none"}
        case "junk":
            say("Listening on nothing\n\n{}\n[1, 2]\n")
    return _found({"case": case, "status": "confirmed", "more": "x" * arguments.get("size", 0)})


def _found(found: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": json.dumps(found)}], "structuredContent": found}


def serve_stdio(books: Books, era: str, *habits: str) -> None:
    """Answer each line in a thread of its own; end with standard input, unless a habit forbids it."""
    lock = threading.Lock()

    def say(line: str) -> None:
        with lock:
            sys.stdout.write(line)
            sys.stdout.flush()

    def respond(request: dict[str, Any]) -> None:
        try:
            say(json.dumps(answer(request, era, books, say)) + "\n")
        except Ending:
            sys.stderr.write("the till is on fire\n")
            sys.stderr.flush()
            os.execv("/bin/sh", ["sh", "-c", "exit 3"])

    books.note("start", "all")
    if books.is_ordered("dies"):
        sys.exit("no database")
    if "deaf" in habits:
        time.sleep(LONG)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            threading.Thread(target=respond, args=(request,), daemon=True).start()
    if "stubborn" in habits:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(LONG)


class Handler(BaseHTTPRequestHandler):
    """`POST /ERA/NAME[/HABIT...]`, each request answered as one JSON document."""

    protocol_version = "HTTP/1.1"
    books: Books

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._send(405, b"")

    do_DELETE = do_GET

    def do_POST(self) -> None:
        _, era, name, *habits = self.path.split("/")
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = self.books.note("request", name, request["method"])
        try:
            self._gate(name, habits, number)
            if "id" not in request:
                return self._send(202, b"")
            session = {"Mcp-Session-Id": f"{name}-{number}"} if request["method"] == "initialize" else {}
            self._send(200, json.dumps(answer(request, era, self.books, lambda _: None)).encode(), **session)
        except Refusal as refusal:
            self._send(refusal.status, b"Session not found" if refusal.status == 404 else b"not now", **refusal.headers)
        except Ending:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
            self.close_connection = True
            self.connection.close()
        return None

    def _gate(self, name: str, habits: list[str], number: int) -> None:
        if "late" in habits and number <= 2:
            raise Ending
        if "guarded" in habits and self.headers["Authorization"] != f"Bearer {self._token(name)}":
            raise Refusal(401, WWW_Authenticate="Bearer")

    def _token(self, name: str) -> str:
        file = self.books.file.with_name(f"{name}.token")
        return file.read_text() if file.exists() else "secret"

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve_http(books: Books, port: int = 0) -> None:
    """Write the port, and serve."""
    Handler.books = books
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


def main(database: str, transport: str, *more: str) -> None:
    books = Books(Path(database))
    if transport == "stdio":
        serve_stdio(books, *more)
    else:
        serve_http(books, *(int(port) for port in more))


if __name__ == "__main__":
    main(*sys.argv[1:])
