"""WITHIN, EVENTUALLY and STABLE, on a clock that moves only when somebody sleeps."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.criteria import look_once, parse
from harness.criteria.evaluation import Unsettled
from harness.criteria.patterns import Patience

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.criteria.conftest import World


@pytest.fixture
def page(world: World) -> World:
    """`#late` comes after two seconds, `#brief` is there until then, `#on` always."""
    world.pages = {
        ("exists", "#late"): lambda time: time >= 2,
        ("exists", "#later"): lambda time: time >= 4,
        ("exists", "#brief"): lambda time: time < 2,
        ("exists", "#on"): True,
        ("count", ".row"): math.floor,
    }
    return world


def test_within_ends_as_soon_as_it_holds(page: World) -> None:
    assert page.holds("WITHIN(5, exists('#late'))")
    assert 2 <= page.clock.time <= 2.25


def test_the_first_look_is_at_once(page: World) -> None:
    assert page.holds("WITHIN(5, exists('#on'))")
    assert page.holds("WITHIN(0, exists('#on'))")
    assert page.clock.sleeps == []


def test_the_pauses_grow(page: World) -> None:
    assert not page.holds("WITHIN(1, exists('#late'))")
    assert page.clock.sleeps[:4] == pytest.approx([0.1, 0.15, 0.225, 0.25])
    assert max(page.clock.sleeps) <= 0.25


def test_the_last_look_is_at_the_end(page: World) -> None:
    assert page.holds("WITHIN(2, exists('#late'))")
    assert page.clock.time == pytest.approx(2)
    page.clock.time = 0
    assert not page.holds("WITHIN(1.9, exists('#late'))")
    assert page.clock.time == pytest.approx(1.9)


def test_a_wait_in_vain_says_how_long(page: World) -> None:
    assert page.message("WITHIN(1, exists('#late'))") == "after 1 s: no element matches '#late'"
    page.clock.time = 0
    assert page.message("WITHIN(1, count('.row') == 5)") == "after 1 s: count('.row') is 1, expected 5"


def test_eventually_waits_until_the_deadline(page: World) -> None:
    assert page.holds("EVENTUALLY(exists('#later'))")
    page.clock.time, page.limit = 0, 3
    message = page.message("EVENTUALLY(exists('#later'))")
    assert message == "after 3 s, when the deadline came: no element matches '#later'"
    assert page.clock.time == pytest.approx(3)


def test_no_wait_goes_beyond_the_deadline(page: World) -> None:
    page.limit = 1.5
    late, on = "exists('#late')", "exists('#on')"
    for text in (f"WITHIN(9, {late})", f"STABLE(9, {on})", f"WITHIN(9, STABLE(5, {on}))", f"NOT[EVENTUALLY({on})]"):
        page.clock.time = 0
        assert not page.holds(text)
        assert page.clock.time <= 1.5 + 1e-6


def test_after_the_deadline_there_is_still_one_look(page: World) -> None:
    page.clock.time = 100
    assert page.holds("EVENTUALLY(exists('#on'))")
    assert not page.holds("EVENTUALLY(exists('#no'))")
    assert not page.holds("STABLE(1, exists('#on'))")
    assert page.clock.sleeps == []


def test_stable_holds_for_the_whole_time(page: World) -> None:
    assert page.holds("STABLE(3, exists('#on'))")
    assert page.clock.time == pytest.approx(3)
    assert len(page.asked) > 10


def test_stable_fails_at_the_first_change(page: World) -> None:
    message = page.message("STABLE(10, exists('#brief'))")
    assert 2 <= page.clock.time <= 2.25
    assert message.startswith("not stable, after 2")
    assert message.endswith("no element matches '#brief'")


def test_stable_cut_by_the_deadline_is_not_proven(page: World) -> None:
    page.limit = 1
    assert page.message("STABLE(3, exists('#on'))") == "stable for 1 s of 3 s when the deadline came"


def test_stable_inside_a_wait_starts_again(page: World) -> None:
    assert page.holds("WITHIN(9, STABLE(1, exists('#late')))")
    assert 3 <= page.clock.time <= 3.5
    page.clock.time = 0
    assert "held, but not long enough" in page.message("WITHIN(2.5, STABLE(1, exists('#late')))")


def test_a_look_falls_on_the_end_of_an_inner_wait(page: World) -> None:
    assert page.holds("WITHIN(9, STABLE(0.33, exists('#on')))")
    assert page.clock.time == pytest.approx(0.33)


def test_a_wait_inside_stable(page: World) -> None:
    assert page.holds("STABLE(1, WITHIN(3, exists('#late')))")
    assert page.clock.time >= 2


def test_the_parts_of_all_follow_each_other(page: World) -> None:
    assert page.holds("ALL[WITHIN(5, exists('#late')), WITHIN(2.5, exists('#later')), count('.row') == 4]")
    page.clock.time = 0
    assert not page.holds("ALL[count('.row') == 4, EVENTUALLY(exists('#later'))]")
    assert page.clock.time == 0


def test_a_part_of_all_that_held_before_a_wait_is_not_judged_again(page: World) -> None:
    assert page.holds("ALL[exists('#brief'), EVENTUALLY(exists('#late'))]")
    assert page.asked.count(("exists", "#brief")) == 1


def test_the_parts_of_any_run_side_by_side(page: World) -> None:
    assert page.holds("ANY[EVENTUALLY(exists('#no')), EVENTUALLY(exists('#late'))]")
    assert page.clock.time <= 2.25
    page.clock.time = 0
    assert page.holds("ANY[EVENTUALLY(exists('#no')), exists('#on')]")
    assert page.clock.time == 0
    assert page.message("ANY[WITHIN(1, exists('#no')), WITHIN(2, exists('#nor'))]") == (
        "none of 2 alternatives holds: (1) after 1 s: no element matches '#no';"
        " (2) after 2 s: no element matches '#nor'"
    )


def test_not_waits_for_its_part(page: World) -> None:
    assert page.holds("NOT[WITHIN(1, exists('#late'))]")
    assert page.clock.time == pytest.approx(1)
    page.clock.time = 0
    assert page.holds("WITHIN(5, NOT[exists('#brief')])")
    assert page.clock.time >= 2


def test_each_look_reads_afresh(page: World) -> None:
    assert page.holds("WITHIN(5, ALL[exists('#late'), exists('#late')])")
    assert len(page.asked) == len(page.clock.sleeps) + 1


@given(st.floats(0, 50), st.floats(0, 50), st.floats(0.1, 50))
def test_a_wait_always_ends_in_time(
    new_world: Callable[..., World], appears: float, seconds: float, limit: float
) -> None:
    world = new_world(pages={("exists", "#x"): lambda time: time >= appears}, limit=limit)
    held = world.holds(f"WITHIN({seconds:.6f}, exists('#x'))")
    end = min(seconds, limit)
    assert world.clock.time <= end + 0.002
    if abs(appears - end) > 0.01:
        assert held is (appears < end)


@pytest.mark.parametrize(
    ("text", "expect", "holds"),
    [
        ("exists('#on')", 0, True),
        ("exists('#late')", 0, False),
        ("exists('#on')", 5, True),
        ("exists('#late')", 5, None),
        ("EVENTUALLY(exists('#late'))", 0, None),
        ("STABLE(1, exists('#late'))", 5, False),
        ("STABLE(1, exists('#on'))", 0, None),
    ],
)
def test_one_look_settles_what_needs_no_time(page: World, text: str, expect: float, holds: bool | None) -> None:
    found = asyncio.run(look_once(parse(text), page, Patience(), expect=expect))
    assert (None if isinstance(found, Unsettled) else found.holds) is holds
    assert page.clock.sleeps == []
