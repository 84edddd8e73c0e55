"""A clock that only moves when somebody sleeps, and sources that say how often they were asked."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from harness.criteria import Json, PageQuery, Verdict, evaluate, evaluate_value, parse, parse_value
from harness.criteria.syntax import Happened
from harness.resilience import Deadline

START = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)


@dataclass
class FakeClock:
    """Monotonic seconds from zero."""

    time: float = 0.0
    sleeps: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.time

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.time)

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.time += max(0.0, seconds)


@dataclass
class World:
    """Sources in memory. A page value may be a function of the clock's time."""

    clock: FakeClock = field(default_factory=FakeClock)
    pages: dict[tuple[str, ...], Json | Callable[[float], Json]] = field(default_factory=dict)
    entries: dict[str, Json] = field(default_factory=dict)
    channels: dict[str, Json] = field(default_factory=dict)
    sent: list[Json] = field(default_factory=list)
    """The requests of the pages; those that match a pattern contain its text in their URL."""
    opened: list[dict[str, Json]] = field(default_factory=list)
    """The dialogs of the pages."""
    gap: str = ""
    """Why older ones are missing."""
    asked: list[tuple[str, ...]] = field(default_factory=list)
    answer: Json = None
    """The answer of the tool that the step has called."""
    broken: Exception | None = None
    locale: str | None = None
    limit: float = 60.0

    async def page(self, query: PageQuery, until: float = math.inf) -> Json:
        key = tuple(part for part in query if part is not None)
        self.asked.append(key)
        if self.broken:
            raise self.broken
        found = self.pages.get(key, {"exists": False, "visible": False, "count": 0}.get(query.function))
        return found(self.clock.now()) if callable(found) else found

    async def memory(self) -> Mapping[str, Json]:
        self.asked.append(("memory",))
        return self.entries

    async def channel(self, name: str) -> Json:
        self.asked.append(("channel", name))
        return self.channels[name]

    async def happened(self, function: str, pattern: str, until: float) -> Happened:
        self.asked.append((function, pattern) if pattern else (function,))
        if function == "dialogs":
            return Happened(self.opened)
        matching = [each for each in self.sent if isinstance(each, dict) and pattern in str(each["url"])]
        return Happened(matching, self.gap)

    async def result(self) -> Json:
        self.asked.append(("result",))
        return self.answer

    def now(self) -> datetime:
        return self.clock.wall()

    def judge(self, text: str) -> Verdict:
        return asyncio.run(evaluate(parse(text), self, self.clock, Deadline(self.limit)))

    def holds(self, text: str) -> bool:
        return self.judge(text).holds

    def message(self, text: str) -> str:
        explanation = self.judge(text).explanation
        assert explanation is not None
        return explanation.message

    def value(self, text: str) -> Json:
        return asyncio.run(evaluate_value(parse_value(text), self, self.clock, Deadline(self.limit)))


@pytest.fixture(scope="session")
def new_world() -> Callable[..., World]:
    """For property tests: a fixture's value would outlive one example."""
    return World


@pytest.fixture
def world() -> World:
    return World()
