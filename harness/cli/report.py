"""`harness report`: the Allure report of the results in a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.ending import fail

_RUN = re.compile(r"^Run=(\d{8}T\d{6})-", re.MULTILINE)
"""In Allure's environment table: the id of the run that wrote last begins with the time at which it began (UTC)."""


def report(
    results: Annotated[Path, typer.Option(help="Where `pytest --alluredir` wrote.")] = Path("allure-results"),
    output: Annotated[Path, typer.Option(help="Where the HTML goes; replaced.")] = Path("allure-report"),
    single_file: Annotated[bool, typer.Option(help="One HTML file that opens without a server.")] = False,
    serve: Annotated[int | None, typer.Option(help="Serve the report on this port of 127.0.0.1 until Ctrl-C.")] = None,
) -> None:
    """Build the Allure 3 HTML report of all results in a folder, offline.

    pytest adds to the folder: `pytest --clean-alluredir` empties it first, so that it holds one run.

    Example: harness report --serve 8480
    """
    from harness.reporting.html import build_report
    from harness.reporting.npm import ReportError
    from harness.reporting.serving import serve_folder

    try:
        page = build_report(results, output, single_file=single_file)
    except ReportError as error:
        fail(str(error))
    for line in earlier_results(results):
        typer.echo(line)
    typer.echo(f"report: {page}")
    if serve is not None:
        serve_folder(output, serve, announce=typer.echo)
    elif not single_file:
        typer.echo("look at it with: harness report --serve 8480   (it needs http; --single-file does not)")


def earlier_results(results: Path) -> Iterator[str]:
    """A line when some of the results were there before the last run began; a run that cannot be told says nothing."""
    began, starts = _last_run(results), list(_starts(results))
    older = [start for start in starts if began is not None and start < began]
    if older:
        count = f"{len(older)} of {len(starts)} results are of earlier runs"
        yield f"{count}: for the last run alone, run pytest with --clean-alluredir"


def _last_run(results: Path) -> datetime | None:
    try:
        found = _RUN.search((results / "environment.properties").read_text("utf-8"))
        return datetime.strptime(found[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC) if found else None
    except (OSError, ValueError):
        return None


def _starts(results: Path) -> Iterator[datetime]:
    from harness.reporting.documents import read_json

    for file in results.glob("*-result.json"):
        try:
            yield datetime.fromtimestamp(read_json(file)["start"] / 1000, UTC)
        except (OSError, ValueError, KeyError, TypeError):
            continue  # Allure says what it thinks of it
