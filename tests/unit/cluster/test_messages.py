"""Messages survive their line of JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cluster.messages import (
    Batch,
    Done,
    End,
    FromSlot,
    Noted,
    ToChild,
    Warned,
    WriteAnswer,
    WriteAsked,
    encode,
    from_slot,
    replaced,
    to_child,
)


@pytest.mark.parametrize(
    "message",
    [
        Noted("a.task.yaml::A", "wrote"),
        WriteAsked("a.task.yaml::A", 3),
        Warned("UserWarning", "hm\nhm", "t.py::t", ("t.py", 3, "t")),
        Done(
            "t.py::t", 2, ("t.py", None, "t"), ({"when": "call", "longrepr": ["a", 1]},), "/tmp/x.tar", "too large: big"
        ),
    ],
)
def test_a_message_of_a_slot_is_read_as_it_was_written(message: FromSlot) -> None:
    assert from_slot(encode(message)) == message


@pytest.mark.parametrize(
    "message", [Batch(1, (("n", 2),), "slot1-2", {"A": True}), WriteAnswer("n", 1, False), End("stop")]
)
def test_a_message_to_a_child_is_read_as_it_was_written(message: ToChild) -> None:
    assert to_child(encode(message)) == message


def test_a_value_that_json_does_not_have_becomes_its_text() -> None:
    done = Done("n", 1, ("f", 1, "n"), ({"user_properties": [["path", Path("/x")]]},))
    read = from_slot(encode(done))
    assert isinstance(read, Done)
    assert read.reports[0]["user_properties"] == [["path", "/x"]]


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(ValueError):
        from_slot(b"printed by some program\n")


def test_a_text_is_replaced_wherever_it_stands() -> None:
    assert replaced({"a": ["in /tmp/x/A", {"b": "/tmp/x"}], "c": 1}, "/tmp/x", "errors") == {
        "a": ["in errors/A", {"b": "errors"}],
        "c": 1,
    }


def test_half_a_character_is_escaped() -> None:
    """A message of a failure may have one, as the name of a file that is not UTF-8 has."""
    read = from_slot(encode(Done("n", 1, ("f", 1, "n"), ({"longrepr": "\udcff", "\ud800": [("a", "é\udc80")]},))))
    assert isinstance(read, Done)
    assert read.reports == ({"longrepr": "\\udcff", "\\ud800": [["a", "é\\udc80"]]},)
