"""`harness report`: the Allure report of the last run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.ending import fail


def report(
    results: Annotated[Path, typer.Option(help="Where `pytest --alluredir` wrote.")] = Path("allure-results"),
    output: Annotated[Path, typer.Option(help="Where the HTML goes; replaced.")] = Path("allure-report"),
    single_file: Annotated[bool, typer.Option(help="One HTML file that opens without a server.")] = False,
    serve: Annotated[int | None, typer.Option(help="Serve the report on this port of 127.0.0.1 until Ctrl-C.")] = None,
) -> None:
    """Build the Allure 3 HTML report of the last run, offline.

    Example: harness report --serve 8480
    """
    from harness.reporting.html import build_report
    from harness.reporting.npm import ReportError
    from harness.reporting.serving import serve_folder

    try:
        page = build_report(results, output, single_file=single_file)
    except ReportError as error:
        fail(str(error))
    typer.echo(f"report: {page}")
    if serve is not None:
        serve_folder(output, serve, announce=typer.echo)
    elif not single_file:
        typer.echo("look at it with: harness report --serve 8480   (it needs http; --single-file does not)")
