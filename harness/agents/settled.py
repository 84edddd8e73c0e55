"""A look at a page once it has stopped changing: what is still loading would make each choice depend on chance."""

from __future__ import annotations

from harness.model.ports import Observation, Observe
from harness.resilience import SystemClock

CLOCK = SystemClock()
LOOKS = 10
"""The number of looks at a page that keeps changing."""


async def settled(observe: Observe, quiet: float) -> Observation:
    """The page once it has looked the same for `quiet` seconds; if it never does, after some looks. Raises Failed."""
    seen = await observe()
    for _ in range(LOOKS):
        await CLOCK.sleep(quiet)
        before, seen = seen, await observe()
        if (seen.url, seen.aria) == (before.url, before.aria):
            break
    return seen
