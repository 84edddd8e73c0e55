"""The replay buffer: bounded in bytes and time, numbered without gaps, and honest about what is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from harness.bridge.session import ReplayBuffer

START = datetime(2026, 11, 25, tzinfo=UTC)


@given(
    st.lists(st.tuples(st.integers(0, 400), st.floats(0, 50)), max_size=40), st.integers(0, 45), st.integers(100, 2000)
)
def test_what_is_replayed_follows_without_a_gap_and_what_is_lost_is_counted(
    sent: list[tuple[int, float]], after: int, most: int
) -> None:
    buffer, now = ReplayBuffer("e1", most, 60.0), 0.0
    for size, wait in sent:
        now += wait
        buffer.append({"type": "note", "timestamp": START.isoformat(), "payload": "x" * size}, now)
        assert buffer.size <= most
    replay = buffer.after(after, "e1", now)
    numbers = [each["seq"] for each in replay.messages]
    assert numbers == list(range(len(sent) - len(numbers) + 1, len(sent) + 1))
    if after <= len(sent):
        assert replay.lost + len(numbers) == len(sent) - after
        assert replay.complete == (replay.lost == 0)
    else:
        assert not replay.complete
    assert not buffer.after(after, "e2", now).complete
    assert buffer.size == sum(len(msgspec.json.encode(each)) for each in buffer.after(0, "", now).messages)


def test_one_overflow_does_not_empty_the_buffer() -> None:
    buffer = ReplayBuffer("e", 1000, 60.0)
    for number in range(30):
        buffer.append({"type": "note", "timestamp": START.isoformat(), "payload": str(number)}, 0.0)
    assert len(buffer.after(0, "", 0.0).messages) > 5


def test_old_messages_go_and_moments_can_be_asked_for() -> None:
    buffer = ReplayBuffer("e", 10_000, 1800.0)
    for number in range(4):
        moment = START + timedelta(minutes=10 * number)
        buffer.append({"type": "note", "timestamp": moment.isoformat(), "payload": number}, 600.0 * number)
    since = buffer.since(START + timedelta(minutes=5), 1800.0)
    assert ([each["payload"] for each in since.messages], since.complete) == ([1, 2, 3], True)
    later = buffer.since(START, 2500.0)
    assert ([each["payload"] for each in later.messages], later.complete) == ([2, 3], False)
