"""A look that does not end in time is no outcome: what was seen last counts, and only if nothing was, the error."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field

import pytest

from harness.criteria import Json, LateError, PageQuery, Verdict, evaluate, evaluate_value, parse, parse_value
from harness.resilience import Deadline
from tests.unit.criteria.conftest import World


@dataclass
class Busy(World):
    """A page whose looks take so many seconds, one after the other; the last number stays."""

    seconds: list[float] = field(default_factory=lambda: [0.0])
    limits: list[float] = field(default_factory=list)

    async def page(self, query: PageQuery, until: float = math.inf) -> Json:
        self.limits.append(until)
        last = min(until, self.limit)
        ends = self.clock.time + (self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0])
        self.clock.time = max(self.clock.time, min(ends, last))
        if ends > last:
            raise LateError(TimeoutError("the page did not answer"))
        return await super().page(query, until)

    def within(self, text: str, expect: float) -> Verdict:
        return asyncio.run(evaluate(parse(text), self, self.clock, Deadline(self.limit), expect=expect))


def page(*seconds: float, shown: float = math.inf) -> Busy:
    world = Busy(seconds=list(seconds), limit=30.0)
    world.pages = {("text", "#x"): lambda time: "b" if time >= shown else "a"}
    return world


def test_the_first_look_takes_as_long_as_it_needs() -> None:
    assert page(2.5, 0, shown=2).within("text('#x') == 'b'", expect=1).holds
    world = page(2.5, 0, shown=2)
    assert world.within("text('#x') == 'b'", expect=0).holds
    assert world.limits == [math.inf]


def test_a_later_look_that_does_not_end_leaves_what_was_seen() -> None:
    world = page(0, 99)
    verdict = world.within("text('#x') == 'b'", expect=5)
    assert verdict.explanation is not None
    assert (verdict.explanation.actual, verdict.explanation.expected) == ("a", "b")
    assert "after 5 s" in verdict.explanation.message
    assert world.clock.time == pytest.approx(5)


def test_a_look_that_begins_at_the_end_has_time_to_end() -> None:
    world = page(0, 0, 0, 0, 0.9, shown=1.3)
    assert world.within("text('#x') == 'b'", expect=0.5).holds
    assert world.limits[-1] == pytest.approx(1.5)


def test_a_page_that_is_busy_all_the_time_is_the_outcome() -> None:
    for text, expect in (("text('#x') == 'b'", 5.0), ("EVENTUALLY(text('#x') == 'b')", 0.0)):
        with pytest.raises(TimeoutError, match="did not answer"):
            page(99).within(text, expect)


def test_the_deadline_cuts_a_look_and_what_was_seen_counts() -> None:
    verdict = page(0, 99).within("EVENTUALLY(text('#x') == 'b')", expect=0)
    assert verdict.explanation is not None
    assert verdict.explanation.message.startswith("after 30 s, when the deadline came: text('#x') is 'a'")


def test_what_is_to_be_stable_and_cannot_be_seen_is_not() -> None:
    verdict = page(0, 99).within("STABLE(40, text('#x') == 'a')", expect=0)
    assert verdict.explanation is not None
    assert "when the deadline came" in verdict.explanation.message


def test_an_inner_wait_ends_with_the_outer_one() -> None:
    world = page(0, 99)
    verdict = world.within("WITHIN(3, WITHIN(20, text('#x') == 'b'))", expect=0)
    assert not verdict.holds
    assert world.clock.time <= 5


def test_a_value_is_waited_for_and_a_slow_look_gives_none() -> None:
    async def value(world: Busy, patience: float) -> Json:
        found = parse_value("text('#y')")
        return await evaluate_value(found, world, world.clock, Deadline(world.limit), patience=patience)

    late = page(0)
    late.pages = {("text", "#y"): lambda time: "here" if time >= 2 else None}
    assert asyncio.run(value(late, 3)) == "here"
    late.clock.time = 0
    assert asyncio.run(value(late, 1)) is None
    assert asyncio.run(value(page(0, 0, 99), 4)) is None
    with pytest.raises(TimeoutError):
        asyncio.run(value(page(99), 4))
