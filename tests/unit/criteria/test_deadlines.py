"""Whatever waits inside whatever, no look begins after the deadline, and every wait ends."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.criteria.evaluation import LONGEST_PAUSE, SHORTEST_PAUSE
from harness.criteria.syntax import Compare, Condition, Literal, PageQuery, Read, Test, walk
from tests.unit.conftest import examples
from tests.unit.criteria.conftest import FakeClock, World
from tests.unit.criteria.trees import Hand, joined

SELECTORS = ["#always", "#never", "#late", "#brief", "#blinking"]
checks = st.one_of(
    st.sampled_from([Test(Read("exists", (selector,))) for selector in SELECTORS]),
    st.sampled_from([Compare(">", Read("count", (".row",)), Literal(count)) for count in (1, 5, 20)]),
)
limits = st.floats(0, 30).map(lambda number: round(number, 3))
trees: st.SearchStrategy[Condition] = st.recursive(checks, lambda parts: joined(parts, limits), max_leaves=8)


class Watch(FakeClock):
    """Remembers when each sleep was over: that is when the next look began."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[float] = [0.0]

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        await super().sleep(seconds)
        self.looks.append(self.time)


class Slow(World):
    """A page that takes its time to answer."""

    reading = 0.0

    async def page(self, query: PageQuery, until: float = math.inf) -> object:
        self.clock.time += self.reading
        return await super().page(query, until)


def page(watch: Watch, limit: float, reading: float = 0.0) -> Slow:
    world = Slow(clock=watch, limit=limit)
    world.reading = reading
    world.pages = {
        ("exists", "#always"): True,
        ("exists", "#late"): lambda time: time >= 3.3,
        ("exists", "#brief"): lambda time: time < 1.7,
        ("exists", "#blinking"): lambda time: int(time * 2) % 2 == 0,
        ("count", ".row"): math.floor,
    }
    return world


@settings(deadline=None, max_examples=examples(150))
@given(trees, st.floats(0, 20))
def test_no_tree_outlasts_its_deadline(tree: Condition, limit: float) -> None:
    watch = Watch()
    page(watch, limit).judge(Hand().write(tree))
    assert watch.time <= limit + SHORTEST_PAUSE + 1e-6


@settings(deadline=None, max_examples=examples(60))
@given(trees, st.floats(0, 20), st.floats(0, 3))
def test_with_a_slow_page_no_look_begins_after_the_deadline(tree: Condition, limit: float, reading: float) -> None:
    watch = Watch()
    page(watch, limit, reading).judge(Hand().write(tree))
    one_look = reading * (len(SELECTORS) + 1)
    assert max(watch.looks) <= limit + one_look + SHORTEST_PAUSE + 1e-6


@settings(deadline=None, max_examples=examples(60))
@given(trees, st.floats(0, 20))
def test_the_looks_are_few(tree: Condition, limit: float) -> None:
    """Besides one in every longest pause: the first, quicker ones, and the ends of the waits, which may start again."""
    watch = Watch()
    page(watch, limit).judge(Hand().write(tree))
    parts = len(list(walk(tree)))
    assert len(watch.looks) <= (limit / LONGEST_PAUSE + 10) * (parts + 1)


@settings(deadline=None, max_examples=examples(100))
@given(trees)
def test_once_the_deadline_is_over_nothing_waits(tree: Condition) -> None:
    watch = Watch()
    world = page(watch, limit=10)
    watch.time = 50.0
    world.judge(Hand().write(tree))
    assert watch.sleeps == []
