"""Small real servers for tests with several hosts: one answers from a function, all count what reaches them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Asked:
    """A request as the server saw it."""

    method: str
    path: str
    query: Mapping[str, str]
    cookie: str
    form: Mapping[str, str]


@dataclass(frozen=True)
class Answer:
    """What is sent back."""

    body: str = "<!doctype html><title>ok</title><p id=ok>ok</p>"
    status: int = 200
    kind: str = "text/html; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def wire(self) -> bytes:
        body = self.body.encode()
        head = {"Content-Type": self.kind, "Content-Length": str(len(body)), **self.headers}
        lines = [f"HTTP/1.1 {self.status} X", *(f"{name}: {value}" for name, value in head.items()), "", ""]
        return "\r\n".join(lines).encode() + body


def to(url: str, status: int = 302, **headers: str) -> Answer:
    """A redirect."""
    return Answer("", status, headers={"Location": url, **headers})


class Host:
    """One listener. `connections` counts TCP connections, whatever is said on them; `asked` keeps the requests."""

    def __init__(self, answer: Callable[[Asked], Answer] = lambda _: Answer()) -> None:
        self._answer = answer
        self._open: set[asyncio.StreamWriter] = set()
        self.connections = 0
        self.asked: list[Asked] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for writer in self._open:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            while True:
                asked = await _read(reader)
                self.asked.append(asked)
                writer.write(self._answer(asked).wire)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass  # the browser is done, or speaks something else than HTTP
        finally:
            self._open.discard(writer)
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
    method, target, _ = head[0].split(" ", 2)
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
    body = (await reader.readexactly(int(headers.get("content-length", 0)))).decode()
    parts = urlsplit(target)
    return Asked(method, parts.path, _first(parts.query), headers.get("cookie", ""), _first(body))


def _first(text: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(text, keep_blank_values=True).items()}
