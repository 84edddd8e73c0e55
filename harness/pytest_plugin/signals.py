"""Ctrl-C, SIGTERM and SIGHUP: the first one ends the run regularly, and no further one interrupts that."""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import signal
import threading
from types import FrameType
from typing import Any

import pytest

from harness.pytest_plugin.role import role_of
from harness.pytest_plugin.state import STATE
from harness.resilience import SystemClock

_BOUND = 15.0
"""Seconds that the end of a run may take after a second signal. Then the process ends at once."""
_PATIENCE_OF_XDIST = 12.0
"""Further seconds for the xdist controller: it waits up to ten for its workers' reports, and then kills them."""
_HEARD = ("SIGINT", "SIGTERM", "SIGHUP")
"""SIGTERM: a CI system cancels the run. SIGHUP: the terminal was closed; Windows does not have it."""
INTERRUPTED = int(pytest.ExitCode.INTERRUPTED)
_HELD = (
    "taskspec: the run is already ending: it writes its reports and stops its browser and services. "
    "That takes at most {:g} s."
)
_GIVEN_UP = (
    "taskspec: the run had not ended {:g} s later and was stopped; reports that were not written yet are missing."
)


class Signals:
    """Handles the signals of one session or xdist worker. It is registered as a plugin and acts from `begin` on.

    A worker prints nothing and has the same bound: its terminal belongs to the controller, which prints.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._clock = SystemClock()
        self._before: dict[int, Any] = {}
        self._bound = _BOUND + (_PATIENCE_OF_XDIST if role_of(config).distributes else 0)
        self._terminal: int | None = None
        self._wakeup: queue.SimpleQueue[bool] = queue.SimpleQueue()
        """True: a second signal has come. False: the session is over. Its `put` may interrupt itself."""
        self._ending = False
        self._heard = False
        self._held = False
        self._debugging = False
        self._over: float | None = None

    def begin(self) -> None:
        """Handle the signals that have no other handler. Once; on another thread than the main one it does nothing."""
        if self._before or threading.current_thread() is not threading.main_thread():
            return
        for number in (getattr(signal, name) for name in _HEARD if hasattr(signal, name)):
            before = signal.getsignal(number)
            if before in (signal.SIG_DFL, signal.default_int_handler):
                self._before[number] = signal.signal(number, self.handle_signal)
        if role_of(self._config).reports:
            self._terminal = _beside_capturing(self._config)
        threading.Thread(target=self._watch, name="taskspec-signals", daemon=True).start()

    def handle_signal(self, number: int, frame: FrameType | None) -> None:
        """The handler. It takes no lock, since the main thread may hold any."""
        if self._over is not None and self._clock.now() - self._over > _BOUND:
            self._restore()  # the caller of `pytest.main` continues
            signal.raise_signal(number)
        elif self._debugging or not self._ending:
            self._ending = self._heard = not self._debugging
            state = self._config.stash[STATE]
            state.stopped_by = state.stopped_by or number
            signal.default_int_handler(number, frame)
        elif not self._held:
            self._heard = self._held = True
            self._say(_HELD)
            self._wakeup.put(True)

    def _watch(self) -> None:
        with contextlib.suppress(queue.Empty):
            if self._wakeup.get():
                self._wakeup.get(timeout=self._bound)
            return
        self._say(_GIVEN_UP)
        stored = self._config.stash[STATE].stored
        status = stored.journal.status(INTERRUPTED) if stored and stored.journal else INTERRUPTED
        os._exit(status)  # the reaper ends the processes that this one has started

    def _say(self, text: str) -> None:
        if self._terminal is not None:
            with contextlib.suppress(OSError):  # the terminal was closed
                os.write(self._terminal, f"\n{text.format(self._bound)}\n".encode())

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()
        terminal, self._terminal = self._terminal, None
        if terminal is not None:
            os.close(terminal)

    def pytest_runtest_logstart(self) -> None:
        """Forget the interruption if the run goes on: an ordinary test has handled it itself.

        But a machine that is taken away does not wait. Its signal is lost if it comes in a `__del__`, where Python
        ignores exceptions; then the run ends here.
        """
        stopped_by = self._config.stash[STATE].stopped_by
        if self._ending and stopped_by and stopped_by != signal.SIGINT:
            raise KeyboardInterrupt
        self._ending = False

    def pytest_enter_pdb(self) -> None:
        """Leave Ctrl-C to the debugger at its prompt, however often it is pressed."""
        self._debugging = True

    def pytest_leave_pdb(self) -> None:
        self._debugging = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Note that the run ends and its reports are being written, even if the first signal is still to come."""
        self._ending, self._debugging = True, False

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """End the watch; after an interruption the handlers stay for the last moment of the process."""
        self._over = self._clock.now()
        self._wakeup.put(False)
        if not self._heard:
            self._restore()
        for number in self._before:  # Python itself would put the defaults back before the process has ended
            atexit.register(signal.signal, number, signal.SIG_IGN)


def _beside_capturing(config: pytest.Config) -> int | None:
    """A file descriptor of standard error that stays the terminal's while pytest captures."""
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        try:
            return os.dup(2)
        except OSError:
            return None
