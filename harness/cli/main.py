"""Run, check and explain browser tasks. Exit codes: 0 success, 1 a check failed or an input is wrong, 2 wrong usage."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import Annotated

import typer

from harness.cli.commands import Commands
from harness.cli.interrupts import INTERRUPTED

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help=__doc__,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"harness {version('pytest-taskspec')}")
        raise typer.Exit


@app.callback(help=__doc__)
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What stands before the command."""


def main() -> None:
    """The entry point `harness`: Ctrl-C and a closed pipe (`| head`) end it without an error message."""
    atexit.register(gc.freeze)  # the system takes the memory back sooner than Python finds what is garbage
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:  # it is None after `>&-`
                sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python reports the broken pipe
        sys.exit(1)
    except OSError as error:
        sys.exit(f"harness: {error}")  # a file or folder that cannot be read or written
