"""A site that fails in every way a server can: raw bytes on loopback ports."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from tests.browser.table.fault_tls import EXPIRED, OTHER_HOST, UNKNOWN_ISSUER, server_context

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]
LOCAL = "127.0.0.1"
FOREVER = 3600
BARE = (204, 304)
"""Statuses that never have a body."""
HTML = b"Content-Type: text/html; charset=utf-8\r\n"
HALF = b"<!doctype html><title>Half</title><p id=x>half"
PAGES = {
    "/": b"<title>Fine</title><p id=ok>fine</p>",
    "/slow-image": b"<title>Slow</title><p id=ok>usable</p><img src=/hang>",
    "/slow-script": b"<title>Slow</title><p id=ok>usable</p><script src=/slow-headers></script>",
    "/slow-style": b"<title>Slow</title><link rel=stylesheet href=/slow-body><p id=ok>usable</p>",
    "/slow-frame": b"<title>Slow</title><p id=ok>usable</p><iframe src=/hang></iframe>",
    "/broken-image": b"<title>Broken</title><p id=ok>usable</p><img src=/reset>",
    "/elsewhere-at-once": b"<title>Leaving</title><script>location.href='/hang'</script>",
    "/elsewhere-refused": b"<title>Leaving</title><script>location.href='http://dead.test/'</script>",
    "/elsewhere-fine": b"<title>Leaving</title><script>location.href='/'</script>",
    "/elsewhere-late": b"<title>Leaving</title><script>setTimeout(()=>{location.href='/'},50)</script><img src=/hang>",
    "/leads-on": b"<title>Leads on</title><p id=ok>ok</p><script>setTimeout(()=>{location.href='/'},500)</script>",
    "/posts-on": b"<title>Posts on</title><p id=ok>ok</p><form id=f method=post action=/status/200></form>"
    b"<script>setTimeout(()=>f.submit(),500)</script>",
    "/closes": b"<title>Closes</title><p id=ok>ok</p><script>setTimeout(()=>close(),500)</script>",
    "/leaving": b"<title>Leaving</title><input id=x><a id=go href=/>go</a>"
    b"<script>onbeforeunload=e=>e.preventDefault()</script>",
    "/links": b"<title>Links</title><p id=ok>links</p>"
    b"<a id=refused href=http://dead.test/>r</a><a id=unknown href=http://nowhere.invalid/>u</a>"
    b"<a id=hang href=/hang>h</a><a id=reset href=/reset>s</a><a id=empty href=/empty>e</a>"
    b"<a id=missing href=/status/404>m</a><a id=missing-bare href='/status/404?empty'>n</a>"
    b"<a id=error href=/status/500>i</a><a id=error-bare href='/status/500?empty'>j</a>"
    b"<a id=busy href='/status/503?retry=3'>b</a><a id=forbidden href=/status/403>f</a>"
    b"<a id=truncated href=/truncated>t</a><a id=loop href=/loop>l</a>"
    b"<a id=garbage href='http://127.0.0.1:{plain}/garbage'>g</a>"
    b"<a id=unsafe href='http://faulty.test:25/'>us</a><a id=tls href='https://127.0.0.1:{tls}/'>tls</a>"
    b"<a id=file href=/file>fi</a>"
    b"<a id=file-reset href=/file-reset>fr</a><a id=file-truncated href=/file-truncated>ft</a>"
    b"<a id=file-hang href=/file-hang>fh</a>"
    b"<a id=file-missing href='/status/404' download>fm</a><a id=file-refused href=http://dead.test/a.csv>fd</a>"
    b"<button id=popup-refused onclick=\"window.open('http://dead.test/')\">p</button>"
    b"<button id=popup-error onclick=\"window.open('/status/503?retry=4')\">q</button>"
    b"<button id=popup-hang onclick=\"window.open('/hang')\">w</button>"
    b"<button id=popup-closes onclick=\"window.open('/closes')\">z</button>"
    b"<form method=post action=/reset><button id=post-reset>pr</button></form>"
    b"<form method=post action=/hang><button id=post-hang>ph</button></form>"
    b"<form method=post action=/status/500><button id=post-error>pe</button></form>"
    b"<form method=post action=/status/502><button id=post-down>pd</button></form>",
}


class FaultSite:
    """One port that fails by path, one for each kind of TLS, and ports where nothing answers at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: list[asyncio.Server] = []
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.places: dict[str, object] = {}
        """Port by name: `plain`, `tls`, `expired`, `other_host`, `refused`, `dropped`."""

    @property
    def port(self) -> int:
        return int(str(self.places["plain"]))

    async def start(self) -> None:
        self.places["plain"] = await self._listen(self._serve)
        for name, kind in (("tls", UNKNOWN_ISSUER), ("expired", EXPIRED), ("other_host", OTHER_HOST)):
            context = server_context(kind, self._folder)
            server = await asyncio.start_server(self._counted(self._serve), LOCAL, 0, ssl=context)
            self.places[name] = self._kept(server)
        self.places["refused"] = self._socket()
        self.places["dropped"] = self._full()

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in self._sockets:
            each.close()

    async def _listen(self, serve: Serve) -> int:
        return self._kept(await asyncio.start_server(self._counted(serve), LOCAL, 0))

    def _kept(self, server: asyncio.Server) -> int:
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    def _counted(self, serve: Serve) -> Serve:
        async def counted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await serve(reader, writer)
            except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                pass  # the client has gone, or the test is over
            finally:
                self._tasks.discard(task)
                with contextlib.suppress(ConnectionError):
                    writer.close()

        return counted

    def _socket(self) -> int:
        """A port that is taken and refuses."""
        taken = socket.socket()
        taken.bind((LOCAL, 0))
        self._sockets.append(taken)
        return int(taken.getsockname()[1])

    def _full(self) -> int:
        """A port whose queue is full and never emptied: a further SYN is dropped."""
        port = self._socket()
        self._sockets[-1].listen(0)
        for _ in range(4):
            waiting = socket.socket()
            waiting.setblocking(False)
            waiting.connect_ex((LOCAL, port))
            self._sockets.append(waiting)
        return port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readexactly(1)
        if first == b"\x16":  # a TLS handshake on the plain port
            writer.write(b"HTTP/1.1 400 X\r\n\r\n")
            await writer.drain()
            return
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        target = head.split(" ", 2)[1]
        await self._answer(target, writer)

    async def _answer(self, target: str, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(target)
        if parts.path in PAGES:
            writer.write(answer(200, HTML, self._placed(PAGES[parts.path])))
        elif parts.path.startswith("/status/"):
            writer.write(status(int(parts.path.rpartition("/")[2]), dict(parse_qsl(parts.query, True))))
        else:
            writer.write(RAW.get(parts.path, b""))
        await writer.drain()
        if parts.path in HANGING:
            await asyncio.sleep(FOREVER)
        if parts.path in RESET:
            await asyncio.sleep(0.05)  # what was written goes out first: a reset throws the rest away
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()

    def _placed(self, page: bytes) -> bytes:
        for name in ("tls", "plain"):
            page = page.replace(f"{{{name}}}".encode(), str(self.places[name]).encode())
        return page


def answer(code: int, headers: bytes = b"", body: bytes = b"") -> bytes:
    """A whole answer; the connection ends with it."""
    length = b"" if code in BARE else f"Content-Length: {len(body)}\r\n".encode()
    return f"HTTP/1.1 {code} X\r\n".encode() + length + headers + b"Connection: close\r\n\r\n" + body


def status(code: int, query: dict[str, str]) -> bytes:
    """`empty`: without a body; `retry`: Retry-After; `realm`: asks for a password; `date`: Retry-After is a date."""
    headers = HTML
    if "retry" in query:
        headers += f"Retry-After: {query['retry']}\r\n".encode()
    if "realm" in query:
        headers += b'WWW-Authenticate: Basic realm="x"\r\n'
    if "proxy" in query:
        headers += b'Proxy-Authenticate: Basic realm="x"\r\n'
    return answer(code, headers, b"" if "empty" in query or code in BARE else b"<p>what went wrong</p>")


_FILE = b"Content-Type: text/csv\r\nContent-Disposition: attachment; filename=a.csv\r\n"
_LONG = b"HTTP/1.1 200 OK\r\n" + HTML + b"Content-Length: 50000\r\n\r\n" + HALF
_CHUNKED = b"HTTP/1.1 200 OK\r\n" + HTML + b"Transfer-Encoding: chunked\r\n\r\n"
_CHUNK = f"{len(HALF):x}\r\n".encode() + HALF + b"\r\n"
_LONG_FILE = b"HTTP/1.1 200 OK\r\n" + _FILE + b"Content-Length: 500000\r\n\r\n" + b"x" * 100_000
RAW = {
    "/slow-headers": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n",
    "/slow-body": _LONG,
    "/reset-body": _LONG,
    "/truncated": _LONG,
    "/bad-chunk": _CHUNKED + _CHUNK + b"zz\r\n",
    "/cut-chunk": _CHUNKED + _CHUNK,
    "/garbage": b"\x00\x01\x02 not http\r\n\r\n",
    "/bad-status": b"HTTP/1.1 2x0 OK\r\n\r\n",
    "/two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\n<p>12345",
    "/bad-encoding": answer(200, HTML + b"Content-Encoding: gzip\r\n", b"this is not gzip"),
    "/loop": answer(302, b"Location: /loop\r\n"),
    "/to-refused": answer(302, b"Location: http://dead.test/\r\n"),
    "/to-unsafe": answer(302, b"Location: http://faulty.test:25/\r\n"),
    "/to-nonsense": answer(302, b"Location: http://[bad/\r\n"),
    "/to-scheme": answer(302, b"Location: foo://bar/\r\n"),
    "/file": answer(200, _FILE, b"a,b\n"),
    "/file-reset": _LONG_FILE,
    "/file-truncated": _LONG_FILE,
    "/file-hang": _LONG_FILE,
}
HANGING = {"/hang", "/slow-headers", "/slow-body", "/file-hang"}
RESET = {"/reset", "/reset-body", "/file-reset"}
