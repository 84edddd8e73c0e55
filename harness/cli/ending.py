"""How a command that cannot be done ends."""

from __future__ import annotations

from typing import NoReturn

import typer


def fail(message: str) -> NoReturn:
    """One clear line on stderr, exit code 1."""
    typer.echo(message, err=True)
    raise typer.Exit(1)
