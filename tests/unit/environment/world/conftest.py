"""A stdlib server that keeps one document for each world, as a site under test would."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386, by the letter."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


class Answer(BaseHTTPRequestHandler):
    server: EnvironmentServer

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        reply = self.server.reply(self.command, self.path, dict(self.headers), body)
        status, answer = reply
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_PUT = do_PATCH = do_POST = _any

    def log_message(self, *args: object) -> None:
        """Quiet."""


class EnvironmentServer(ThreadingHTTPServer):
    """`calls` is what was asked; `broken` replaces the answers to what it `breaks`; `gate`, while set, delays them.

    `after_put`, when set, is what the site makes of any document that is put.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.seed: Any = {"world": {"now": ""}, "orders": [{"id": 1}, {"id": 2}], "cart": {"a": 1, "b": 2}}
        self.worlds: dict[str, Any] = {}
        self.calls: list[tuple[str, str]] = []
        self.hosts: list[str] = []
        self.broken: tuple[int, bytes] | None = None
        self.breaks = ("GET", "PUT", "PATCH", "POST")
        self.gate: threading.Event | None = None
        self.after_put: Any = None
        self.shallow = False
        """A PATCH replaces whole top-level values, as careless sites do."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up waiting is what some tests are about."""
        if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):
            super().handle_error(request, client_address)

    def reply(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        self.calls.append((method, path))
        self.hosts.append(headers["Host"])
        if self.gate is not None:
            self.gate.wait(20)
        if self.broken is not None and method in self.breaks:
            return self.broken
        world = headers["User-Agent"].removeprefix("harness-channel harness-world/")
        document = self.worlds.setdefault(world, self.seed)
        match method:
            case "PUT":
                document = json.loads(body) if self.after_put is None else self.after_put
            case "PATCH":
                patch = json.loads(body)
                document = {**document, **patch} if self.shallow else merge(document, patch)
            case "POST":
                document = self.seed
        self.worlds[world] = document
        return 200, json.dumps(document).encode()


@pytest.fixture
def environment() -> Iterator[EnvironmentServer]:
    server = EnvironmentServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    if server.gate is not None:
        server.gate.set()
    server.shutdown()
    thread.join()
    server.server_close()
