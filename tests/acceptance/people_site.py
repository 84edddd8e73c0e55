"""A shop in which one person orders and another one confirms. It knows people by a cookie, and counts what is posted.

`/in` asks for a name, which a form posts. `/SHOP/orders` shows to a buyer a button to order, and to a seller one to
confirm; it follows the state of that shop by polling. `/state` has the states of all shops.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

IN = "<form method=post action=/in><input id=name name=name><button>In</button></form>"
PAGE = """<h1 id=who>{who}</h1><p id=state></p><p id=agent></p><p id=price>{price}</p><p id=day></p><input id=note>
<button id=act onclick="post()">{label}</button>
<button id=ask onclick="asked.textContent = String(confirm('sure?'))">ask</button><p id=asked></p>
<button id=banner onclick="this.remove()">cookies</button>
<script>
  console.log('page of {who}');
  localStorage.seen = '{who}';
  agent.textContent = navigator.userAgent.includes('iPhone') ? 'phone' : 'desk';
  day.textContent = new Date().toISOString().slice(0, 10);
  async function post() {{ await fetch('{path}', {{method: 'POST', body: note.value}}); await look(); }}
  async function look() {{ state.textContent = (await (await fetch('/state')).json())['{shop}'] || 'none'; }}
  look(); setInterval(look, 100);
</script>"""


class PeopleSite(BaseHTTPRequestHandler):
    state: ClassVar[dict[str, Any]] = {}
    posted: ClassVar[list[str]] = []
    logins: ClassVar[list[str]] = []

    @property
    def who(self) -> str:
        cookies = dict(each.split("=", 1) for each in (self.headers.get("Cookie") or "").split("; ") if "=" in each)
        return cookies.get("who", "nobody")

    def do_GET(self) -> None:
        _, shop, *rest = urlsplit(self.path).path.split("/")
        if shop == "state":
            self.answer(json.dumps(self.state), "application/json")
        elif rest:
            label, price = ("Confirm", "1.234,50") if self.who == "seller" else ("Order", "1,234.50")
            path = f"/{shop}/{label.lower()}"
            self.answer(PAGE.format(who=self.who, shop=shop, label=label, price=price, path=path))
        else:
            self.answer(IN)

    def do_POST(self) -> None:
        _, shop, *rest = urlsplit(self.path).path.split("/")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        if not rest:
            name = parse_qs(body)["name"][0]
            self.logins.append(name)
            self.answer("", headers={"Location": "/in/orders", "Set-Cookie": f"who={name}; Path=/"}, status=303)
            return
        self.posted.append(f"{self.who} {rest[0]} {shop} {body}".strip())
        self.state[shop] = {"order": "ordered", "confirm": "confirmed"}[rest[0]]
        self.answer("ok")

    def answer(
        self, text: str, kind: str = "text/html", headers: dict[str, str] | None = None, status: int = 200
    ) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        with suppress(OSError):  # the browser was killed
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def people_site() -> Iterator[tuple[str, type[PeopleSite]]]:
    """Its address, and the site with the state of this test alone."""
    own = type("OwnPeopleSite", (PeopleSite,), {"state": {}, "posted": [], "logins": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), own) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", own
        server.shutdown()
