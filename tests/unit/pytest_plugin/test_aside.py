"""Streams keep what a task says before its turn."""

from __future__ import annotations

import io
import sys

import pytest

from harness.output import Output, kept_in
from harness.pytest_plugin.aside import Streams


def put(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """In the test itself: pytest puts its own there for each phase."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    return stream


def test_what_a_task_prints_too_early_is_printed_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = put(monkeypatch)
    streams, output = Streams(("stdout",)), Output()
    with kept_in(output):
        print("early", 1)
    print("another")
    assert stream.getvalue() == "another\n"
    later = put(monkeypatch)  # as pytest does, from phase to phase
    streams.look()
    with kept_in(output):
        print("early", 2)
    output.turn()
    with kept_in(output):
        print("late")
    assert later.getvalue() == "early 1\nearly 2\nlate\n"
    streams.end()
    assert not any("write" in vars(each) for each in (stream, later))


def test_what_is_no_text_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = put(monkeypatch)
    streams = Streams(("stdout",))
    with kept_in(Output()), pytest.raises(TypeError):
        stream.write(1)  # type: ignore[arg-type]
    streams.end()


def test_one_within_another_leaves_it_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest within pytest."""
    stream = put(monkeypatch)
    outer = Streams(("stdout",))
    write = stream.write
    inner = Streams(("stdout",))
    inner.end()
    assert stream.write is write
    outer.end()
    print("as ever")
    assert stream.getvalue() == "as ever\n"


def test_a_stream_that_cannot_be_listened_to_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Strict:
        __slots__ = ("text",)

        def write(self, text: str) -> None:
            self.text = text

    strict = Strict()
    monkeypatch.setattr(sys, "stdout", strict)
    monkeypatch.setattr(sys, "stderr", None)
    Streams(("stdout", "stderr")).end()
    with kept_in(Output()):
        sys.stdout.write("at once")
    assert strict.text == "at once"
