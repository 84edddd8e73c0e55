"""What heads of requests and answers have in common."""

from __future__ import annotations

from collections.abc import Sequence

END = b"\r\n\r\n"
_HOP = (b"connection", b"keep-alive", b"proxy-connection")


def closing(lines: Sequence[bytes]) -> bytes:
    """The head with `Connection: close`: the next request must come on a connection of its own, to be seen."""
    first, *headers = lines
    kept = [line for line in headers if line.partition(b":")[0].strip().lower() not in _HOP]
    return b"\r\n".join([first, *kept, b"Connection: close"]) + END
