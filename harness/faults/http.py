"""HTTP/1 as far as a gate must understand it: heads, and where bodies end."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence

from msgspec import Struct

from harness.resilience.streams import Stream
from harness.spec.url_patterns import BODILESS

END = b"\r\n\r\n"
_HOP = (b"connection", b"keep-alive", b"proxy-connection")


def closing(lines: Sequence[bytes]) -> bytes:
    """The head with `Connection: close`, so that the next request comes on a new connection and is seen."""
    first, *headers = lines
    kept = [line for line in headers if line.partition(b":")[0].strip().lower() not in _HOP]
    return b"\r\n".join([first, *kept, b"Connection: close"]) + END


_REQUEST_LINE = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.[01]\Z")


class RequestHead(Struct, frozen=True):
    """Request line and header lines, without the empty line."""

    lines: tuple[bytes, ...]

    @classmethod
    def parse(cls, head: bytes) -> RequestHead | None:
        """Parse a head; None if it is not HTTP/1."""
        lines = tuple(head.removesuffix(END).split(b"\r\n"))
        return cls(lines) if _REQUEST_LINE.match(lines[0]) else None

    @property
    def method(self) -> bytes:
        return self.lines[0].split(b" ")[0]

    @property
    def target(self) -> str:
        return self.lines[0].split(b" ")[1].decode("latin-1")

    @property
    def upgrade(self) -> bool:
        """Whether the connection is to become another protocol, such as a WebSocket."""
        return self.header(b"upgrade") is not None

    def header(self, name: bytes) -> bytes | None:
        values = (line.partition(b":") for line in self.lines[1:])
        return next((value.strip() for key, _, value in values if key.strip().lower() == name), None)

    def urls(self, host: str) -> tuple[str, ...]:
        """The URLs of the request: with the site's host, and with the port that the client named."""
        if not self.target.startswith("/") and "://" in self.target:
            return (self.target,)
        scheme = "ws" if self.upgrade else "http"
        named = (self.header(b"host") or b"").decode("latin-1").lower()
        authorities = dict.fromkeys(each for each in (host, named) if each)
        return tuple(f"{scheme}://{authority}{self.target}" for authority in authorities)

    def closing(self) -> bytes:
        """The head with a request to close the connection after the answer."""
        return closing(self.lines)


_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})(?: |\Z)")


class AnswerHead(Struct, frozen=True):
    """The facts of an answer's head about its body."""

    status: int
    length: int | None = None
    """The length of the body in bytes, if the head declares it."""
    chunked: bool = False

    @classmethod
    def parse(cls, head: bytes) -> AnswerHead | None:
        """Parse a head; None if it is not HTTP/1."""
        first, *lines = head.removesuffix(END).split(b"\r\n")
        line = _STATUS_LINE.match(first)
        if line is None:
            return None
        headers = {name.strip().lower(): value.strip() for name, _, value in (each.partition(b":") for each in lines)}
        length = headers.get(b"content-length", b"")
        chunked = headers.get(b"transfer-encoding", b"").lower().endswith(b"chunked")
        return cls(int(line[1]), int(length) if length.isdigit() and not chunked else None, chunked)

    @property
    def interim(self) -> bool:
        """Whether the final answer is still to come (100, 102, 103)."""
        return 100 <= self.status < 200 and self.status != 101

    @property
    def ends_itself(self) -> bool:
        """Whether the body declares its end; otherwise it ends with the connection."""
        return self.length is not None or self.chunked

    def has_body(self, method: bytes) -> bool:
        """Return whether a body follows the head, in answer to a request with this method."""
        return method != b"HEAD" and self.status not in BODILESS and self.length != 0


_MAX_HEAD = 65_536
"""Bytes; a longer head is passed on without being parsed."""


async def read_head(stream: Stream, raw: bytes = b"") -> bytes:
    """Read up to the first empty line; returns also what came with it, and less if it is not HTTP, or does not end.

    `raw` is what was read of it before.
    """
    with contextlib.suppress(OSError):
        while END not in raw and len(raw) < _MAX_HEAD and (not raw or raw[:1].isalpha()):
            chunk = await stream.read()
            if not chunk:
                break
            raw += chunk
    return raw
