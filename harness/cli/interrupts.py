"""Ctrl-C in a command that runs tasks: the first one ends it regularly, and no further one breaks that off."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from types import FrameType

from harness.cli.main import INTERRUPTED

_BOUND = 15.0
"""Seconds that the end may take after a second Ctrl-C. Then the process ends at once."""


def end_once() -> None:
    """Let only the first Ctrl-C from now on interrupt; the command ends with it."""
    pressed = [0]

    def handle(number: int, frame: FrameType | None) -> None:
        pressed[0] += 1
        if pressed[0] == 1:
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # Python itself would put the default back
            signal.default_int_handler(number, frame)
        if pressed[0] == 2:
            last = threading.Timer(_BOUND, os._exit, (INTERRUPTED,))
            last.daemon = True
            last.start()

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, handle)
