"""How fast calls go to one provider: at most so many at once, and none before the time that it has asked to wait for.

Unlike the wait of a retry, the floor binds all calls of the process, and through a file those of its run's other
processes.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from harness.resilience.breaker import Call, Policy
from harness.resilience.clock import Clock, SystemClock
from harness.resilience.events import Emit, Waiting, discard
from harness.resilience.sqlite_file import connect

T = TypeVar("T")

_GOOD_ANSWERS: Final = 10
"""The number of good answers in a row after which one more call may be made at once."""
_LONGEST_WAIT: Final = 60.0
"""The longest wait in seconds that the other side may ask for."""
_PATIENCE: Final = 0.2
"""Seconds for which a caller waits for another process's lock."""
_LOOK: Final = 1.0
"""Seconds between two looks at the floor while waiting: another process may have raised it."""


class FloorTooHigh(Exception):  # noqa: N818 - it says why nothing was sent
    """The other side has asked for a longer wait than is allowed; nothing was sent."""

    def __init__(self, name: str, seconds: float, most: float) -> None:
        super().__init__(name, seconds, most)
        self.name = name
        self.seconds = seconds
        self.most = most

    def __str__(self) -> str:
        return f"{self.name} asks to wait {self.seconds:.0f} s, more than the {self.most:g} s allowed"


class FloorStore:
    """The floors of a run's processes in a SQLite file. While it cannot be used, each process has only its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None

    def raise_to(self, name: str, until: float) -> None:
        """Raise the floor of a provider. `until`: Unix time in seconds."""
        with suppress(sqlite3.Error, OSError):
            self._open().execute(
                "INSERT INTO floors (name, until) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET until = max(until, excluded.until)",
                (name, until),
            )

    def floor(self, name: str) -> float:
        """The floor of a provider as Unix time in seconds; 0 if there is none, or it cannot be read now."""
        with suppress(sqlite3.Error, OSError):
            row = self._open().execute("SELECT until FROM floors WHERE name = ?", (name,)).fetchone()
            return float(row[0]) if row else 0.0
        return 0.0

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _open(self) -> sqlite3.Connection:
        if self._db is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            database = connect(self._path, _PATIENCE)
            database.execute("CREATE TABLE IF NOT EXISTS floors (name TEXT PRIMARY KEY, until REAL NOT NULL)")
            self._db = database
        return self._db


class ProviderPace:
    """The pace of one provider, for all tasks of a process. Use it on one loop only."""

    def __init__(self, name: str, most: int, clock: Clock | None = None, store: FloorStore | None = None) -> None:
        """`most`: the largest number of calls at once."""
        self.name = name
        self.most = most
        self.allowed = most
        """The number of calls that may be made at once now."""
        self.running = 0
        self._clock = clock or SystemClock()
        self._store = store
        self._not_before = 0.0
        """Unix time in seconds."""
        self._good = 0
        self._queue: deque[asyncio.Future[None]] = deque()

    def rests_for(self) -> float:
        """Seconds until a call may be made."""
        if self._store is not None:
            self._not_before = max(self._not_before, self._store.floor(self.name))
        return max(0.0, self._not_before - self._clock.wall().timestamp())

    def slow_down(self, seconds: float | None) -> None:
        """The other side is overloaded: half as many calls at once, and none for so many seconds."""
        self._good = 0
        if not self.rests_for():  # the answers to calls that were under way together are one sign, not several
            self.allowed = max(1, self.allowed // 2)
        if seconds:
            until = self._clock.wall().timestamp() + seconds
            if until > self._not_before:
                self._not_before = until
                if self._store is not None:
                    self._store.raise_to(self.name, until)

    def went_well(self) -> None:
        """A call was answered; ten of them in a row allow one call more at once."""
        self._good += 1
        if self._good >= _GOOD_ANSWERS and self.allowed < self.most:
            self.allowed += 1
            self._good = 0
            self._wake()

    @asynccontextmanager
    async def turn(self, longest: float = _LONGEST_WAIT, emit: Emit = discard, who: str = "") -> AsyncIterator[None]:
        """Wait for the floor and for a free place, and keep the place. Raises FloorTooHigh."""
        await self._place()
        try:
            await self._wait_for_floor(longest, emit, who)
            yield
        finally:
            self.running -= 1
            self._wake()

    async def _wait_for_floor(self, longest: float, emit: Emit, who: str) -> None:
        told = False
        while rest := self.rests_for():
            if rest > longest:
                raise FloorTooHigh(self.name, rest, longest)
            if not told:
                told = True
                emit(Waiting(who or self.name, round(rest, 3), f"{self.name} has asked to wait"))
            await self._clock.sleep(min(rest, _LOOK))

    async def _place(self) -> None:
        if self.running < self.allowed and not self._queue:
            self.running += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # it was given the place, and will not use it
                self.running -= 1
                self._wake()
            raise

    def _wake(self) -> None:
        while self._queue and self.running < self.allowed:
            place = self._queue.popleft()
            if not place.done():
                self.running += 1
                place.set_result(None)


def pace(
    speed: ProviderPace,
    *,
    slows: Callable[[BaseException], bool],
    asked: Callable[[BaseException], float | None],
    longest: float = _LONGEST_WAIT,
    emit: Emit = discard,
    who: str = "",
) -> Policy[T]:
    """Make each call in its turn; an error for which `slows` is true slows all calls of this pace down.

    `asked` returns the seconds that the other side has asked to wait by an error; more than `longest` is not waited
    for: FloorTooHigh. `who` names the call in the event about a wait.
    """

    def policy(call: Call[T]) -> Call[T]:
        async def paced_call() -> T:
            async with speed.turn(longest, emit, who):
                try:
                    answer = await call()
                except Exception as error:
                    if slows(error):
                        speed.slow_down(asked(error))
                    raise
            speed.went_well()
            return answer

        return paced_call

    return policy
