"""`harness validate`: task files checked without running them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.checking import check_paths
from harness.cli.formats import Format, show


def validate(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Task files, or folders that hold some.")],
    strict: Annotated[bool, typer.Option(help="Warnings are errors, and specs/003's `required` holds.")] = False,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent", "--task-agent", metavar="NAME", help="Who will choose the steps of tasks that have none."
        ),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How problems are shown.")] = Format.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Check task files without running them.

    Tells all problems at once, and what is legal but unwise.
    Channels, hosts and agents are those of [tool.harness] in the nearest pyproject.toml. Exit code 1: there are errors.

    Example: harness validate tasks/ --format github
    """
    checked = check_paths(paths, strict=strict, agent=agent)
    show(checked, Format.JSON if as_json else form)
    if checked.broken:
        raise typer.Exit(1)
