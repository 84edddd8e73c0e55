"""A site that gives back what it is asked for in every place and spelling, and one that finds it again."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import http.server
import io
import json
import re
import struct
import threading
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, quote_plus, urlsplit

import psutil

_RUN = re.compile(rb"[A-Za-z0-9+/_-]{6,}")
_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def spelt(secret: str) -> dict[str, str]:
    """Raw, for addresses, as JSON, as base64: each alphabet, each alignment, with and without padding."""
    found = {"raw": secret, "url": quote(secret, safe=""), "form": quote_plus(secret), "json": json.dumps(secret)[1:-1]}
    for before in ("", "x", "xy"):
        for name, encode in (("std", base64.b64encode), ("url", base64.urlsafe_b64encode)):
            for text in (secret, json.dumps(secret)[1:-1]):
                key, letters = f"{name} {len(before)} {len(text)}", encode((before + text).encode()).decode()
                found |= {key: letters, f"{key} bare": letters.rstrip("=")}
                found[f"{key} more"] = encode((before + text + "zz").encode()).decode()
    return found


def zipped(secret: str) -> bytes:
    """A zip with a text, a gzip file, and another zip in it."""
    inner, outer = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("deep.txt", f"deep {secret}")
    with zipfile.ZipFile(outer, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a.txt", f"a {secret}")
        made.writestr("b.gz", gzip.compress(f"b {secret}".encode()))
        made.writestr("c.zip", inner.getvalue())
    return outer.getvalue()


class Echo(http.server.BaseHTTPRequestHandler):
    """`?s=` says what to give back."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode("latin-1")
        secret = (parse_qs(parts.query) or parse_qs(sent)).get("s", [""])[0]
        match parts.path:
            case "/plant":
                self._redirect(f"/page?s={quote(secret, safe='')}#{quote(secret, safe='')}", secret)
            case "/page":
                self._answer("text/html; charset=utf-8", page(secret).encode(), secret)
            case "/json":
                self._answer("application/json", json.dumps({"v": spelt(secret), secret: [secret]}).encode(), secret)
            case "/octets":
                self._answer("application/octet-stream", b"\x00\xff" + secret.encode() + b"\xfe", secret)
            case "/gz":
                self._answer("application/octet-stream", gzip.compress(f"in gzip {secret}".encode()), secret)
            case "/zlib":
                self._answer("application/octet-stream", zlib.compress(f"in zlib {secret}".encode()), secret)
            case "/zip":
                self._answer("application/zip", zipped(secret), secret)
            case "/png":
                self._answer("image/png", _PIXEL + secret.encode(), secret)
            case "/download":
                name = f"report-{quote(secret, safe='')}.zip"
                self._answer("application/zip", zipped(secret), secret, f"attachment; filename*=UTF-8''{name}")
            case "/socket":
                self._socket(secret)
            case "/die":
                kill_the_browser(self.client_address[1])
            case _:
                self.send_error(404)

    do_POST = do_GET

    def _redirect(self, to: str, secret: str) -> None:
        self.send_response(302)
        self.send_header("Location", to)
        self._planted(secret)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _planted(self, secret: str) -> None:
        self.send_header("Set-Cookie", f"plain={quote(secret, safe='')}; Path=/")
        self.send_header("X-Echo", base64.b64encode(secret.encode()).decode())
        self.send_header("X-Echo-Url", quote(secret, safe=""))

    def _answer(self, mime: str, body: bytes, secret: str, disposition: str = "") -> None:
        self.send_response(200)
        self.send_header("Content-Type", mime)
        self.send_header("Content-Length", str(len(body)))
        if disposition:
            self.send_header("Content-Disposition", disposition)
        self._planted(secret)
        self.end_headers()
        self.wfile.write(body)

    def _socket(self, secret: str) -> None:
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        accepted = base64.b64encode(hashlib.sha1(key.encode(), usedforsecurity=False).digest())
        self.send_header("Sec-WebSocket-Accept", accepted.decode())
        self.end_headers()
        for kind, data in ((0x81, json.dumps({"v": secret}).encode()), (0x82, b"\xff" + secret.encode())):
            self.wfile.write(struct.pack("!BB", kind, len(data)) + data)
        self.wfile.flush()
        self.rfile.read(1)
        self.close_connection = True

    def log_message(self, *args: Any) -> None:
        pass


def page(secret: str) -> str:
    """HTML, scripts, console, fields, storage, requests of every kind."""
    shown, script = html.escape(secret), json.dumps(spelt(secret)).replace("<", "\\u003c")
    asked = quote(secret, safe="")
    items = "".join(f"<li title='{html.escape(way)}'>{html.escape(way)}" for way in spelt(secret).values())
    return f"""<!doctype html><title>{shown}</title><h1>{shown}</h1><!-- {shown} --><ul>{items}</ul>
<form action=/page method=post><input name=s value="{shown}"><input type=hidden name=h value="{shown}">
<textarea name=t>{shown}</textarea><button id=send>Send</button></form><input id=typed>
<a id=file href="/download?s={asked}">file</a><p id=done></p><img src="/png?s={asked}">
<script>const ways = {script}, s = ways.raw, q = encodeURIComponent(s);
for (const way of Object.values(ways)) console.log('said', way);
console.error({{said: ways}}); localStorage.setItem('kept', s); document.body.dataset.b = btoa(unescape(q));
const headers = {{'X-Sent': btoa(unescape(q)), Authorization: 'Bearer ' + q}};
const socket = new WebSocket(`ws://${{location.host}}/socket?s=${{q}}`);
const heard = new Promise(resolve => {{ let n = 0; socket.onmessage = () => ++n == 2 && resolve() }});
socket.onopen = () => socket.send(JSON.stringify(ways));
Promise.all([...['json', 'octets', 'gz', 'zlib', 'zip'].map(name => fetch(`/${{name}}?s=${{q}}`, {{headers}})
  .then(r => r.arrayBuffer())), fetch('/json?s=' + q, {{method: 'POST', body: JSON.stringify(ways), headers}})
  .then(r => r.text()), fetch('/json', {{method: 'POST', body: new URLSearchParams(ways)}}).then(r => r.text()), heard])
  .then(() => {{ done.textContent = 'done'; done.id = 'ready' }});
setTimeout(() => {{ throw new Error('broken by ' + s) }}, 0);
</script>"""


def kill_the_browser(port: int) -> None:
    """SIGKILL the browser whose connection comes from this port."""
    for connection in psutil.net_connections("tcp"):
        if connection.laddr and connection.laddr.port == port and connection.pid not in (None, psutil.Process().pid):
            process = psutil.Process(connection.pid)
            while any(part.startswith("--type=") for part in process.cmdline()) and (above := process.parent()):
                process = above
            process.kill()


@contextmanager
def echo_site() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def leaks(root: Path, *secrets: str) -> list[str]:
    """Where one of them is in the files below `root`, whatever it is packed into; pictures of screens are left out."""
    wanted = {way.encode() for secret in secrets for way in (*list(spelt(secret).values())[:4], html.escape(secret))}
    found = []
    for path in (path for path in root.rglob("*") if path.is_file()):
        found += [
            f"{path.relative_to(root)}{inner}"
            for inner, data in contents(path.read_bytes())
            if not inner.startswith("!screencast/") and any(way in data for way in wanted)
        ]
    return found


def contents(data: bytes, inner: str = "", depth: int = 0) -> Iterator[tuple[str, bytes]]:
    """The data, and what is inside of it: files of a zip, what is deflated, what base64 stands for."""
    yield inner, data
    if depth == 5:
        return
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            for name in packed.namelist():
                yield f"{inner}!{name}", name.encode()
                yield from contents(packed.read(name), f"{inner}!{name}", depth + 1)
        return
    if data[:2] in (b"\x1f\x8b", b"x\x9c"):
        with suppress(zlib.error):
            yield from contents(zlib.decompressobj(47).decompress(data), f"{inner}!inflated", depth + 1)
        return
    for run in _RUN.finditer(data) if depth < 4 else ():
        letters = run.group().translate(bytes.maketrans(b"-_", b"+/"))
        for start in range(4):
            decoded = base64.b64decode(letters[start:] + b"A" * (-(len(letters) - start) % 4))
            yield f"{inner}!base64", decoded
            if decoded[:2] in (b"\x1f\x8b", b"x\x9c", b"PK"):
                yield from contents(decoded, f"{inner}!base64", depth + 1)
