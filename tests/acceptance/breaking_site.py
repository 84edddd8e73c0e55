"""A raw server for one address that breaks off its answers to POST, and counts what came."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress

PAGE = b"""<!doctype html><title>Shop</title>
<form method=post action=/order><button id=form>Form</button></form><button id=fetch onclick="
fetch('/order', {method: 'POST', body: 'x'}).then(a => a.text()).then(t => { document.body.innerHTML += t })
">Fetch</button>"""
DONE = b"<p id=done>ordered</p>"
FILE = b"Content-Type: application/octet-stream\r\nContent-Disposition: attachment; filename=o.bin\r\n"


class BreakingSite:
    """Answers `/` with a page, and the first requests for `/order` as `ways` say, the later ones well."""

    def __init__(self, *ways: str) -> None:
        self.orders: list[str] = []
        """The methods of the requests for `/order`."""
        self._ways = list(ways)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, ValueError):
            stream = connection.makefile("rb")
            while line := stream.readline():
                method, path, _ = line.decode().split()
                headers = {}
                while header := stream.readline().strip():
                    name, _, value = header.decode().partition(":")
                    headers[name.lower()] = value.strip()
                stream.read(int(headers.get("content-length", 0)))
                if path == "/order":
                    self.orders.append(method)
                    if self._ways and not self._answer(connection, self._ways.pop(0)):
                        return
                    continue
                self._send(connection, PAGE, closing=headers.get("connection") == "close")
                if headers.get("connection") == "close":
                    return

    def _answer(self, connection: socket.socket, way: str) -> bool:
        """Answer an order in some way; returns whether the connection goes on."""
        if way == "late-fin":
            time.sleep(1)
        if way == "rst":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if way == "408":
            connection.sendall(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        if way == "broken-file":
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + FILE + b"Content-Length: 5000\r\n\r\nxxx")
        if way == "broken-chunks":
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + FILE + b"Transfer-Encoding: chunked\r\n\r\n3\r\nxxx\r\n")
        if way == "stalled-file":
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + FILE + b"Content-Length: 5000\r\n\r\n" + b"x" * 2000)
            time.sleep(60)
        if way == "file":
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + FILE + b"Content-Length: 3\r\n\r\nxxx")
        if way == "ok":
            self._send(connection, DONE)
        return way in ("ok", "file")

    @staticmethod
    def _send(connection: socket.socket, body: bytes, *, closing: bool = False) -> None:
        last = "Connection: close\r\n" if closing else ""
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{last}Content-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
