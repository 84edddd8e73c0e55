"""Ctrl-C, SIGTERM and SIGHUP: the first one ends the run in order, and no further one breaks into that."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
from types import FrameType
from typing import Any

import pytest

from harness.resilience import SystemClock

BOUND = 8.0
"""Seconds that the end of a run may take after a second signal. Then the process ends as it stands."""
PATIENCE_OF_XDIST = 12.0
"""Seconds more for its controller: it waits up to ten for its workers, which write the reports, and kills them then."""
HEARD = ("SIGINT", "SIGTERM", "SIGHUP")
"""SIGTERM: a CI system that cancels. SIGHUP: a terminal that is closed; there is none on Windows."""
HELD = (
    "taskspec: the run is already ending: its reports are written, and its browser and services are ended. "
    "That takes {:g} s at most."
)
GIVEN_UP = "taskspec: the run was not over {:g} s later, and was cut off: reports that are not written are missing."


class Signals:
    """The signals of one session, or of one xdist worker of it. Registered as a plugin; acts from `begin` on.

    A worker says nothing and keeps the same bound: its terminal is that of the controller, which speaks.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._clock = SystemClock()
        self._before: dict[int, Any] = {}
        parallel = bool(config.getoption("numprocesses", None))
        self._bound = BOUND + (PATIENCE_OF_XDIST if parallel else 0)
        self._terminal: int | None = None
        self._wakeup: queue.SimpleQueue[bool] = queue.SimpleQueue()
        """True: a second signal was heard. False: the session is over. Its `put` may interrupt itself."""
        self._ending = False
        self._heard = False
        self._held = False
        self._debugging = False
        self._over: float | None = None

    def begin(self) -> None:
        """Hear the signals that nobody else has taken. Once; on another thread than the main one nothing happens."""
        if self._before or threading.current_thread() is not threading.main_thread():
            return
        for number in (getattr(signal, name) for name in HEARD if hasattr(signal, name)):
            before = signal.getsignal(number)
            if before in (signal.SIG_DFL, signal.default_int_handler):
                self._before[number] = signal.signal(number, self._hear)
        if not hasattr(self._config, "workerinput"):
            self._terminal = _beside_capturing(self._config)
        threading.Thread(target=self._watch, name="taskspec-signals", daemon=True).start()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        """The handler. It takes no lock: the main thread may hold any that there is."""
        if self._over is not None and self._clock.now() - self._over > BOUND:
            self._restore()  # whoever called `pytest.main` goes on
            signal.raise_signal(number)
        elif self._debugging or not self._ending:
            self._ending = self._heard = not self._debugging
            signal.default_int_handler(number, frame)
        elif not self._held:
            self._heard = self._held = True
            self._say(HELD)
            self._wakeup.put(True)

    def _watch(self) -> None:
        with contextlib.suppress(queue.Empty):
            if self._wakeup.get():
                self._wakeup.get(timeout=self._bound)
            return
        self._say(GIVEN_UP)
        os._exit(pytest.ExitCode.INTERRUPTED)  # the reaper ends what this process has started

    def _say(self, text: str) -> None:
        if self._terminal is not None:
            with contextlib.suppress(OSError):  # a terminal that was closed
                os.write(self._terminal, f"\n{text.format(self._bound)}\n".encode())

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()
        terminal, self._terminal = self._terminal, None
        if terminal is not None:
            os.close(terminal)

    def pytest_runtest_logstart(self) -> None:
        """The run goes on: an ordinary test has dealt with the interruption itself."""
        self._ending = False

    def pytest_enter_pdb(self) -> None:
        """At a debugger's prompt Ctrl-C belongs to the debugger, as often as it is pressed."""
        self._debugging = True

    def pytest_leave_pdb(self) -> None:
        self._debugging = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Nothing runs any more. What is left is written, also when this is the first signal."""
        self._ending, self._debugging = True, False

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """After an interruption the handlers stay for the moment that the process still takes to end."""
        self._over = self._clock.now()
        self._wakeup.put(False)
        if not self._heard:
            self._restore()


def _beside_capturing(config: pytest.Config) -> int | None:
    """A descriptor of standard error that stays the terminal's while pytest captures."""
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        try:
            return os.dup(2)
        except OSError:
            return None
