"""Events that come faster than they can be read."""

from __future__ import annotations

from harness.browser.flood import FLOOD, HEAVY, LINGERS, Newest, Pace
from tests.unit.fakes import FakeClock


def test_the_newest_are_kept_and_the_others_counted() -> None:
    kept: Newest[int] = Newest(3)
    for number in range(10):
        kept.append(number)
    assert (list(kept), kept.dropped) == ([7, 8, 9], 7)


def test_the_pace_is_that_of_the_busier_second() -> None:
    clock = FakeClock()
    whole = Pace(clock)
    pace, quiet = Pace(clock, whole), Pace(clock, whole)
    for _ in range(FLOOD - 1):
        pace.count_event("requests")
    assert not pace.floods
    pace.count_event("console lines")
    assert pace.floods
    assert whole.floods
    assert not quiet.floods
    clock.time += 1.0
    pace.count_event("requests")
    assert pace.counts == {"requests": FLOOD - 1, "console lines": 1}
    clock.time += 1.0
    assert pace.counts == {"requests": 1}
    assert not pace.floods
    clock.time += 5.0
    assert pace.counts == {}
    assert (pace.total, quiet.total, whole.total) == (FLOOD + 1, 0, FLOOD + 1)


def test_a_page_that_is_opened_weighs_more_than_a_line() -> None:
    pace = Pace(FakeClock())
    for _ in range(FLOOD // 10):
        assert not pace.floods
        pace.count_event("new pages")
    assert pace.floods
    assert pace.counts == {"new pages": FLOOD // 10}


def test_a_flood_lingers_while_nothing_more_arrives() -> None:
    clock = FakeClock()
    pace = Pace(clock)
    for number in range(HEAVY):
        assert not pace.heavy, number
        pace.count_event("console lines")
    assert pace.heavy
    clock.time += LINGERS
    pace.count_event("requests")
    assert pace.floods
    assert pace.counts == {"console lines": HEAVY}
    clock.time += 1.0
    assert not pace.floods
    assert pace.counts == {"requests": 1}
