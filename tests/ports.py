"""Ports for tests that need one before anything listens on it."""

from __future__ import annotations

import random
import socket


def free_ports(count: int) -> tuple[int, ...]:
    """Ports of 127.0.0.1 that nobody listens on, neighbours as the demo wants them.

    They are below those that kernels give to whoever asks for any: no other test can be given one of them meanwhile.
    """
    while True:
        base = random.SystemRandom().randrange(20_000, 30_000)
        ports = tuple(range(base, base + count))
        if not any(map(listens, ports)):
            return ports


def free_port() -> int:
    """One such port."""
    return free_ports(1)[0]


def listens(port: int) -> bool:
    """Whether anybody listens on a port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
