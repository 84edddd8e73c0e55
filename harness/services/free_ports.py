"""Ports for services that take any: free now, and not from the range that outgoing connections get theirs from."""

from __future__ import annotations

import random
import socket
from collections.abc import Container

from harness.services.health import ADDRESS

RANGE = range(20_000, 30_000)
"""Below what Linux (32768) and macOS (49152) give to outgoing connections: while a service is started again, none of
those takes its port."""
TRIES = 1000


def free_port(taken: Container[int]) -> int:
    """One that nobody listens on now, and that is not `taken`. Raises OSError when none is found."""
    for _ in range(TRIES):
        port = random.choice(RANGE)
        if port not in taken and is_free(port):
            return port
    raise OSError(f"no free port between {RANGE.start} and {RANGE.stop - 1}")


def is_free(port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((ADDRESS, port))
        except OSError:
            return False
    return True
