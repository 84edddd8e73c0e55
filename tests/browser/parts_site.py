"""A site whose pages lack scripts and stylesheets: by the path of the part, which says what becomes of it.

`/page?HTML` is a page; `/once-reset/NAME.js` is reset the first time, `/reset/...` always, `/500/...` and `/404/...`
have that status, `/ok/NAME.js` writes its name into `#said`. Every connection is closed, since Chromium itself repeats
what is reset on one that it has used before.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

SAYS = "document.getElementById('said').textContent += '{name} '"
KINDS = {".js": "text/javascript", ".css": "text/css"}


class PartsSite(ThreadingHTTPServer):
    """The site, and how often each path was requested, by method."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hits: Counter[str] = Counter()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    server: PartsSite

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.server.hits[f"{self.command} {parts.path}"] += 1
        how, name = PurePosixPath(parts.path).parts[1], PurePosixPath(parts.path)
        if how in ("reset", "once-reset"):
            if how == "reset" or self.server.hits[f"{self.command} {parts.path}"] == 1:
                return self._reset()
            how = "ok"
        if how == "page":
            return self._answer(200, f"<!doctype html><title>Page</title><p id=said></p>{unquote(parts.query)}")
        if how == "posted":
            self.rfile.read(int(self.headers.get("content-length", 0)))
            return self._answer(200, f"<!doctype html><p id=said></p>{unquote(parts.query)}")
        status = 200 if how == "ok" else int(how)
        body = SAYS.format(name=name.stem) if name.suffix == ".js" else ""
        return self._answer(status, body if name.suffix else unquote(parts.query), KINDS.get(name.suffix, "text/html"))

    do_POST = do_GET

    def _answer(self, status: int, text: str, kind: str = "text/html") -> None:
        body = text.encode()
        self.send_response(status)
        for header, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
        }.items():
            self.send_header(header, value)
        self.end_headers()
        self.wfile.write(body)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def finish(self) -> None:
        if self.connection.fileno() != -1:
            super().finish()

    def log_message(self, *_: object) -> None: ...
