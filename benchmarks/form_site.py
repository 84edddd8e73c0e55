"""`python -m benchmarks.form_site`: a page with fields, served until the process is ended.

The demo sites keep what is entered, and their forms want a login; this page can be filled in again and again.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOST = "form.local"
PAGE = Path(__file__).with_name("form.html").read_bytes()
NOTE = json.dumps({"note": "all is well"}).encode()


class FormSite(BaseHTTPRequestHandler):
    """Answers `/note` with JSON, and everything else with the page."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together

    def do_GET(self) -> None:
        kind, body = ("application/json", NOTE) if self.path == "/note" else ("text/html; charset=utf-8", PAGE)
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is that of the library
        """Say nothing."""


def main() -> None:
    """Announce the port as the demo sites announce theirs, and serve."""
    with ThreadingHTTPServer(("127.0.0.1", 0), FormSite) as server:
        print(json.dumps({"hosts": {HOST: server.server_port}}), flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
