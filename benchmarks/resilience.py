"""The cost of a policy around a call that succeeds, against the bare call: `python benchmarks/resilience.py`.

All are measured in turns, round after round, so that a busy machine slows them alike. The median of the rounds counts,
in microseconds of processor time for each call. Exit status 1 if one policy costs more than 20.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from harness.resilience.breaker import Breaker, Call, compose, guard
from harness.resilience.clock import SystemClock
from harness.resilience.escalate import escalate
from harness.resilience.fallback import fallback
from harness.resilience.limit import limit
from harness.resilience.retry import retry

BOUND: Final = 20.0
"""Microseconds that a policy may cost."""
ROUNDS: Final = 60
CALLS: Final = 300
"""The number of calls of each variant in each round."""


async def at_once() -> int:
    """A call that does not wait."""
    return 1


async def after_a_turn() -> int:
    """A call that waits for one turn of the loop."""
    await asyncio.sleep(0)
    return 1


def variants(call: Call[int]) -> dict[str, Call[int]]:
    """Name -> the call with that policy around it."""
    breaker = Breaker("provider:benchmark", now=SystemClock().now)
    guarded = guard(breaker, counts=lambda _: True)
    return {
        "bare": call,
        "retry": retry()(call),
        "guard": guarded(call),
        "limit": limit(30)(call),
        "escalate": escalate()(call),
        "fallback": fallback()(call),
        "fallback, cached": fallback(max_age=60)(call),
        "(all that are recommended)": compose(fallback(max_age=60), retry(), guarded, limit(30))(call),
    }


async def timed(call: Callable[[], Awaitable[Any]]) -> float:
    """Microseconds of processor time for one of many calls."""
    begun = time.process_time_ns()
    for _ in range(CALLS):
        await call()
    return (time.process_time_ns() - begun) / CALLS / 1000


async def measure(call: Call[int]) -> dict[str, float]:
    """Name -> median cost above the bare call."""
    calls = variants(call)
    rounds: dict[str, list[float]] = {name: [] for name in calls}
    gc.disable()
    for _ in range(ROUNDS):
        for name, variant in calls.items():
            rounds[name].append(await timed(variant))
        gc.collect()
    gc.enable()
    medians = {name: statistics.median(values) for name, values in rounds.items()}
    return {name: median - medians["bare"] for name, median in medians.items() if name != "bare"}


def report(costs: Mapping[str, Mapping[str, float]]) -> bool:
    """Print the table; return whether every single policy keeps the bound."""
    print(f"{'microseconds for each call':32}" + "".join(f"{kind:>16}" for kind in costs))
    names = list(next(iter(costs.values())))
    for name in names:
        print(f"{name:32}" + "".join(f"{costs[kind][name]:16.1f}" for kind in costs))
    over = sorted({name for name in names if name[0] != "(" for kind in costs if costs[kind][name] > BOUND})
    print(f"over {BOUND:g}: {', '.join(over) or 'none'}")
    return not over


def main() -> int:
    costs = {call.__name__.replace("_", " "): asyncio.run(measure(call)) for call in (at_once, after_a_turn)}
    return 0 if report(costs) else 1


if __name__ == "__main__":
    sys.exit(main())
