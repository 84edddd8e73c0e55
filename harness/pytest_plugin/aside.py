"""What tasks print and log before their turn must not stand in the report of another test (`--task-workers`).

pytest captures `sys.stdout` for the item that runs. What speaks for a task that runs ahead (a channel or an agent in
Python) does so on another thread meanwhile. Here it is kept by `harness.runner.parallel`, and said when the task's turn has
come, where pytest captures it as if the task had run then. With `-s` nothing is kept: it goes to the stream of the
start, past the `capsys` of the test that runs. A child process writes to the file descriptor: that cannot be told
apart.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Generator, Sequence
from copy import copy
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from harness.runner.parallel import early, keep

NAMES = ("stdout", "stderr")
KEPT = "taskspec_kept"
"""Attribute of a log record that is said later."""


class Aside:
    """Registered only with look-ahead, for as long as tasks run."""

    def __init__(self, config: pytest.Config) -> None:
        captures = config.pluginmanager.hasplugin("capturemanager") and config.getoption("capture") != "no"
        self._streams = Streams(NAMES, straight=not captures)
        self._logs = _Logs(config.pluginmanager.getplugin("logging-plugin"))
        self._over = False
        config.add_cleanup(self._end)  # a session that breaks off may have no end

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        self._streams.look()
        return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        self._streams.look()
        return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self) -> Generator[None, Any, Any]:
        self._streams.look()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self) -> Generator[None, Any, Any]:
        """`capsys` has streams of its own."""
        try:
            return (yield)
        finally:
            self._streams.look()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self._end()

    def _end(self) -> None:
        """Everything is as it was; once."""
        if self._over:
            return
        self._over = True
        self._streams.end()
        self._logs.end()


class Streams:
    """Streams of `sys` keep what tasks say too early. pytest puts one in place of another: each is listened to."""

    def __init__(self, names: Sequence[str], *, straight: bool = False) -> None:
        """`straight`: what is said too early goes to the streams of now; to these one need not listen."""
        self._begun = {name: getattr(sys, name) for name in names} if straight else {}
        self._names = names
        self._before: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        """Stream -> the `write` that was set on it before; None: it had only that of its class."""
        self.look()

    def look(self) -> None:
        """Listen to those that stand there now."""
        for name in self._names:
            stream = getattr(sys, name)
            if name in self._begun and stream is self._begun[name]:
                continue
            with contextlib.suppress(AttributeError, TypeError):  # one that cannot be listened to
                if stream not in self._before:
                    before, write = vars(stream).get("write"), stream.write
                    past = name in self._begun
                    stream.write = partial(_past, self._begun[name], write) if past else partial(_write, name, write)
                    self._before[stream] = before

    def end(self) -> None:
        """Each is as it was."""
        for stream, before in self._before.items():
            if before is None:
                del stream.write
            else:
                stream.write = before
        self._before.clear()


def _write(name: str, write: Any, text: Any) -> Any:
    """Instead of a stream's own `write`; what is no text is for that to refuse."""
    if isinstance(text, str) and keep(partial(_say, name, text)):
        return len(text)
    return write(text)


def _past(begun: Any, write: Any, text: Any) -> Any:
    """The same, where nothing is kept. `begun`: the stream of the start; None: there was none."""
    if not early():
        return write(text)
    return begun.write(text) if begun is not None else len(text)


def _say(name: str, text: str) -> None:
    stream = getattr(sys, name)
    if stream is not None:
        stream.write(text)


class _Logs(logging.Handler):
    """Keeps records from pytest's own handlers until the turn of their task; those of others get them at once."""

    def __init__(self, plugin: Any) -> None:
        super().__init__()
        names = ("caplog_handler", "report_handler", "log_cli_handler")
        found = (getattr(plugin, name, None) for name in names)
        self._handlers = [handler for handler in found if isinstance(handler, logging.Handler)]
        root, level = logging.getLogger(), getattr(plugin, "log_level", None)
        self._level = root.level
        if level is not None:  # pytest sets it only while an item runs
            root.setLevel(min(root.level, level))
        for handler in self._handlers:
            handler.addFilter(_due)
        if self._handlers:
            root.addHandler(self)  # pytest adds its own later, for each item: this one comes first

    def emit(self, record: logging.LogRecord) -> None:
        """Raises what formatting does, as pytest's handlers do: it belongs to the code that logs."""
        if early() and keep(partial(self._say, _as_now(record))):
            setattr(record, KEPT, True)

    def _say(self, record: logging.LogRecord) -> None:
        for handler in self._handlers:
            if record.levelno >= handler.level:
                handler.handle(record)

    def end(self) -> None:
        root = logging.getLogger()
        root.removeHandler(self)
        root.setLevel(self._level)
        for handler in self._handlers:
            handler.removeFilter(_due)


def _as_now(record: logging.LogRecord) -> logging.LogRecord:
    """A copy that says what the record says now: its arguments may be other ones when it is said."""
    kept = copy(record)
    kept.msg, kept.args = record.getMessage(), None
    if record.exc_info and not record.exc_text:
        kept.exc_text = logging.Formatter().formatException(record.exc_info)
    return kept


def _due(record: logging.LogRecord) -> bool:
    return not getattr(record, KEPT, False)
