"""The head of an HTTP/1 answer: what its body is, and where that ends."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.faults.head import END
from harness.spec.faults.network import BODILESS

_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})(?: |\Z)")


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """How an answer goes on after its head."""

    status: int
    length: int | None = None
    """Bytes of the body, when the head says so."""
    chunked: bool = False

    @classmethod
    def parse(cls, head: bytes) -> AnswerHead | None:
        """None for what is not HTTP/1."""
        first, *lines = head.removesuffix(END).split(b"\r\n")
        line = _LINE.match(first)
        if line is None:
            return None
        headers = {name.strip().lower(): value.strip() for name, _, value in (each.partition(b":") for each in lines)}
        length = headers.get(b"content-length", b"")
        chunked = headers.get(b"transfer-encoding", b"").lower().endswith(b"chunked")
        return cls(int(line[1]), int(length) if length.isdigit() and not chunked else None, chunked)

    @property
    def interim(self) -> bool:
        """Whether the answer proper is still to come (100, 102, 103)."""
        return 100 <= self.status < 200 and self.status != 101

    @property
    def ends_itself(self) -> bool:
        """Whether the body tells where it ends; else it ends with the connection."""
        return self.length is not None or self.chunked

    def has_body(self, method: bytes) -> bool:
        """Whether there is something after the head, in answer to a request of this method."""
        return method != b"HEAD" and self.status not in BODILESS and self.length != 0
