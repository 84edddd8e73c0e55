"""`harness history`: what became of earlier runs, one by one, side by side, and task by task."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.ending import fail
from harness.cli.project import project_of
from harness.spec.names import how_many

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(rich_markup_mode=None, help="Show and compare earlier runs, and find flaky tasks.")

_NEWEST = 30
"""The default number of runs."""

_Project = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The project's folder. Default: the project of this folder.")
]
_AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
_Runs = Annotated[int, typer.Option("--runs", min=1, help="Number of runs to read, newest first.")]
_Limit = Annotated[int, typer.Option("-n", "--limit", min=1, help="Number of runs to list, newest first.")]


@app.callback(invoke_without_command=True)
def history(
    context: typer.Context, limit: _Limit = _NEWEST, project: _Project = None, as_json: _AsJson = False
) -> None:
    """Show and compare earlier runs from .harness/history.sqlite3. Without a command, list them.

    Example: harness history
    """
    if context.invoked_subcommand is None:
        list_runs(limit, project, as_json)
    elif project is not None or as_json or limit != _NEWEST:
        raise typer.BadParameter(f"options go after the command: harness history {context.invoked_subcommand} ...")


@app.command(name="list")
def list_runs(limit: _Limit = _NEWEST, project: _Project = None, as_json: _AsJson = False) -> None:
    """List the newest runs: when they ran, how they ended, how many tasks passed, failed, were flaky or healed.

    Example: harness history list --limit 10 --json
    """
    from harness.cli.history_tables import run_lines
    from harness.reporting.history.reading import recent_runs

    with _report_history_errors():
        found = recent_runs(_root_of(project), limit)
    _tell(found, as_json, lambda: run_lines(found))


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="The run: last, last-1, an id, or the beginning of an id.")] = "last",
    project: _Project = None,
    as_json: _AsJson = False,
) -> None:
    """Show one run: its environment, how each task ended, and what happened to services and circuits.

    Example: harness history show last-1
    """
    from harness.cli.history_tables import single_run_lines
    from harness.reporting.history.reading import load_run

    with _report_history_errors():
        found = load_run(_root_of(project), run)
    _tell(found, as_json, lambda: single_run_lines(found))


@app.command()
def compare(
    old: Annotated[
        str | None,
        typer.Argument(
            help="The older run, written as for `show`. Default: the run before the new one, or the newest run that "
            "ran at least half of the tasks of the new one."
        ),
    ] = None,
    new: Annotated[str, typer.Argument(help="The newer run.")] = "last",
    project: _Project = None,
    as_json: _AsJson = False,
) -> None:
    """Compare two runs: newly failing, fixed, slower, faster, flakier and new tasks.

    A task is slower or faster when its time differs from the median of the 30 runs before by more than 3 standard
    deviations (estimated by the median absolute deviation). For a flakier task both failure rates are shown with their
    95 % intervals.
    Exit code: 0, also when tasks are newly failing; 1 when there is no such run.

    Example: harness history compare last-5 last
    """
    from harness.cli.history_tables import comparison_lines
    from harness.reporting.history.reading import compare_runs

    with _report_history_errors():
        found = compare_runs(_root_of(project), old, new)
    _tell(found, as_json, lambda: comparison_lines(found))


@app.command()
def task(
    task_id: Annotated[str, typer.Argument(metavar="TASK_ID", help="A task's id, or its node id.")],
    runs: _Runs = _NEWEST,
    project: _Project = None,
    as_json: _AsJson = False,
) -> None:
    """Show how one task ended in each run.

    Example: harness history task B1-2025-001
    """
    from harness.cli.history_tables import point_lines
    from harness.reporting.history.comparison import rate_of
    from harness.reporting.history.reading import task_points

    with _report_history_errors():
        points = task_points(_root_of(project), runs)
    found = {name: each for name, each in points.items() if task_id in (name, name.partition("::")[2])}
    if not found:
        fail(_unknown(task_id, [name.partition("::")[2] for name in points], runs))
    _tell(found, as_json, lambda: [line for name, p in found.items() for line in point_lines(name, p, rate_of(p))])


@app.command()
def flaky(runs: _Runs = _NEWEST, project: _Project = None, as_json: _AsJson = False) -> None:
    """List the flaky tasks, the worst first, with the 95 % interval of their failure rate.

    A task is flaky when it passed after a rerun in the same run, or when its outcome changed from run to run at least
    three times.

    Example: harness history flaky --runs 50
    """
    from harness.cli.history_tables import flaky_lines
    from harness.reporting.history.comparison import flaky_tasks
    from harness.reporting.history.reading import task_points

    with _report_history_errors():
        found = flaky_tasks(task_points(_root_of(project), runs))
    _tell(found, as_json, lambda: flaky_lines(found, runs))


@app.command()
def durations(runs: _Runs = _NEWEST, project: _Project = None) -> None:
    """Print the usual seconds of each task as JSON, for --task-durations: the median of its passed executions.

    Example: harness history durations > durations.json
    """
    import msgspec

    from harness.reporting.history.reading import Durations, usual_seconds

    with _report_history_errors():
        seconds = usual_seconds(_root_of(project), runs)
    document = msgspec.to_builtins(Durations(dict(sorted(seconds.items())), runs))
    typer.echo(json.dumps(document, indent=2))


@app.command()
def prune(
    keep: Annotated[int, typer.Option(min=0, help="Number of runs to keep, newest first.")],
    project: _Project = None,
    as_json: _AsJson = False,
) -> None:
    """Delete old runs from the history. Each run of pytest also does that, by `[tool.harness] history_runs` (200).

    Example: harness history prune --keep 50
    """
    from harness.reporting.history.reading import recent_runs
    from harness.reporting.history.writing import drop_old_runs

    root = _root_of(project)
    with _report_history_errors():
        recent_runs(root, 1)  # otherwise an empty history would be created
        gone = drop_old_runs(root, keep)
    if as_json:
        typer.echo(json.dumps({"dropped": gone}))
    else:
        typer.echo(f"{how_many(len(gone), 'run')} dropped")


def _root_of(project: Path | None) -> Path:
    """The named folder, else the project of the current one, else the current one itself."""
    return project if project is not None else project_of(Path.cwd()) or Path.cwd()


@contextmanager
def _report_history_errors() -> Iterator[None]:
    from harness.reporting.history.file import HistoryError
    from harness.spec.names import blank_unprintable

    try:
        yield
    except HistoryError as error:
        fail(blank_unprintable(str(error)))


def _tell(found: object, as_json: bool, lines: Callable[[], Iterable[Table | str]]) -> None:
    from harness.cli.history_tables import print_lines

    if as_json:
        from pydantic_core import to_jsonable_python

        typer.echo(json.dumps(to_jsonable_python(found), indent=2))
    else:
        print_lines(lines())


def _unknown(task_id: str, known: list[str], runs: int) -> str:
    from harness.spec.problems import did_you_mean

    hint = did_you_mean(task_id, known)
    return f"no task {task_id!r} in the last {runs} runs" + (f"; {hint}" if hint else "")
