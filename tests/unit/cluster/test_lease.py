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
    clock.time = 20
    fence.seen(7)
    clock.time = FENCE
    assert fence.closed


DELAYS = st.lists(st.tuples(st.floats(0, 40), st.floats(0, 40), st.booleans(), st.booleans()), max_size=25)
"""Of each beat: how long it travels, how long its answer travels, and whether each arrives at all."""


@given(delays=DELAYS)
def test_the_fence_closes_before_the_lease_ends(delays: list[tuple[float, float, bool, bool]]) -> None:
    clock = FakeClock()
    lease, fence = Lease(clock), Fence(clock)
    moments: list[tuple[float, str, int]] = []
    for number, (there, back, heard, answered) in enumerate(delays, 1):
        sent = number * BEAT
        moments.append((sent, "sent", number))
        if heard:
            moments.append((sent + there, "heard", number))
            moments += [(sent + there + back, "seen", number)] if answered else []
    closed = False
    for at, what, number in [*sorted(moments), (1000.0, "end", 0)]:
        clock.time = at
        if what == "sent" and not fence.closed:
            fence.sends(number)
        elif what == "heard":
            lease.heard()
        elif what == "seen":
            fence.seen(number)
        closed = closed or fence.closed
        assert fence.closed == closed  # it never opens again
        assert closed or not lease.over
