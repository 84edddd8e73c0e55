"""Run, check and explain browser tasks. Exit codes: 0 success, 1 a check failed or an input is wrong, 2 wrong usage."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from harness.cli.chaos import chaos
from harness.cli.circuits import circuits
from harness.cli.dashboard import dashboard
from harness.cli.demo import demo
from harness.cli.explain import explain
from harness.cli.history import app as history
from harness.cli.merge import merge
from harness.cli.new import new
from harness.cli.open_trace import open_trace
from harness.cli.project import Commands
from harness.cli.regrade import regrade
from harness.cli.replay import replay
from harness.cli.report import report
from harness.cli.run import PASSED_ON, run
from harness.cli.schema import schema
from harness.cli.services import app as services
from harness.cli.show import show
from harness.cli.triage import triage
from harness.cli.validate import validate
from harness.cli.verify import run_verify

INTERRUPTED = 130
"""The exit code that a shell reports for a program ended by Ctrl-C."""

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help=__doc__,
)
app.command()(new)
app.command()(validate)
app.command(name="verify")(run_verify)
app.command(context_settings=PASSED_ON)(run)
app.command()(chaos)
app.command()(triage)
app.command()(show)
app.command(name="open")(open_trace)
app.command()(replay)
app.command()(regrade)
app.command()(explain)
app.command()(schema)
app.command()(report)
app.command()(dashboard)
app.command()(demo)
app.command()(merge)
app.command()(circuits)
app.add_typer(history, name="history")
app.add_typer(services, name="services")


def _show_version(wanted: bool) -> None:
    if wanted:
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
