"""Serves a built report, or one trace, with Playwright's own trace viewer, only on this machine."""

from __future__ import annotations

import contextlib
import html
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from email.message import Message
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from harness.spec.names import read_host

VIEWER = "trace-viewer"
_TRACES = "traces"

HERE = "http://report.invalid/"
"""A placeholder for the report's own address in its links, since Allure shows no relative links."""

HERE_SCRIPT = f"""<script>
document.addEventListener("click", (event) => {{
  const link = event.target.closest?.('a[href^="{HERE}"]');
  if (link) link.href = link.href.replace("{HERE}", new URL(".", location.href.split("#")[0]).href);
}}, true);
</script>
"""
"""Replaces the placeholder by the real address when such a link is clicked."""


class TraceFile(Struct, frozen=True):
    """A trace.zip among the Allure results, and its test."""

    test: str
    status: str
    file: str

    @property
    def link(self) -> str:
        """The link relative to the report's folder; the viewer resolves `trace` against its own."""
        return f"{VIEWER}/index.html?trace=../{_TRACES}/{self.file}"


def add_viewer(report: Path, results: Path, traces: Iterable[TraceFile]) -> bool:
    """Add the viewer; returns False without traces, or if the Playwright package has no viewer."""
    found, source = list(traces), viewer_folder()
    if not found or source is None:
        return False
    shutil.copytree(source, report / VIEWER, dirs_exist_ok=True)
    (report / _TRACES).mkdir(exist_ok=True)
    for trace in found:
        link_or_copy(results / trace.file, report / _TRACES / trace.file)
    (report / _TRACES / "index.html").write_text(_page(found), "utf-8")
    return True


def viewer_folder() -> Path | None:
    """The folder of the trace viewer in the installed Playwright (static files)."""
    spec = importlib.util.find_spec("playwright")
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place, "driver", "package", "lib", "vite", "traceViewer")
        if (folder / "index.html").is_file():
            return folder
    return None


def link_or_copy(source: Path, target: Path) -> None:
    """Make a hard link if the disk allows it, since traces are large."""
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


def _page(traces: list[TraceFile]) -> str:
    rows = "".join(
        f'<tr><td>{html.escape(trace.status)}</td><td><a href="../{html.escape(trace.link)}">{html.escape(trace.test)}'
        f'</a></td><td><a href="{html.escape(trace.file)}" download>trace.zip</a></td></tr>\n'
        for trace in sorted(traces, key=lambda trace: trace.test)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Traces</title>\n'
        "<style>body{font:15px sans-serif;margin:2em}td{padding:.3em 1em .3em 0}</style></head>\n"
        f'<body><h1>Traces</h1><table>\n{rows}</table><p><a href="../index.html">Report</a></p></body></html>\n'
    )


# Serves a built report on this machine alone; the trace viewer needs http.

_NAMES = ("127.0.0.1", "localhost")
_UNTRUSTED = ("data", "attachments", _TRACES)
"""Folders with files from pages and tests."""
SANDBOX = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The policy for each of those files when opened alone: it runs and loads nothing, and has its own origin."""


def _is_own_host(headers: Message) -> bool:
    """Return whether a request names this machine as its host, and nothing else; HTTP/1.0 need not name any."""
    told = headers.get_all("Host", [_NAMES[0]])
    host = read_host(told[0]) if len(told) == 1 else None
    return host is not None and host.name in _NAMES


class _Files(SimpleHTTPRequestHandler):
    """Static files, never cached, nothing listed, nothing logged."""

    def send_head(self) -> Any:
        """Answer only requests from this machine under its own names, so that no web site can read these files."""
        if not _is_own_host(self.headers):
            self.send_error(HTTPStatus.FORBIDDEN)
            return None
        if "%00" in self.path or not self._is_inside():  # no file has such a name
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def _is_inside(self) -> bool:
        """Return whether the file lies in the report: a link must not lead out of it."""
        path = Path(self.translate_path(self.path)).resolve()
        return path.is_relative_to(Path(self.directory).resolve())

    def _is_untrusted(self) -> bool:
        return is_untrusted(getattr(self, "path", ""))

    def list_directory(self, path: Any) -> None:  # noqa: ARG002 - as the base class has it
        self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        if self._is_untrusted():
            self.send_header("Content-Security-Policy", SANDBOX)
        super().end_headers()

    def log_message(self, *arguments: object) -> None:
        """Log nothing: a report makes hundreds of requests."""


def is_untrusted(path: str) -> bool:
    """Return whether a file of the report was made by a page or a test; the list of traces is our own page."""
    parts = [part for part in unquote(urlsplit(path).path).split("/") if part not in ("", ".")]
    return any(part in _UNTRUSTED for part in parts) and parts != [_TRACES, "index.html"]


class _Server(ThreadingHTTPServer):
    """A server that ignores aborted connections: a browser that navigates away is no error."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):
            super().handle_error(request, client_address)


def report_server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server on 127.0.0.1, not yet serving; port 0 chooses one (`server_port`). Raises OSError if it is taken."""
    return _Server(("127.0.0.1", port), partial(_Files, directory=str(folder)))


def serve_folder(
    folder: Path,
    port: int = 0,
    announce: Callable[[str], None] = print,
    opened: Callable[[str], object] = lambda _address: None,
) -> None:
    """Serve until Ctrl-C; `opened` is called with the address once it answers."""
    with report_server(folder, port) as server, contextlib.suppress(KeyboardInterrupt):
        address = f"http://127.0.0.1:{server.server_port}/"
        announce(f"report at {address} (Ctrl-C ends)")
        opened(address)
        server.serve_forever()


# Serves one trace with Playwright's own trace viewer, on this machine alone; nothing is copied.

_TRACE = "/traces/trace.zip"
ADDRESS = f"/{VIEWER}/index.html?trace=..{_TRACE}"
"""The address of the viewer with the trace in it; it resolves `trace` against its own place."""


class _Viewer(_Files):
    """Serves the viewer's files and the trace, and no other file."""

    def __init__(self, *arguments: Any, trace: Path, viewer: Path) -> None:
        self._trace = trace
        super().__init__(*arguments, directory=str(viewer))

    def translate_path(self, path: str) -> str:
        wanted = unquote(urlsplit(path).path)
        if wanted == _TRACE:
            return str(self._trace)
        inside = wanted.removeprefix(f"/{VIEWER}/")
        return super().translate_path(f"/{inside}") if inside != wanted else str(self._trace / "nothing")

    def _is_inside(self) -> bool:
        return True  # the trace lies elsewhere, and the viewer has no links

    def _is_untrusted(self) -> bool:
        return False  # the viewer reads the trace; it is never opened alone


def trace_server(trace: Path, viewer: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server on 127.0.0.1, not yet serving; port 0 chooses a free one. Raises OSError if it is taken."""
    return _Server(("127.0.0.1", port), partial(_Viewer, trace=trace.resolve(), viewer=viewer))
