"""The command line, thin over what it names. Exit codes: 0 fine, 1 something is wrong with what was given, 2 usage."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from harness.cli.demo import run_demo
from harness.failure import CATALOG, Row
from harness.schemas import schemas
from harness.spec.load import Loaded, find_tasks, load_file
from harness.spec.problems import SpecError
from harness.spec.suite import check_suite

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None, help=__doc__
)


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


@app.command()
def validate(
    paths: Annotated[list[Path], typer.Argument(help="Task files, or folders that hold some.")],
    strict: Annotated[bool, typer.Option(help="Warnings are errors, and specs/003's `required` holds.")] = False,
) -> None:
    """Check task files without running them; all problems at once."""
    files = _found(paths)
    if not files:
        _fail(f"no task files in {', '.join(map(str, paths))} (*.task.yaml, *.task.json, folders with task_spec.json)")
    loaded: list[Loaded] = []
    errors = 0
    for file in files:
        try:
            found = load_file(file, strict=strict)
        except SpecError as error:
            typer.echo(str(error), err=True)
            errors += 1
            continue
        loaded.append(found)
        for warning in found.warnings:
            typer.echo(f"warning: {warning}", err=True)
    for problem in check_suite(loaded):
        wrong = problem.severity == "error" or strict
        typer.echo(str(problem) if wrong else f"warning: {problem}", err=True)
        errors += wrong
    typer.echo(f"{len(files)} task file{'' if len(files) == 1 else 's'}, {len(loaded)} load, {errors} with errors")
    if errors:
        raise typer.Exit(1)


@app.command()
def schema(
    write: Annotated[Path | None, typer.Option(help="Write the JSON Schemas into this folder.")] = None,
    name: Annotated[str, typer.Option(help="Which to print.")] = "task_spec.schema.json",
) -> None:
    """Print a JSON Schema, or write them all."""
    import json

    documents = schemas()
    if write is None:
        if name not in documents:
            _fail(f"no schema {name!r}; there are: {', '.join(documents)}")
        typer.echo(json.dumps(documents[name], indent=2, ensure_ascii=False))
        return
    write.mkdir(parents=True, exist_ok=True)
    for file, document in documents.items():
        (write / file).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
        typer.echo(str(write / file))


@app.command()
def explain(
    code: Annotated[str | None, typer.Argument(help="A code or an error_type; none: list all.")] = None,
) -> None:
    """Say what an error code means and what one can do."""
    row = CATALOG.get(code.upper()) if code else None
    if row:
        _explain(row)
    others = [each for each in CATALOG.values() if each != row and (not code or each.error_type == code.lower())]
    if row is None and not others:
        _fail(f"no code or error_type {code!r}; `harness explain` lists them")
    if row and others:
        typer.echo(f"\nmore codes of {row.error_type}:")
    for each in others:
        typer.echo(f"{each.code:24} {each.error_type:28} {each.cause}")


def _explain(row: Row) -> None:
    typer.echo(f"{row.code}  ({row.error_type}, {row.category}, {row.severity})")
    typer.echo(f"cause:   {row.cause}")
    typer.echo(f"rule:    {row.family if row.family != 'none' else 'none: it always ends the task'}")
    typer.echo(f"retried: {'yes' if row.retryable else 'no'}")
    typer.echo(f"do:      {row.hint}")


@app.command()
def report(
    results: Annotated[Path, typer.Option(help="Where `pytest --alluredir` wrote.")] = Path("allure-results"),
    output: Annotated[Path, typer.Option(help="Where the HTML goes; replaced.")] = Path("allure-report"),
    single_file: Annotated[bool, typer.Option(help="One HTML file that opens without a server.")] = False,
    serve: Annotated[int | None, typer.Option(help="Serve the report on this port of 127.0.0.1 until Ctrl-C.")] = None,
) -> None:
    """Build the Allure 3 HTML report of the last run, offline."""
    from harness.reporting.html import build_report
    from harness.reporting.npm import ReportError
    from harness.reporting.serving import serve_folder

    try:
        page = build_report(results, output, single_file=single_file)
    except ReportError as error:
        _fail(str(error))
    typer.echo(f"report: {page}")
    if serve is not None:
        serve_folder(output, serve, announce=typer.echo)
    elif not single_file:
        typer.echo("look at it with: harness report --serve 8480   (it needs http; --single-file does not)")


@app.command()
def demo(port: Annotated[int, typer.Option(help="First of the four ports.")] = 8470) -> None:
    """Start the demo sites and show a task to try; Ctrl-C ends them."""
    raise typer.Exit(run_demo(port))


def _found(paths: list[Path]) -> list[Path]:
    try:
        return find_tasks(paths)
    except SpecError as error:
        _fail(str(error))


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(1)


def main() -> None:
    """Entry point `harness`."""
    app()
