"""An ordinary to-do application, as a stranger would write it: one state, logins by cookie, no ids of worlds.

`python stranger_app.py --port N [--state FILE]`. It uses the standard library alone and imports nothing of this
project, so that it can be copied into an empty folder. Every order that is placed is appended to the state's `orders`,
and every request to `log`, so that a test can count what really arrived. `/test-state` is its test endpoint: GET reads
the state, PUT replaces it, PATCH merges the top level, POST `/test-state/reset` puts the first state back.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from copy import deepcopy
from html import escape
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

FIRST: dict[str, Any] = {
    "users": {"ann": "s3cret-pass", "bob": "hunter2"},
    "todos": [{"text": "Buy milk", "done": False}, {"text": "Call Eve", "done": False}],
    "orders": [],
    "uploads": [],
    "resets": 0,
}
BUY = """
<a id=link href="/order?item={item}&amp;{more}">by link</a>
<form action="/order" method=get><input type=hidden name=item value="{item}"><button id=get>by a form</button></form>
<form action="/order?{more}" method=post><input type=hidden name=item value="{item}"><button id=post>Buy</button></form>
<button id=fetch>by fetch</button><button id=beacon>by beacon</button><button id=late>by fetch, later</button>
<p id=out></p>
<script>
const send = () => fetch('/order?{more}', {{method: 'POST', body: new URLSearchParams({{item: '{item}'}})}})
  .then(answer => answer.text()).then(() => out.textContent = 'placed');
document.getElementById('fetch').onclick = send;
document.getElementById('late').onclick = () => setTimeout(send, 300);
beacon.onclick = () => navigator.sendBeacon('/order?item={item}&{more}');
</script>"""
"""One item, ordered in every way that there is; `more` is added to what is asked for."""
PAGE = "<!doctype html><html lang=en><title>{title}</title><h1>{title}</h1>{body}"


class Shop:
    """The one state of the application, behind one lock; in a file too, when one is named."""

    def __init__(self, file: Path | None) -> None:
        self.lock = threading.RLock()
        self.file = file
        self.sessions: dict[str, str] = {}
        self.log: list[str] = []
        self.state = deepcopy(FIRST)
        if file is not None and file.is_file():
            self.state |= json.loads(file.read_text("utf-8"))

    def save(self) -> None:
        if self.file is not None:
            self.file.write_text(json.dumps(self.state), "utf-8")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    shop: Shop

    def log_message(self, *_: Any) -> None: ...

    def _answer(
        self, status: int, body: str, kind: str = "text/html", headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _page(self, title: str, body: str, status: int = 200) -> None:
        self._answer(status, PAGE.format(title=title, body=body))

    def _json(self, value: Any) -> None:
        self._answer(200, json.dumps(value), "application/json")

    def _go(self, where: str, *headers: tuple[str, str]) -> None:
        self._answer(303, "", headers=(("Location", where), *headers))

    @property
    def _user(self) -> str | None:
        cookie = SimpleCookie(self.headers.get("Cookie", "")).get("session")
        return self.shop.sessions.get(cookie.value) if cookie else None

    def _begin(self) -> tuple[str, dict[str, str], bytes]:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fields = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if self.headers.get("Content-Type", "").startswith("application/x-www-form-urlencoded"):
            fields |= {key: values[0] for key, values in parse_qs(body.decode()).items()}
        if not parts.path.startswith(("/test-state", "/health")):
            with self.shop.lock:
                self.shop.log.append(f"{self.command} {self.path}")
        return parts.path, fields, body

    def do_GET(self) -> None:
        path, fields, _ = self._begin()
        shop = self.shop
        match path:
            case "/health":
                self._json({"ok": True, "service": "todo"})
            case "/test-state":
                with shop.lock:
                    items = [order["item"] for order in shop.state["orders"]]
                    placed = {item: items.count(item) for item in items}
                    self._json({**shop.state, "placed": placed, "log": shop.log[-200:]})
            case "/login":
                self._page(
                    "Log in",
                    "<form method=post><input name=user id=user><input name=password id=password type=password>"
                    "<button id=login>Log in</button></form>",
                )
            case "/":
                self._list()
            case "/order":  # a GET that writes, as careless applications have
                self._order(fields)
            case "/shop":
                self._page(
                    "Shop",
                    "<a id=get-order href='/order?item=pen'>order by link</a>"
                    "<form action=/order method=get><input name=item value=ink>"
                    "<button id=form-order>by form</button></form>"
                    "<form action=/order method=post><input type=hidden name=item value=book>"
                    "<button id=post-order>Order</button></form>"
                    "<button id=fetch-order onclick=\"fetch('/order',"
                    " {method:'POST', body:new URLSearchParams({item:'cup'})})"
                    ".then(r => r.text()).then(t => out.textContent = 'placed')\">by fetch</button><p id=out></p>",
                )
            case "/buy":
                self._page("Buy", BUY.format(item=escape(fields["item"]), more=escape(fields.get("more", ""))))
            case "/thanks":
                self._page("Thanks", "<p id=order>placed</p>")
            case "/loop":
                self._answer(302, "", headers=(("Location", "/loop"),))
            case "/broken":
                self.close_connection = True
            case "/leaves":  # it goes on to another page by itself
                self._page("Leaving", "<script>setTimeout(() => location.href = '/slow?seconds=0', 1200)</script>")
            case "/flags":  # its script runs as the page is read
                show = "document.getElementById('flags').textContent = JSON.stringify(window.FLAGS)"
                self._page("Flags", f"<p id=flags></p><script>{show}</script>")
            case "/hangs":
                self._page("Hangs", "<p id=x>here</p><script>setTimeout(() => { for (;;); }, 1200)</script>")
            case "/closes":  # where a page that was opened by another may
                link = "<a id=open target=_blank rel=opener href=/closes?soon=1>open</a>"
                soon = "<p id=x>here</p><script>setTimeout(() => window.close(), 1200)</script>"
                self._page("Closes", soon if "soon" in fields else link)
            case "/upload":
                self._page(
                    "Upload",
                    "<form method=post enctype=multipart/form-data><input type=file name=file id=file>"
                    "<button id=send>Send</button></form>",
                )
            case "/frame":
                self._page("Frame", "<iframe id=inner src=/frame/inner></iframe>")
            case "/frame/inner":
                self._page("Inner", "<button id=hello onclick=\"this.textContent='hello'\">press</button>")
            case "/flaky":  # the first request of a visitor fails, as behind a server that is being replaced
                first = sum(f"GET {self.path}" == line for line in shop.log) == 1
                self._page("Flaky", "<p id=flaky>it works</p>", 503 if first else 200)
            case "/slow":
                time.sleep(min(float(fields.get("seconds", "1")), 120))
                self._page("Slow", "<p id=slow>slow page</p>")
            case "/late":  # there at once, and complete later
                after = int(float(fields.get("seconds", "1")) * 1000)
                self._page("Late", f"<p id=out>not yet</p><script>setTimeout(() => out.id = 'late', {after})</script>")
            case _:
                self._page("Not found", path, 404)

    def _list(self) -> None:
        if self._user is None:
            self._go("/login")
            return
        with self.shop.lock:
            rows = "".join(
                f"<li class='{'done' if todo['done'] else 'open'}'>{escape(todo['text'])}"
                f"<form method=post action='/todo/{number}/done'><button>Done</button></form></li>"
                for number, todo in enumerate(self.shop.state["todos"])
            )
        self._page(
            "To do",
            f"<p id=who>{escape(self._user)}</p><ul id=todos>{rows}</ul>"
            "<form method=post action=/todo><input name=text id=text><button id=add>Add</button></form>",
        )

    def _order(self, fields: dict[str, str]) -> None:
        with self.shop.lock:
            orders = self.shop.state["orders"]
            orders.append({"item": fields.get("item", ""), "number": len(orders) + 1})
            self.shop.save()
            number = len(orders)
        if "to" in fields:
            self._go(fields["to"])
        else:
            self._page("Thank you", f"<p id=order>order {number}</p>", int(fields.get("status", "200")))

    def do_POST(self) -> None:
        path, fields, body = self._begin()
        shop = self.shop
        with shop.lock:
            match path.strip("/").split("/"):
                case ["login"]:
                    self._login(fields)
                    return
                case ["test-state", "reset"]:
                    resets = shop.state["resets"] + 1
                    shop.state = {**deepcopy(FIRST), "resets": resets}
                case ["todo"]:
                    shop.state["todos"].append({"text": fields.get("text", ""), "done": False})
                case ["todo", number, "done"]:
                    shop.state["todos"][int(number)]["done"] = True
                case ["order"]:
                    self._order(fields)
                    return
                case ["upload"]:
                    shop.state["uploads"].append(len(body))
                case _:
                    self._page("Not found", path, 404)
                    return
            shop.save()
        if path.startswith("/test-state"):
            self._json({"ok": True})
        else:
            self._go("/" if path.startswith("/todo") else path)

    def _login(self, fields: dict[str, str]) -> None:
        user = fields.get("user", "")
        if self.shop.state["users"].get(user) != fields.get("password"):
            self._page("Log in", "<p id=error>Wrong password</p>", 401)
            return
        session = f"{user}-{len(self.shop.sessions)}"
        self.shop.sessions[session] = user
        self._go("/", ("Set-Cookie", f"session={session}; Path=/; HttpOnly"))

    def do_PUT(self) -> None:
        _, _, body = self._begin()
        with self.shop.lock:
            self.shop.state = {key: value for key, value in json.loads(body).items() if key != "log"}
            self.shop.save()
        self._json({"ok": True})

    def do_PATCH(self) -> None:
        _, _, body = self._begin()
        with self.shop.lock:
            self.shop.state |= json.loads(body)
            self.shop.save()
        self._json({"ok": True})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--state", type=Path)
    arguments = parser.parse_args()
    Handler.shop = Shop(arguments.state)
    server = ThreadingHTTPServer(("127.0.0.1", arguments.port), Handler)
    print(json.dumps({"port": server.server_address[1]}), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
