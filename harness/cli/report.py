"""`harness report`: the Allure report of the last run."""

from __future__ import annotations

import errno
import json
import webbrowser
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from harness.cli.ending import fail
from harness.cli.project import project_of

if TYPE_CHECKING:
    from harness.reporting.allure.build import Report

TOLD = 10
"""The number of lines about results that were left out; `--json` has all."""


def report(
    results: Annotated[Path, typer.Option(help="The folder that `pytest --alluredir` wrote.")] = Path("allure-results"),
    output: Annotated[Path, typer.Option(help="The folder for the HTML; it is replaced.")] = Path("allure-report"),
    single_file: Annotated[bool, typer.Option(help="Write one HTML file that opens without a server.")] = False,
    serve: Annotated[int | None, typer.Option(help="Serve the report on this port of 127.0.0.1 until Ctrl-C.")] = None,
    open_: Annotated[bool, typer.Option("--open", help="Serve the report and open it in the browser.")] = False,
    all_runs: Annotated[bool, typer.Option(help="Include the results of all runs in the folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON about the report.")] = False,
) -> None:
    """Build the Allure report of the last run, offline.

    Results that are half-written or not Allure's are left out and named.

    Example: harness report --serve 8480
    """
    from harness.reporting.allure.build import ReportError, Wanted, build_report
    from harness.reporting.allure.serve import serve_folder

    wanted = Wanted(single_file, all_runs)
    say = partial(typer.echo, err=as_json)  # on stdout, only the JSON document is printed
    try:
        built = build_report(results, output, wanted, project=project_of(Path.cwd()) or Path.cwd(), say=say)
    except ReportError as error:
        fail(str(error), file=output)
    except OSError as error:  # an error of the disk does not name the file itself
        why = f"{output} cannot be written: {error.strerror or error}"
        fail(f"{why}; free space there, or name another one with --output", file=output)
    typer.echo(document(built) if as_json else "\n".join(lines(built)))
    if serve is not None or (open_ and not single_file):
        try:
            serve_folder(output, serve or 0, say, webbrowser.open if open_ else lambda _address: None)
        except OSError as error:
            _tell_unserved(serve or 0, error)
    elif open_:
        webbrowser.open(built.index.absolute().as_uri())
    elif not (single_file or as_json):
        typer.echo("look at it with: harness report --open   (it needs http; --single-file does not)")


def _tell_unserved(port: int, error: OSError) -> NoReturn:
    """Print the message only on stderr: with --json the document of the report is on stdout already."""
    message = f"the report is built, and cannot be served on port {port}: {error.strerror or error}"
    if error.errno == errno.EADDRINUSE:
        from harness.resilience.process import describe_listener

        taken = f"port {port} of 127.0.0.1 is taken by {describe_listener(port)}"
        message = f"the report is built, and not served: {taken}; choose another, or --serve 0 for any that is free"
    typer.echo(message, err=True)
    raise typer.Exit(1) from error


def document(built: Report) -> str:
    """The JSON document about the report that was built."""
    facts = {
        "report": str(built.index),
        "results": built.results,
        "left_out": list(built.left_out),
        "notes": list(built.notes),
        "allure": built.allure,
    }
    return json.dumps(facts, ensure_ascii=False, indent=2)


def lines(built: Report) -> list[str]:
    """The lines about the report, with control characters of file names made visible."""
    told = [f"left out: {_shown(line)}" for line in built.left_out[:TOLD]]
    more = len(built.left_out) - TOLD
    told += [f"left out: {more} more (--json names them)"] if more > 0 else []
    told += [f"note: {_shown(line)}" for line in built.notes]
    return [*told, f"report: {built.index} ({built.results} results, Allure {built.allure})"]


def _shown(text: str) -> str:
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)
