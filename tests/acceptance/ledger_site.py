"""A site that keeps a number in its folder: `ledger_site.py PORT FOLDER`; it dies when it is asked for `/crash` first.

Without FOLDER it ends at once, as a program does whose database is missing.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Page(BaseHTTPRequestHandler):
    state = Path()

    def do_GET(self) -> None:
        number = json.loads(self.state.read_text("utf-8"))["number"]
        if self.path == "/add":
            number += 1
            self.state.write_text(json.dumps({"number": number}), "utf-8")
        if self.path == "/crash" and not (died := self.state.with_name("died")).exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        body = f"<title>Ledger</title><p id=number>{number}</p>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Quiet."""


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("no database")
    Page.state = Path(sys.argv[2], "state.json")
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
