"""Schedules: from a fault's declaration and a seed alone."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from harness.faults.injector import ArmedFault, Triggers, name_of, source_of
from harness.spec.faults import Empty, Fault, Missing, RequestFault
from harness.spec.steps import Step

STEP: TypeAdapter[Any] = TypeAdapter(Step)
SOME = st.none() | st.integers(1, 8)
TIMES = st.lists(st.floats(0, 100, allow_nan=False), max_size=40).map(sorted)


@st.composite
def faults(draw: st.DrawFn) -> RequestFault:
    after = draw(st.sampled_from([0.0, 10.0, 50.0]))
    until = draw(st.none() | st.sampled_from([60.0, 90.0]))
    chance = draw(st.sampled_from([0.1, 0.5, 0.9, 1.0]))
    return Empty(url="*", nth=draw(st.integers(1, 8)), times=draw(SOME), probability=chance, after=after, until=until)


def strikes(fault: Fault, times: list[float], seed: int = 1, name: str = "a") -> list[float]:
    """The occasions that are struck, out of those that come."""
    triggers = Triggers(fault, source_of(seed, "task", name))
    struck = []
    for t in times:
        if triggers.count_occasion(t):
            triggers.strike()
            struck.append(t)
    assert triggers.struck == len(struck)
    return struck


@given(faults(), TIMES, st.integers())
def test_the_same_seed_strikes_the_same(fault: Fault, times: list[float], seed: int) -> None:
    assert strikes(fault, times, seed) == strikes(fault, times, seed)


@given(faults(), TIMES)
def test_strikes_are_within_their_window_and_number(fault: RequestFault, times: list[float]) -> None:
    struck = strikes(fault, times)
    assert all(fault.after <= t <= (fault.until or t) for t in struck)
    within = [t for t in times if fault.after <= t <= (fault.until or t)]
    most = max(0, len(within) - fault.nth + 1)
    assert len(struck) <= min(most, fault.times or most)
    if fault.probability == 1:
        assert struck == within[fault.nth - 1 :][: fault.times or most]


@given(faults(), TIMES, st.integers(0, 10))
def test_what_comes_later_changes_nothing_before(fault: Fault, times: list[float], more: int) -> None:
    assert strikes(fault, times + [100.0] * more)[: len(strikes(fault, times))] == strikes(fault, times)


@given(st.integers(0, 5))
def test_a_due_occasion_that_another_fault_took_is_not_spent(lost: int) -> None:
    triggers = Triggers(Empty(url="*", times=1), source_of(1, "task", "a"))
    assert all(triggers.count_occasion(0) for _ in range(lost))
    assert triggers.count_occasion(0)
    triggers.strike()
    assert not triggers.count_occasion(0)


def test_chances_come_out_as_declared_and_differ_by_name_and_task() -> None:
    fault, times = Empty(url="*", probability=0.25), [0.0] * 4000
    drawn = [source_of(*key).random() for key in ((1, "t", "a"), (1, "t", "b"), (1, "u", "a"), (2, "t", "a"))]
    assert 900 < len(strikes(fault, times)) < 1100
    assert len(set(drawn)) == 4
    assert source_of(None, "t", "a").random() == source_of(0, "t", "a").random()


def test_names() -> None:
    assert name_of(Empty(url="*"), 3) == "empty-3"
    assert name_of(Empty(url="*", id="mine"), 3) == "mine"


def test_steps_that_are_occasions() -> None:
    click = STEP.validate_python({"act": "click", "selector": "#a"})
    wait = STEP.validate_python({"act": "wait", "selector": "#a"})
    fault = Triggers(Missing(selector="#a", step=2, act="click"), source_of(1, "t", "a"))
    any_act = Triggers(Missing(selector="#a"), source_of(1, "t", "a"))
    request = Triggers(Empty(url="*"), source_of(1, "t", "a"))
    assert [fault.at_step(index, click) for index in (1, 2, 3)] == [False, True, True]
    assert not fault.at_step(2, wait)
    assert any_act.at_step(0, wait)
    assert not request.at_step(0, click)


def test_request_faults_are_armed_by_their_step_and_stay_so() -> None:
    faults = [Empty(url="*", step=1), Missing(selector="#a"), Empty(url="*")]
    armed = ArmedFault([Triggers(fault, source_of(1, "t", str(number))) for number, fault in enumerate(faults)])
    assert armed.requests() == []
    counts = []
    for index in (0, 1, 0):
        armed.up_to(index)
        counts.append([each.fault for each in armed.requests()])
    assert counts == [[faults[2]], [faults[0], faults[2]], [faults[0], faults[2]]]
