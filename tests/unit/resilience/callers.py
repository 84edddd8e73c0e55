"""A process whose callers use a shared breaker, for tests that need several: `python callers.py WHAT FILE ...`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from harness.resilience.breaker import BreakerSettings, CircuitOpen, guard
from harness.resilience.circuit_store import CircuitStore
from harness.resilience.circuits import Circuits
from harness.resilience.clock import SystemClock

NAME = "origin:http://shop.local"


def note(log: Path, line: str) -> None:
    """Whole lines, whoever else writes."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{line}\n".encode())
    os.close(file)


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


async def seen(log: Path, line: str, times: int) -> None:
    while lines(log).count(line) < times:
        await asyncio.sleep(0.01)


async def callers(circuits: Circuits, log: Path, count: int, everybody: int) -> None:
    """`count` callers at once; the one who gets through stays until all others were refused."""

    async def call() -> None:
        note(log, "through")
        await seen(log, "refused", everybody - 1)

    async def caller() -> None:
        try:
            await guard(circuits.breaker(NAME), counts=lambda _: True)(call)()
        except CircuitOpen:
            note(log, "refused")

    note(log, "ready")
    await seen(log, "go", 1)
    await asyncio.gather(*(caller() for _ in range(count)))


async def probe_and_hang(circuits: Circuits, log: Path) -> None:
    async def call() -> None:
        note(log, "probing")
        await asyncio.Event().wait()

    await guard(circuits.breaker(NAME), counts=lambda _: True)(call)()


async def fail(circuits: Circuits, log: Path, times: int) -> None:
    note(log, "ready")
    await seen(log, "go", 1)
    for number in range(times):
        circuits.breaker(NAME).admit().failed(f"{os.getpid()} {number}")
        circuits.breaker(f"agent:{os.getpid()}").admit().failed("mine")


def main(what: str, file: str, log: str, *numbers: str) -> None:
    clock = SystemClock()
    store = CircuitStore(file, clock, patience=30.0 if what == "fail" else 0.1)
    settings = BreakerSettings(failure_threshold=10**6) if what == "fail" else BreakerSettings()
    circuits = Circuits(settings, clock=clock, store=store)
    work = {"callers": callers, "hang": probe_and_hang, "fail": fail}[what]
    asyncio.run(asyncio.wait_for(work(circuits, Path(log), *map(int, numbers)), 60))  # type: ignore[operator]


if __name__ == "__main__":
    main(*sys.argv[1:])
