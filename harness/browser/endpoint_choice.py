"""Which browser endpoint a session goes to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is known of an endpoint before it is asked."""

    sessions: int = 0
    """Of this process, that live there now."""
    failed: bool = False
    """The last connection failed."""
    far: bool = False
    """It is known not to reach the hosts of this machine."""


def order(candidates: Sequence[Candidate], turn: int, *, hosts: bool) -> list[int]:
    """The places of the candidates, the best first: that works, with the fewest sessions, whose turn it is.

    `hosts`: the session is to reach hosts of this machine, so those that cannot come last.
    """
    count = len(candidates)

    def rank(place: int) -> tuple[bool, bool, int, int]:
        it = candidates[place]
        return it.far and hosts, it.failed, it.sessions, (place - turn) % count

    return sorted(range(count), key=rank)


def first_turn(environ: Mapping[str, str]) -> int:
    """Where the round begins: each worker process of xdist (`gw3`) at another endpoint."""
    number = environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    return int(number) if number.isdecimal() else 0
