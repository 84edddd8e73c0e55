"""A site whose pages send an order over each channel that a page has; it counts what has arrived."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import struct

_WORKER = "fetch('/order?WHO', {method: 'POST', body: 'x'})"
_SOCKET = "new WebSocket(location.origin.replace('http', 'ws') + '/ws')"
_REGISTER = "b.disabled = true; navigator.serviceWorker.register('/service.js'); navigator.serviceWorker.ready"
_READY = "b.disabled = true; w.onmessage = () => b.disabled = false"
SCRIPTS = {
    "/shared.js": f"onconnect = e => e.ports[0].onmessage = m => {_WORKER.replace('WHO', 'shared')}",
    "/shared-socket.js": f"""onconnect = e => {{
        const page = e.ports[0], s = {_SOCKET}; s.onopen = () => page.postMessage(1);
        page.onmessage = m => s.send('order') }}""",
    "/later.js": f"""onconnect = e => {{
        const page = e.ports[0], s = {_SOCKET}; s.onopen = () => page.postMessage(1);
        page.onmessage = m => setTimeout(() => s.send('later'), 600) }}""",
    "/dedicated.js": f"onmessage = m => {_WORKER.replace('WHO', 'dedicated')}",
    "/nested.js": "const w = new Worker('/dedicated.js'); onmessage = m => w.postMessage(1)",
    "/worker-socket.js": f"const s = {_SOCKET}; s.onopen = () => postMessage(1); onmessage = m => s.send('order')",
    "/service.js": f"""onactivate = e => e.waitUntil(clients.claim()); onmessage = m => {{
        if (m.data === 'socket') {{ const s = {_SOCKET}; s.onopen = () => s.send('order') }}
        else {_WORKER.replace("WHO", "service")} }}""",
}
_BUTTON = """<title>Channel</title><button id=b>Order</button><p id=a>a</p>
<script>const b = document.getElementById('b');"""
_BUSY = "b.addEventListener('click', () => { const t = Date.now(); while (Date.now() - t < 3000); })"
PAGES = {
    "/shared": "const w = new SharedWorker('/shared.js').port; b.onclick = () => w.postMessage(1)",
    "/shared-begun": "b.onclick = () => new SharedWorker('/shared.js').port.postMessage(1)",
    "/shared-socket": f"""const w = new SharedWorker('/shared-socket.js').port; {_READY};
        b.onclick = () => w.postMessage(1)""",
    "/later": f"const w = new SharedWorker('/later.js').port; {_READY}; b.onclick = () => w.postMessage(1)",
    "/dedicated": "const w = new Worker('/dedicated.js'); b.onclick = () => w.postMessage(1)",
    "/nested": "const w = new Worker('/nested.js'); b.onclick = () => w.postMessage(1)",
    "/worker-socket": f"const w = new Worker('/worker-socket.js'); {_READY}; b.onclick = () => w.postMessage(1)",
    "/service": f"{_REGISTER}.then(r => {{ b.disabled = false; b.onclick = () => r.active.postMessage('fetch') }})",
    "/service-socket": f"""{_REGISTER}.then(r => {{ b.disabled = false;
        b.onclick = () => r.active.postMessage('socket') }})""",
    "/socket": f"""const s = {_SOCKET}; b.disabled = true; s.onopen = () => b.disabled = false;
        b.onclick = () => s.send('order')""",
    "/beating": f"""const s = {_SOCKET}; let n = 0; b.disabled = true; b.onclick = () => a.append('b');
        s.onopen = () => {{ b.disabled = false; s.send('ping'); setInterval(() => s.send('beat ' + n++), 250) }}""",
    "/telling": f"""const s = {_SOCKET}, end = Date.now() + 3000;
        const tell = () => {{ for (let i = 0; i < 100 && Date.now() < end; i++) s.send('m' + i) }};
        s.onopen = () => setInterval(tell, 10)""",
    "/broadcast": "b.disabled = true; open('/woken').onload = () => b.disabled = false;"
    "b.onclick = () => new BroadcastChannel('c').postMessage(1)",
    "/woken": "new BroadcastChannel('c').onmessage = () => fetch('/order?woken', {method: 'POST'})",
    "/popup": "b.onclick = () => open('/ordering')",
    "/ordering": "fetch('/order?popup', {method: 'POST'})",
    "/beacon": "b.onclick = () => navigator.sendBeacon('/order?beacon')",
    "/keepalive": "b.onclick = () => fetch('/order?keepalive', {method: 'POST', keepalive: true})",
    "/frame": """const f = document.createElement('iframe'); f.src = 'http://localhost:' + location.port + '/framed';
        b.disabled = true; f.onload = () => b.disabled = false; document.body.append(f);
        b.onclick = () => f.contentWindow.postMessage(1, '*')""",
    "/framed": "onmessage = () => fetch('/order?frame', {method: 'POST'})",
    "/form": "b.onclick = () => f.submit()</script><form id=f method=post action=/order?form target=_blank></form>"
    "<script>",
    "/ping": "</script><a id=l href=/plain ping=/order?ping>l</a><script>b.onclick = () => l.click()",
    "/policy": "</script><meta http-equiv=Content-Security-Policy content=\"img-src 'none'\"><script>"
    "b.onclick = () => { const i = new Image(); i.src = '/blocked.png'; document.body.append(i) }",
    "/leaving": "b.onclick = () => addEventListener('pagehide', () => { window.gone = true })",
    "/farewell": "addEventListener('pagehide', () => navigator.sendBeacon('/order?farewell'))",
    "/parting": "b.onclick = () => addEventListener('pagehide', () => navigator.sendBeacon('/order?parting'))",
    "/peers": """b.onclick = async () => {
        const [one, two] = window.peers = [new RTCPeerConnection(), new RTCPeerConnection()];
        one.createDataChannel('orders'); await one.setLocalDescription();
        await two.setRemoteDescription(one.localDescription); await two.setLocalDescription();
        await one.setRemoteDescription(two.localDescription); a.textContent = 'open' }""",
    "/plain": "",
}


class ChannelsSite:
    """One asyncio server. `orders` counts what has arrived, by the channel's name."""

    def __init__(self) -> None:
        self.orders: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, target, _ = head.split(" ", 2)
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head.splitlines())}
        await reader.readexactly(int(headers.get("content-length", 0)))
        path, _, query = target.partition("?")
        if path == "/ws":
            await self._socket(headers["sec-websocket-key"], reader, writer)
            return
        if method == "POST":
            self.orders.append(query or path)
        body, kind, more = _content(path, busy=query == "busy"), "text/html", ""
        if path in SCRIPTS:
            kind = "text/javascript"
        if path == "/policy":
            more = "Content-Security-Policy: img-src 'none'; report-uri /report\r\n"
        more += f"Content-Length: {len(body)}\r\nConnection: close\r\n"
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{more}\r\n".encode() + body)
        await writer.drain()

    async def _socket(self, key: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accept = hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode(), usedforsecurity=False).digest()
        writer.write(
            b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + base64.b64encode(accept) + b"\r\n\r\n"
        )
        while True:
            first, length = struct.unpack("BB", await reader.readexactly(2))
            mask = await reader.readexactly(4)
            text = bytes(each ^ mask[at % 4] for at, each in enumerate(await reader.readexactly(length & 127)))
            if first & 15 == 8:
                return
            self.orders.append(text.decode())


def _content(path: str, *, busy: bool) -> bytes:
    """`busy`: the page computes for three seconds after its button was clicked."""
    if path in SCRIPTS:
        return SCRIPTS[path].encode()
    script = PAGES.get(path, "")
    return f"{_BUTTON}{script};{_BUSY if busy else ''}</script>".encode() if path in PAGES else b""
