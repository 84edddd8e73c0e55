"""Serves one trace with Playwright's own trace viewer, on this machine alone; nothing is copied."""

from __future__ import annotations

import sys
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from harness.reporting.serving import NAMES
from harness.reporting.trace_viewer import VIEWER

TRACE = "/traces/trace.zip"
ADDRESS = f"/{VIEWER}/index.html?trace=..{TRACE}"
"""Of the viewer, with the trace in it; it resolves `trace` against its own place."""


class _Viewer(SimpleHTTPRequestHandler):
    """The viewer's files and the trace, and nothing else of the machine; never cached, nothing listed or logged."""

    def __init__(self, *arguments: Any, trace: Path, viewer: Path) -> None:
        self._trace = trace
        super().__init__(*arguments, directory=str(viewer))

    def send_head(self) -> Any:
        """Only for this machine under its own names, so that no web site can read the trace by a name it owns."""
        if self.headers.get("Host", NAMES[0]).rsplit(":", 1)[0] not in NAMES:
            self.send_error(HTTPStatus.FORBIDDEN)
            return None
        return super().send_head()

    def translate_path(self, path: str) -> str:
        wanted = unquote(urlsplit(path).path)
        if wanted == TRACE:
            return str(self._trace)
        inside = wanted.removeprefix(f"/{VIEWER}/")
        return super().translate_path(f"/{inside}") if inside != wanted else str(self._trace / "nothing")

    def list_directory(self, path: Any) -> None:  # noqa: ARG002 - as the base class has it
        self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, *arguments: object) -> None:
        """The viewer asks for dozens of files."""


class _Server(ThreadingHTTPServer):
    """A window that is closed while it loads is no error."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):
            super().handle_error(request, client_address)


def trace_server(trace: Path, viewer: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server on 127.0.0.1, not yet serving; port 0 takes a free one. OSError when it is taken."""
    return _Server(("127.0.0.1", port), partial(_Viewer, trace=trace.resolve(), viewer=viewer))
