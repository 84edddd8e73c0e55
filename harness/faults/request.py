"""The head of an HTTP/1 request, as far as a gate must understand it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.faults.head import END, closing

_LINE = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.[01]\Z")


@dataclass(frozen=True, slots=True)
class RequestHead:
    """Request line and header lines, without the empty line."""

    lines: tuple[bytes, ...]

    @classmethod
    def parse(cls, head: bytes) -> RequestHead | None:
        """None for what is not HTTP/1."""
        lines = tuple(head.removesuffix(END).split(b"\r\n"))
        return cls(lines) if _LINE.match(lines[0]) else None

    @property
    def method(self) -> bytes:
        return self.lines[0].split(b" ")[0]

    @property
    def target(self) -> str:
        return self.lines[0].split(b" ")[1].decode("latin-1")

    @property
    def upgrade(self) -> bool:
        """Whether the connection is to become something else, a WebSocket."""
        return self.header(b"upgrade") is not None

    def header(self, name: bytes) -> bytes | None:
        values = (line.partition(b":") for line in self.lines[1:])
        return next((value.strip() for key, _, value in values if key.strip().lower() == name), None)

    def urls(self, host: str) -> tuple[str, ...]:
        """The URLs that the request goes by: with the site's host, and with the port that the client named."""
        if not self.target.startswith("/") and "://" in self.target:
            return (self.target,)
        scheme = "ws" if self.upgrade else "http"
        named = (self.header(b"host") or b"").decode("latin-1").lower()
        authorities = dict.fromkeys(each for each in (host, named) if each)
        return tuple(f"{scheme}://{authority}{self.target}" for authority in authorities)

    def closing(self) -> bytes:
        """The head that asks the site to close the connection after its answer."""
        return closing(self.lines)
