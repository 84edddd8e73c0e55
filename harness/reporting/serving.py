"""Serves a built report on this machine alone; the trace viewer needs http."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from harness.reporting.trace_viewer import TRACES

NAMES = ("127.0.0.1", "localhost")
UNTRUSTED = ("data", "attachments", TRACES)
"""Folders whose files pages and tests have filled."""
SANDBOX = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""For each of them when it is opened on its own: it runs nothing, loads nothing, and is no part of this site."""


class _Files(SimpleHTTPRequestHandler):
    """Static files, never cached, nothing listed, nothing logged."""

    def send_head(self) -> Any:
        """Only for this machine under its own names, so that no web site can read the report by a name it owns."""
        if self.headers.get("Host", NAMES[0]).rsplit(":", 1)[0] not in NAMES:
            self.send_error(HTTPStatus.FORBIDDEN)
            return None
        if not self._inside():
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def _inside(self) -> bool:
        """A link must not lead out of the report."""
        path = Path(self.translate_path(self.path)).resolve()
        return path.is_relative_to(Path(self.directory).resolve())

    def list_directory(self, path: Any) -> None:  # noqa: ARG002 - as the base class has it
        self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        if is_untrusted(getattr(self, "path", "")):
            self.send_header("Content-Security-Policy", SANDBOX)
        super().end_headers()

    def log_message(self, *arguments: object) -> None:
        """A report makes hundreds of requests; none is worth a line."""


def is_untrusted(path: str) -> bool:
    """Whether a file of the report was made by a page or a test; the list of traces is our own page."""
    parts = [part for part in unquote(urlsplit(path).path).split("/") if part not in ("", ".")]
    return any(part in UNTRUSTED for part in parts) and parts != [TRACES, "index.html"]


class _Server(ThreadingHTTPServer):
    """A browser that goes elsewhere breaks off what it was loading: that is no error."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):
            super().handle_error(request, client_address)


def report_server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server on 127.0.0.1, not yet serving; port 0 takes a free one (`server_port`). OSError when it is taken."""
    return _Server(("127.0.0.1", port), partial(_Files, directory=str(folder)))


def serve_folder(
    folder: Path,
    port: int = 0,
    announce: Callable[[str], None] = print,
    opened: Callable[[str], object] = lambda _address: None,
) -> None:
    """Serve until Ctrl-C; `opened` is given the address once it answers."""
    with report_server(folder, port) as server, contextlib.suppress(KeyboardInterrupt):
        address = f"http://127.0.0.1:{server.server_port}/"
        announce(f"report at {address} (Ctrl-C ends)")
        opened(address)
        server.serve_forever()
