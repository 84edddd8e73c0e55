"""A plain http site with what tests of https need: Secure cookies, a form, a WebSocket, a big download."""

from __future__ import annotations

import asyncio
import base64
import hashlib

PAGE = b"""<!doctype html><title>Shop</title><p id=secure></p><p id=said></p>
<form id=form method=post action=/order><input id=item name=item><button id=send>Send</button></form>
<a id=big href=/big.bin>big</a><a id=plain href=http://shop.test/>plain</a>
<script>
secure.textContent = location.protocol + ' ' + isSecureContext;
const socket = new WebSocket(location.origin.replace('http', 'ws') + '/socket');
socket.onopen = () => socket.send('ping over ' + location.protocol);
socket.onmessage = (event) => { said.textContent = event.data; socket.close() };
</script>"""
BIG = hashlib.shake_256(b"big").digest(5 * 1024 * 1024)
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Shop:
    """One asyncio server. `orders` are the bodies that were posted, with the cookies they came with."""

    def __init__(self) -> None:
        self.orders: list[tuple[str, str]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Shop:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._answer(reader, writer):
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
        path = lines[0].split(" ")[1]
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if path == "/socket":
            await _echo_one_message(reader, writer, headers["sec-websocket-key"].encode())
            return False
        if path == "/order":
            self.orders.append((body.decode(), headers.get("cookie", "")))
            writer.write(_response(b"<title>Done</title><p id=done>ordered</p>", "Content-Type: text/html"))
        elif path == "/big.bin":
            disposition = "Content-Disposition: attachment; filename=big.bin"
            writer.write(_response(BIG, "Content-Type: application/octet-stream", disposition))
        else:
            cookie = "Set-Cookie: safe=1; Path=/; Secure; HttpOnly; SameSite=Strict"
            writer.write(_response(PAGE, "Content-Type: text/html", cookie))
        return True


def _response(content: bytes, *headers: str) -> bytes:
    head = "\r\n".join(["HTTP/1.1 200 OK", f"Content-Length: {len(content)}", *headers, "", ""])
    return head.encode("latin-1") + content


async def _echo_one_message(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes) -> None:
    accept = base64.b64encode(hashlib.sha1(key + _GUID).digest())
    writer.write(b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ")
    writer.write(accept + b"\r\n\r\n")
    _, length = await reader.readexactly(2)
    mask = await reader.readexactly(4)
    data = await reader.readexactly(length & 0x7F)
    text = bytes(byte ^ mask[place % 4] for place, byte in enumerate(data))
    writer.write(bytes([0x81, len(text)]) + text)
    await reader.read()
