"""A child stops to write before its driver gives its work away, whatever the line loses or delays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.cluster.lease import BEAT, FENCE, LEASE, Fence, Lease
from tests.unit.fakes import FakeClock


def test_a_lease_ends_after_its_seconds_and_stays_over() -> None:
    clock = FakeClock()
    lease = Lease(clock)
    clock.time = LEASE - 1
    lease.heard()
    clock.time = LEASE + 1
    assert not lease.over
    clock.time = 2 * LEASE - 1
    assert lease.over
    lease.heard()  # a slot that wakes up is not heard any more
    assert lease.over


def test_a_fence_counts_from_the_beat_that_was_sent_not_from_the_answer() -> None:
    clock = FakeClock()
    fence = Fence(clock)
    fence.given()
    fence.sends(1)
    clock.time = 20
    fence.seen(1)
    clock.time = FENCE
    assert fence.closed
    fence.seen(1)
    assert fence.closed


def test_an_answer_to_a_beat_that_was_never_sent_changes_nothing() -> None:
    clock = FakeClock()
    fence = Fence(clock)
    fence.given()
    clock.time = 20
    fence.seen(7)
    clock.time = FENCE
    assert fence.closed


def test_a_fence_does_not_close_before_the_driver_is_there() -> None:
    clock = FakeClock()
    fence = Fence(clock)
    for number, at in enumerate((0, 5, 100), 1):
        clock.time = at
        fence.sends(number)
    clock.time = 101
    assert not fence.closed
    fence.seen(1)  # all that it has sent is answered at once
    fence.seen(2)
    fence.seen(3)
    fence.given()
    assert not fence.closed
    clock.time = 100 + FENCE
    assert fence.closed


def test_work_of_a_driver_that_has_seen_no_beat_in_time_closes_the_fence() -> None:
    clock = FakeClock()
    fence = Fence(clock)
    clock.time = FENCE
    assert not fence.closed
    fence.given()
    assert fence.closed


DELAYS = st.lists(st.tuples(st.floats(0, 40), st.floats(0, 40), st.booleans(), st.booleans()), max_size=25)
"""Of each beat: how long it travels, how long its answer travels, and whether each arrives at all."""


@given(delays=DELAYS, begins=st.floats(0, 90), gives=st.floats(0, 40))
def test_the_fence_closes_before_the_lease_ends(
    delays: list[tuple[float, float, bool, bool]], begins: float, gives: float
) -> None:
    """`begins`: when the driver listens. `gives`: how long its work travels."""
    clock = FakeClock()
    lease, fence = Lease(clock, 1000.0), Fence(clock)
    moments: list[tuple[float, str, int]] = []
    for number, (there, back, heard, answered) in enumerate(delays, 1):
        sent = number * BEAT
        moments.append((sent, "sent", number))
        if heard:
            at = max(sent + there, begins)
            moments.append((at, "heard", number))
            moments += [(at + back, "seen", number)] if answered else []
    first = min((at for at, what, _ in moments if what == "heard"), default=0.0)
    moments.append((first + gives, "given", 0))
    closed = works = False
    for at, what, number in [*sorted(moments), (1000.0, "end", 0)]:
        clock.time = at
        if what == "sent" and not fence.closed:
            fence.sends(number)
        elif what == "heard":
            lease = Lease(clock) if at == first else lease
            lease.heard()
        elif what == "seen":
            fence.seen(number)
        elif what == "given":
            works = True
            fence.given()
        closed = closed or fence.closed
        assert fence.closed == closed  # it never opens again
        assert closed or not (works and lease.over)
