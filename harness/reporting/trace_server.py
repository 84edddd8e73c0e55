"""Serves one trace with Playwright's own trace viewer, on this machine alone; nothing is copied."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from harness.reporting.trace_viewer import VIEWER

TRACE = "/traces/trace.zip"
ADDRESS = f"/{VIEWER}/index.html?trace=..{TRACE}"
"""Of the viewer, with the trace in it; it resolves `trace` against its own place."""


class _Viewer(SimpleHTTPRequestHandler):
    """The viewer's files, and the trace; never cached, nothing logged."""

    def __init__(self, *arguments: object, trace: Path, viewer: Path) -> None:
        self._trace = trace
        super().__init__(*arguments, directory=str(viewer))  # type: ignore[arg-type]

    def translate_path(self, path: str) -> str:
        """Outside of the viewer there is the trace, and nothing else."""
        wanted = unquote(urlsplit(path).path)
        if wanted == TRACE:
            return str(self._trace)
        inside = wanted.removeprefix(f"/{VIEWER}")
        return super().translate_path(inside) if inside != wanted else str(self._trace / "nothing")

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *arguments: object) -> None:
        """The viewer asks for dozens of files."""


def trace_server(trace: Path, viewer: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server on 127.0.0.1, not yet serving; port 0 takes a free one. OSError when it is taken."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(_Viewer, trace=trace.resolve(), viewer=viewer))
