"""What an injector hands to those who do the damage."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from harness.spec.faults import Fault

Heal = Callable[[], Awaitable[None]]
"""Undoes a strike. May raise Failed."""


@dataclass(frozen=True, slots=True)
class Strike:
    """One time that a fault strikes."""

    fault: Fault
    random: Random
    """Seeded; for whatever the strike has to choose."""
    met: Callable[[], None]
    """To be called each time that it has an effect: a page is changed, a request is broken, a process is killed."""
    takes: Callable[[tuple[str, ...]], bool]
    """Of a request fault: whether the request that goes by these URLs is struck; counts it, and calls `met`."""


class Hands(Protocol):
    """Does the damage, in one place: the browser, the world, the services, the network."""

    async def strike(self, strike: Strike) -> Heal | None:
        """Do it; what undoes it, None when there is nothing to undo. Raises Failed when it cannot be done."""
        ...
