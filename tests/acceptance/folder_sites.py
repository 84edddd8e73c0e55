"""Three sites below one host, as the server of somebody else's suite: its state is in files, its pages share a script.

`folder_sites.py --seed FOLDER` writes the first state, `folder_sites.py PORT FOLDER` serves it. The memory is a table
of texts, each the JSON of its value. It uses the standard library alone.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TABLE = "CREATE TABLE memory_kv (key TEXT PRIMARY KEY, value TEXT, ts TEXT, source TEXT, confidence REAL)"
SCRIPT = """
const site = location.pathname.split('/')[1];
document.getElementById('go').onclick = async () => {
  const item = document.getElementById('item').value;
  const answer = await fetch('/api/mutate', {method: 'POST', body: JSON.stringify({site, item})});
  document.getElementById('out').textContent = 'done ' + (await answer.json()).count;
};
"""
PAGE = "<h1>{site}</h1><input id=item><button id=go>Go</button><p id=out></p><script src=/static/common.js></script>"


def seed(folder: Path) -> None:
    (folder / "env.json").write_text("{}", "utf-8")
    (folder / "memory.sqlite3").unlink(missing_ok=True)
    with closing(sqlite3.connect(folder / "memory.sqlite3")) as db:
        db.execute(TABLE)
        db.execute("INSERT INTO memory_kv VALUES ('user.age', '20.0', '2025', 'site', 1)")
        db.commit()


class Handler(BaseHTTPRequestHandler):
    folder: Path

    def log_message(self, *_: Any) -> None: ...

    def answer(self, body: str, kind: str = "text/html") -> None:
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self) -> None:
        site = self.path.split("/")[1]
        if site == "static":
            return self.answer(SCRIPT, "text/javascript")
        return self.answer(PAGE.format(site=site) if site.endswith(".local") else "ok")

    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        file = self.folder / "env.json"
        state = json.loads(file.read_text("utf-8"))
        orders = state.setdefault(told["site"].removesuffix(".local"), [])
        orders.append({"item": told["item"]})
        file.write_text(json.dumps(state), "utf-8")
        with closing(sqlite3.connect(self.folder / "memory.sqlite3")) as db:
            row = (f"{told['site']}.count", json.dumps(len(orders) * 1.0), "2025", "site", 1)
            db.execute("INSERT OR REPLACE INTO memory_kv VALUES (?, ?, ?, ?, ?)", row)
            db.commit()
        self.answer(json.dumps({"count": len(orders)}), "application/json")


if __name__ == "__main__":
    Handler.folder = Path(sys.argv[2])
    if sys.argv[1] == "--seed":
        seed(Handler.folder)
    else:
        if not (Handler.folder / "env.json").exists():
            seed(Handler.folder)
        ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
