"""What the commands share that make trials: `harness chaos`, `harness eval` and `harness verify`."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.cli.main import INTERRUPTED
from harness.model.settings import Settings, workers_or_auto

if TYPE_CHECKING:
    from harness.runner.sync import BegunRun

Workers = int | Literal["auto"] | None


def _parsed(text: str) -> object:
    try:
        return workers_or_auto(int(text) if text.isdecimal() else text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} {error}") from error


WorkersOption = Annotated[
    Any,
    typer.Option(
        "--task-workers",
        metavar="N|auto",
        parser=_parsed,
        help="Trials at once, as far as they share no state. Default: `task_workers`.",
    ),
]


def with_workers(settings: Settings, workers: Workers) -> Settings:
    """The settings with the number of trials at once that the command line names."""
    return settings if workers is None else settings.model_copy(update={"task_workers": workers})


def say(text: str) -> None:
    """Print a line beside the results."""
    typer.echo(text, err=True)


def begun_run(settings: Settings, run_id: str = "") -> BegunRun:
    """Begin the run of a command, which the first Ctrl-C or SIGTERM ends. Raises ValueError and OSError."""
    from harness.runner.sync import BegunRun  # Playwright is loaded only when tasks run

    _end_once()
    return BegunRun(settings, run_id, say=say)


def say_progress(number: int, of: int, line: str) -> None:
    """Print that a trial is over."""
    say(f"{number:>{len(str(of))}}/{of} {line}")


# Ctrl-C, SIGTERM and SIGHUP: the first one ends the command regularly, and no further one breaks that off.

_BOUND = 15.0
"""Seconds that the end may take after a second Ctrl-C. Then the process ends at once."""
_HEARD = ("SIGINT", "SIGTERM", "SIGHUP")
"""SIGTERM: a CI system cancels the job. SIGHUP: the terminal was closed; Windows does not have it."""


def _end_once() -> None:
    """Let only the first of these signals from now on interrupt; the command ends with it, and keeps its document."""
    heard = [0]
    known = [number for name in _HEARD if (number := getattr(signal, name, None)) is not None]
    ours = [each for each in known if signal.getsignal(each) in (signal.default_int_handler, signal.SIG_DFL)]

    def handle(number: int, frame: FrameType | None) -> None:
        heard[0] += 1
        if heard[0] == 1:
            for each in ours:  # Python itself would put the default back
                atexit.register(signal.signal, each, signal.SIG_IGN)
            signal.default_int_handler(number, frame)
        if heard[0] == 2:
            last = threading.Timer(_BOUND, os._exit, (INTERRUPTED,))
            last.daemon = True
            last.start()

    for each in ours:
        signal.signal(each, handle)
