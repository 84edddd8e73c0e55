"""Streams keep what a task says before its turn."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from harness.pytest_plugin.parallel import DeferredLogs, DeferredOutput, Streams
from harness.runner.parallel import Output, kept_in


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
    output.print_now()
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


def test_without_capture_it_goes_past_the_stream_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-s`, and a test that has `capsys`."""
    start = put(monkeypatch)
    streams, output = Streams(("stdout",), straight=True), Output()
    assert "write" not in vars(start)
    capsys = put(monkeypatch)
    streams.look()
    with kept_in(output):
        print("early")
        output.print_now()
        print("in its turn")
    print("another")
    assert (start.getvalue(), capsys.getvalue()) == ("early\n", "in its turn\nanother\n")
    streams.end()
    assert "write" not in vars(capsys)


@pytest.fixture
def heard() -> Iterator[list[logging.LogRecord]]:
    """What a handler of pytest gets, while records are kept."""
    found: list[logging.LogRecord] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            self.format(record)
            found.append(record)

    handler = Handler()
    logs = DeferredLogs(SimpleNamespace(caplog_handler=handler))
    logging.getLogger().addHandler(handler)
    yield found
    logging.getLogger().removeHandler(handler)
    logs.end()


def test_a_record_says_what_it_said_when_it_was_logged(heard: list[logging.LogRecord]) -> None:
    output, things = Output(), ["one"]
    error = ValueError("as it was")
    with kept_in(output):
        logging.warning("%s", things)
        try:
            raise error
        except ValueError:
            logging.exception("broken")
    things.append("two")
    error.args = ("another",)
    assert heard == []
    output.print_now()
    assert [each.getMessage() for each in heard] == ["['one']", "broken"]
    assert str(heard[1].exc_text).endswith("ValueError: as it was")


def test_a_record_that_cannot_be_formatted_fails_where_it_is_logged(heard: list[logging.LogRecord]) -> None:
    output = Output()
    with kept_in(output), pytest.raises(TypeError):
        logging.warning("%d", "x")
    assert output.print_now() is None
    assert heard == []


def test_the_end_comes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that breaks off has only its cleanup."""
    cleanups: list[Callable[[], None]] = []
    manager = SimpleNamespace(hasplugin=lambda _name: True, getplugin=lambda _name: None)
    output = DeferredOutput(cast("pytest.Config", SimpleNamespace(
        pluginmanager=manager, getoption=lambda _name: "fd", add_cleanup=cleanups.append
    )))  # fmt: skip
    stream = sys.stdout
    assert "write" in vars(stream)
    (end,) = cleanups
    end()
    assert "write" not in vars(stream)
    root = logging.getLogger()
    monkeypatch.setattr(root, "level", root.level + 1)
    level = root.level
    output.pytest_sessionfinish()
    assert root.level == level
