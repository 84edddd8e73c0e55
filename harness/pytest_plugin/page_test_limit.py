"""Ends an ordinary Playwright test that hangs (`page_test_timeout`), whatever it waits for, so that it can be examined.

A thread watches the time and sends a signal to the thread of the tests: that ends an endless loop of Python as well as
a call of Playwright that gets no answer. It is not the signal of pytest-timeout, and both may be used.
"""

from __future__ import annotations

import os
import signal
import threading
from asyncio import events
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from _pytest.outcomes import Failed

_AGAIN = 2.0
"""Seconds after which a test that still runs is ended again: a callback may have swallowed the error."""


_SOON = 0.01
"""Seconds after which that is tried again at another moment."""
_STANDARD = str(Path(events.__file__).parents[1])
_OWN = str(Path(__file__).parents[1])
_LIBRARY = f"{os.sep}site-packages{os.sep}"


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
        self._within = self._raised = False
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
        self._within, self._raised = True, False
        watch.start()
        try:
            yield
        finally:
            self._within = False
            over.set()

    def _watch(self, left: float, over: threading.Event) -> None:
        while not over.wait(left):
            signal.pthread_kill(self._thread, signal.SIGURG)
            left = _AGAIN if self._raised else _SOON

    def _end_test(self, _signal: int, frame: FrameType | None) -> None:
        if self._within and not _inside_playwright(frame):
            self._raised = True
            raise PageTestTimeoutError(self.seconds)


def _inside_playwright(frame: FrameType | None) -> bool:
    """Return whether a callback of the loop runs that has no code of the test: an error there would end Playwright."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file == events.__file__:
            return True
        if not (file.startswith((_STANDARD, _OWN)) or _LIBRARY in file):
            return False
        frame = frame.f_back
    return False
