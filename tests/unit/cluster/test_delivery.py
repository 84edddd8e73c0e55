"""Messages over a connection that loses, repeats and overtakes: each arrives once, in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.cluster.delivery import Inbox, Outbox

ARRIVES = st.lists(st.sampled_from(["now", "late", "never"]), max_size=20)


@given(st.lists(st.tuples(st.integers(0, 3), ARRIVES, st.booleans()), max_size=12))
def test_each_message_arrives_once_and_in_order(rounds: list[tuple[int, list[str], bool]]) -> None:
    """In each round something new is said, all that is kept is sent, and an acknowledgement may be lost."""
    outbox, inbox = Outbox[int](), Inbox[int]()
    taken: list[int] = []
    late: list[tuple[int, int]] = []
    said = 0
    for new, ways, acknowledged in [*rounds, (1, [], True)]:
        for _ in range(new):
            outbox.put(said)
            said += 1
        sent = list(zip(outbox.kept, [*ways, *["now"] * len(outbox.kept)], strict=False))
        overtaken, late = late, [each for each, way in sent if way == "late"]
        taken += inbox.take(each for each, way in sent if way == "now")
        taken += inbox.take(reversed(overtaken))
        assert taken == list(range(len(taken)))
        if acknowledged:
            outbox.acknowledged(inbox.number)
    assert taken == list(range(said))
    assert outbox.kept == []
