"""A small site for a plain install: `plain_site.py PORT FOLDER`. Its state is a JSON file and a SQLite database."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGE = """<!doctype html><title>Plain</title><h1>Plain</h1>
<form id=form action=/done><input id=name name=name><select id=size name=size><option>S<option>L</select>
<input type=checkbox id=box><input type=file id=file name=file><button id=send>Send</button></form>
<a id=get href=/file download>get</a> <a id=new href=/done target=_blank>new</a> <button id=ask>ask</button>
<p id=asked>no</p><p id=from draggable=true>from</p><p id=to>to</p><p id=flag></p><p id=user></p>
<script>
document.querySelector('#ask').onclick = () => { document.querySelector('#asked').textContent = confirm('Sure?') }
if (location.search === '?login') document.cookie = 'user=ann'
document.querySelector('#user').textContent = document.cookie
document.querySelector('#flag').textContent = (window.__taskspec || {}).flag + ' ' + window.FROM_INIT
fetch('/routed').then(answer => answer.text()).then(text => { document.body.dataset.routed = text })
</script>"""


class Site(BaseHTTPRequestHandler):
    state = Path()

    def do_GET(self) -> None:
        if self.path == "/state":
            self.answer(self.state.read_bytes(), "application/json")
        elif self.path == "/file":
            self.answer(b"a file", "application/octet-stream")
        elif self.path.startswith("/done"):
            self.answer(b"<title>Done</title><h1>Done</h1>", "text/html")
        else:
            self.answer(PAGE.encode(), "text/html")

    def do_PUT(self) -> None:
        self.state.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(b"{}", "application/json")

    def do_PATCH(self) -> None:
        change = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.state.write_text(json.dumps({**json.loads(self.state.read_text("utf-8")), **change}), "utf-8")
        self.answer(b"{}", "application/json")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.state.write_text(json.dumps({"orders": [], "now": None}), "utf-8")
        self.answer(b"{}", "application/json")

    def answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Quiet."""


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    Site.state = folder / "state.json"
    Site.state.write_text(json.dumps({"orders": [], "now": None}), "utf-8")
    (folder / "rows.json").write_text(json.dumps({"total": 1}), "utf-8")
    with closing(sqlite3.connect(folder / "rows.db")) as database:
        database.executescript(
            "CREATE TABLE rows (id TEXT PRIMARY KEY, item TEXT); INSERT INTO rows VALUES ('a', 'pen')"
        )
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Site).serve_forever()
