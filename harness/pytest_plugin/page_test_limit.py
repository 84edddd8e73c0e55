"""Ends an ordinary Playwright test that hangs (`page_test_timeout`), whatever it waits for, so that it can be examined.

A thread watches the time and sends a signal to the thread of the tests: that ends an endless loop of Python as well as
a call of Playwright that gets no answer. It is not the signal of pytest-timeout, and both may be used.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from _pytest.outcomes import Failed

_AGAIN = 2.0
"""Seconds after which a test that still runs is ended again: a callback may have swallowed the error."""


class PageTestTimeoutError(Failed):
    """The test did not end within `page_test_timeout`. As of `pytest.fail`, no `except Exception` catches it."""

    act = "timeout"
    """What reports show in place of a call."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the test exceeded {seconds:g} s (`page_test_timeout`)")
        self.seconds = seconds


class PageTestLimit:
    """The limit of each phase of a test: set-up, the test itself, tear-down.

    Raises UsageError where the system cannot send a signal to a thread.
    """

    def __init__(self, seconds: float) -> None:
        if not hasattr(signal, "pthread_kill"):
            raise pytest.UsageError("page_test_timeout cannot be used: this system sends no signals to threads")
        self.seconds = seconds
        self._within = False
        self._thread = threading.get_ident()
        self._before: Any = signal.signal(signal.SIGURG, self._end_test)  # nobody else is hurt by it: it is ignored

    def close(self) -> None:
        """Restore the handler of the signal."""
        signal.signal(signal.SIGURG, self._before)

    @contextmanager
    def within(self) -> Iterator[None]:
        """End what runs inside when its time is over."""
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(self.seconds, over), name="taskspec-limit", daemon=True)
        self._within = True
        watch.start()
        try:
            yield
        finally:
            self._within = False
            over.set()

    def _watch(self, left: float, over: threading.Event) -> None:
        while not over.wait(left):
            signal.pthread_kill(self._thread, signal.SIGURG)
            left = _AGAIN

    def _end_test(self, _signal: int, _frame: FrameType | None) -> None:
        if self._within:
            raise PageTestTimeoutError(self.seconds)
