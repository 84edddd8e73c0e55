"""Messages over a connection that loses, repeats and overtakes: each arrives once, in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.cluster.messages import ReceiveBuffer, SendBuffer

ARRIVES = st.lists(st.sampled_from(["now", "late", "never"]), max_size=20)


@given(st.lists(st.tuples(st.integers(0, 3), ARRIVES, st.booleans()), max_size=12))
def test_each_message_arrives_once_and_in_order(rounds: list[tuple[int, list[str], bool]]) -> None:
    """In each round something new is said, all that is kept is sent, and an acknowledgement may be lost."""
    sender, receiver = SendBuffer[int](), ReceiveBuffer[int]()
    taken: list[int] = []
    late: list[tuple[int, int]] = []
    said = 0
    for new, ways, acknowledged in [*rounds, (1, [], True)]:
        for _ in range(new):
            sender.put(said)
            said += 1
        sent = list(zip(sender.kept, [*ways, *["now"] * len(sender.kept)], strict=False))
        overtaken, late = late, [each for each, way in sent if way == "late"]
        taken += receiver.take(each for each, way in sent if way == "now")
        taken += receiver.take(reversed(overtaken))
        assert taken == list(range(len(taken)))
        if acknowledged:
            sender.acknowledged(receiver.number)
    assert taken == list(range(said))
    assert sender.kept == []
