"""What the commands share that make trials: `harness chaos`, `harness eval` and `harness verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.cli.interrupts import end_once
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
        help="Number of trials at once, as far as they share no state. Default: task_workers in the settings.",
    ),
]


def with_workers(settings: Settings, workers: Workers) -> Settings:
    """The settings with the number of trials at once that the command line names."""
    return settings if workers is None else settings.model_copy(update={"task_workers": workers})


def say(text: str) -> None:
    """Print a line beside the results."""
    typer.echo(text, err=True)


def begun_run(settings: Settings, run_id: str = "") -> BegunRun:
    """Begin the run of a command, which the first Ctrl-C ends. Raises ValueError and OSError."""
    from harness.runner.sync import BegunRun  # Playwright is loaded only when tasks run

    end_once()
    return BegunRun(settings, run_id, say=say)


def say_progress(number: int, of: int, line: str) -> None:
    """Print that a trial is over."""
    say(f"{number:>{len(str(of))}}/{of} {line}")
