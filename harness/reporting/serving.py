"""Serves a built report on this machine alone; the trace viewer needs http."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class _Files(SimpleHTTPRequestHandler):
    """Static files, never cached, nothing logged."""

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *arguments: object) -> None:
        """A report makes hundreds of requests; none is worth a line."""


class _Server(ThreadingHTTPServer):
    """A browser that goes elsewhere breaks off what it was loading: that is no error."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):
            super().handle_error(request, client_address)


def report_server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server on 127.0.0.1, not yet serving; port 0 takes a free one (`server_port`). OSError when it is taken."""
    return _Server(("127.0.0.1", port), partial(_Files, directory=str(folder)))


def serve_folder(folder: Path, port: int = 0, announce: Callable[[str], None] = print) -> None:
    """Serve until Ctrl-C."""
    with report_server(folder, port) as server, contextlib.suppress(KeyboardInterrupt):
        announce(f"report at http://127.0.0.1:{server.server_port}/ (Ctrl-C ends)")
        server.serve_forever()
