"""A site that counts what it does, on raw connections that it may close, reset or leave open.

An order is written to a file before its answer, whatever becomes of the connection. `GET /env` is the channel.
"""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from benchmarks.never_twice.pages import KINDS, PAGE
from benchmarks.never_twice.tables import ANSWERS, FAILURES, Answer

_GO: Final = (
    "const send=a=>fetch(a,{method:'POST',body:'x'});"
    "const go=d=>d.late===undefined?send(d):new Promise(r=>setTimeout(()=>send(d.url).then(r),d.late))"
)
SCRIPTS: Final = {
    "/worker.js": "onmessage=m=>{if(m.data.ws){const s=new WebSocket(m.data.ws);s.onopen=()=>s.send(m.data.url)}"
    "else fetch(m.data,{method:'POST',body:'x'})}",
    "/nested.js": "const w=new Worker('/worker.js');onmessage=m=>w.postMessage(m.data)",
    "/shared.js": "onconnect=e=>e.ports[0].onmessage=m=>go(m.data);" + _GO,
    "/sw.js": "oninstall=()=>skipWaiting();onactivate=e=>e.waitUntil(clients.claim());"
    "onmessage=e=>e.waitUntil(go(e.data));onfetch=e=>{if(e.request.method!='GET')e.respondWith(fetch(e.request))};"
    + _GO,
}
LISTENER: Final = """<!doctype html><title>listener</title><script>
const T={trial!r},go=a=>fetch(a,{{method:'POST',body:'x'}});
new BroadcastChannel('c'+T).onmessage=m=>go(m.data);onmessage=m=>go(m.data);
addEventListener('storage',e=>e.key=='o'+T&&go(e.newValue));</script>"""
AUTO: Final = "<!doctype html><title>auto</title><script>fetch({to!r},{{method:'POST',body:'x'}})</script>"
RESET: Final = struct.pack("ii", 1, 0)


class Counted:
    """What arrived and what was done, in a file, so that nothing is lost."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("a+", encoding="utf-8")
        self._lock = threading.Lock()
        self._file.seek(0)
        self.arrivals: list[dict[str, Any]] = [json.loads(line) for line in self._file]
        self.views: Counter[str] = Counter()

    def arrived(self, query: Mapping[str, str], method: str, *, effect: bool) -> None:
        """An order has arrived; `effect`: and is done."""
        note = {"trial": query.get("trial", ""), "n": query.get("n", ""), "again": "again" in query, "method": method}
        with self._lock:
            self.arrivals.append({**note, "effect": effect, "at": time.time()})
            print(json.dumps(self.arrivals[-1]), file=self._file, flush=True)

    def nth(self, what: str) -> int:
        """How often this was asked for, this time included."""
        with self._lock:
            self.views[what] += 1
            return self.views[what]

    def effects(self) -> Counter[str]:
        """How often the order of each trial was done; what a page repeats by itself is told apart by the site."""
        return Counter(each["trial"] for each in list(self.arrivals) if each["effect"] and not each["again"])

    def resent(self) -> Counter[str]:
        """How many orders of each trial arrived although the page had sent them once."""
        seen = Counter(
            (each["trial"], each["n"]) for each in list(self.arrivals) if each["effect"] and not each["again"]
        )
        return Counter({trial: count - 1 for (trial, _), count in seen.items() if count > 1})


class Site(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    counted: Counted
    wbufsize = -1

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        self.query = {name: values[-1] for name, values in parse_qs(address.query).items()}
        if address.path == "/order":
            return self._order()
        if (length := int(self.headers.get("Content-Length") or 0)) and address.path != "/order":
            self.rfile.read(length)
        found = _PLACES.get(address.path)
        if found is not None:
            return found(self)
        script = SCRIPTS.get(address.path)
        return self._answer(
            script or "<h1>404</h1>", "text/javascript" if script else "text/html", 200 if script else 404
        )

    def _order(self) -> None:
        does = self.command not in ("GET", "HEAD", "OPTIONS") or "get" in self.query
        name = self.query.get("answer", "200")
        if "first" in self.query and self.counted.nth(f"order {self.query.get('trial')}") > 1:
            name = "200"
        answer = ANSWERS[name]
        if answer.unread:
            self.counted.arrived(self.query, self.command, effect=False)
            return self._end(reset=True)
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if answer.before:
            time.sleep(answer.before)
        self.counted.arrived(self.query, self.command, effect=does and answer.effect)
        if answer.after:
            time.sleep(answer.after)
        return self._reply(answer)

    def _reply(self, answer: Answer) -> None:
        if answer.ends is not None:
            self.wfile.write(answer.ends)
            self.wfile.flush()
            return self._end(reset=answer.reset)
        headers = {name: value.format(query=urlsplit(self.path).query) for name, value in answer.headers.items()}
        if "attach" in self.query and answer.status == 200:
            headers["Content-Disposition"] = "attachment; filename=order.txt"
        body = "" if answer.status == 204 else "<title>order</title><p id=o><b id=done>ordered</b></p><p id=a>a</p>"
        body = body if answer.status < 300 else "<title>error</title><p id=a>a</p>"
        return self._answer(body, "text/html", answer.status, headers)

    def _end(self, *, reset: bool) -> None:
        self.wfile.flush()
        if reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.connection.close()
        self.close_connection = True

    def _answer(
        self, text: str, kind: str = "text/html", status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def page(self) -> None:
        """The page of a trial; what a failure needs is there until the page is asked for a second time."""
        trial, kind = self.query["trial"], KINDS[self.query["kind"]]
        visit = self.counted.nth(f"page {trial}")
        failure = FAILURES[self.query.get("failure", "none")]
        extra = failure.whole if visit > 1 and "once" in self.query else failure.broken
        port = self.server.server_address[1]
        self._answer(
            PAGE.format(
                body=kind.body,
                script=kind.script,
                extra=extra,
                trial=trial,
                query=self._order_query(),
                delay=self.query.get("delay", "0"),
                other=f"http://localhost:{port}",
                ws=f"ws://127.0.0.1:{port}/socket",
            )
        )

    def _order_query(self) -> str:
        names = ("trial", "answer", "first")
        return "&".join(f"{name}={self.query[name]}" for name in names if name in self.query)

    def inner(self) -> None:
        """The document of a frame with the button."""
        self._answer(
            PAGE.format(
                body="<button id=b>buy</button>",
                script="B.onclick=()=>post()",
                extra="",
                trial=self.query["trial"],
                query=self._order_query(),
                delay=0,
                other="",
                ws="",
            )
        )

    def later(self) -> None:
        """A page that fails once, or always."""
        broken = self.counted.nth(f"later {self.query['trial']}") == 1 or "once" not in self.query
        status = int(self.query["status"]) if broken else 200
        self._answer(f"<title>later</title><p id=a>a</p><p>{status}</p>", status=status)

    def slow(self) -> None:
        """An answer that takes its time."""
        time.sleep(int(self.query["ms"]) / 1000)
        self._answer("ok")

    def socket(self) -> None:
        """A WebSocket, each message of which is the address of an order."""
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.wfile.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
        )
        self.wfile.flush()
        while message := self._message():
            query = {name: values[-1] for name, values in parse_qs(urlsplit(message).query).items()}
            self.counted.arrived(query, "MESSAGE", effect=True)
        self.close_connection = True

    def _message(self) -> str:
        """The next text message of the socket; empty at its end. Messages are short and in one frame."""
        head = self.rfile.read(2)
        if len(head) < 2 or head[0] & 0x0F != 1:
            return ""
        length = head[1] & 0x7F
        if length == 126:
            length = struct.unpack(">H", self.rfile.read(2))[0]
        mask, data = self.rfile.read(4), self.rfile.read(length)
        return bytes(byte ^ mask[place % 4] for place, byte in enumerate(data)).decode()

    def listener(self) -> None:
        """Another page, which orders when it is told to."""
        self._answer(LISTENER.format(trial=self.query["trial"]))

    def auto(self) -> None:
        """A page that orders when it is loaded."""
        self._answer(AUTO.format(to=self.query["to"]))

    def env(self) -> None:
        """The channel."""
        self._answer(json.dumps({"by": self.counted.effects()}), "application/json")

    def plain(self) -> None:
        """A page without anything."""
        self._answer("<title>plain</title><p id=a>a</p>")

    def thanks(self) -> None:
        """The page after an order."""
        self._answer("<title>thanks</title><p id=o><b id=done>ordered</b></p><p id=a>a</p>")

    def log_message(self, *_: object) -> None:
        """Quiet."""


_PLACES: Final[Mapping[str, Callable[[Site], None]]] = {
    "/page": Site.page,
    "/inner": Site.inner,
    "/later": Site.later,
    "/slow": Site.slow,
    "/socket": Site.socket,
    "/listener": Site.listener,
    "/auto": Site.auto,
    "/env": Site.env,
    "/plain": Site.plain,
    "/thanks": Site.thanks,
}

for _method in ("POST", "PUT", "PATCH", "DELETE"):
    setattr(Site, f"do_{_method}", Site.do_GET)


class Server(ThreadingHTTPServer):
    """The site on a free port, in threads of this process."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, file: Path) -> None:
        self.counted = Counted(file)
        self.nobody = socket.socket()
        self.nobody.bind(("127.0.0.1", 0))
        super().__init__(("127.0.0.1", 0), type("Counting", (Site,), {"counted": self.counted}))
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def server_close(self) -> None:
        """Give both ports back."""
        self.nobody.close()
        super().server_close()

    @property
    def url(self) -> str:
        """The origin of the site."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def closed(self) -> str:
        """An origin that refuses every connection."""
        return f"http://127.0.0.1:{self.nobody.getsockname()[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is what the campaign is about."""
