"""`harness history`: what became of earlier runs, one by one, side by side, and task by task."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.project import fail, project_of
from harness.spec.names import how_many

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(rich_markup_mode=None, help="Look at earlier runs: list, show, compare, tasks over time, flaky ones.")

NEWEST = 30
"""Runs that are looked at."""

Project = Annotated[Path | None, typer.Option(metavar="DIR", help="The project; default: the one of this folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]
Runs = Annotated[int, typer.Option("--runs", min=1, help="So many of the newest runs are looked at.")]
Limit = Annotated[int, typer.Option("-n", "--limit", min=1, help="So many of the newest runs.")]


@app.callback(invoke_without_command=True)
def history(context: typer.Context, limit: Limit = NEWEST, project: Project = None, as_json: AsJson = False) -> None:
    """Look at earlier runs, which are kept in .harness/history.sqlite3; without a command, list them.

    Example: harness history
    """
    if context.invoked_subcommand is None:
        list_runs(limit, project, as_json)
    elif project is not None or as_json or limit != NEWEST:
        raise typer.BadParameter(f"options go after the command: harness history {context.invoked_subcommand} ...")


@app.command(name="list")
def list_runs(limit: Limit = NEWEST, project: Project = None, as_json: AsJson = False) -> None:
    """List the newest runs: when, how they ended, how many tasks passed, failed, were flaky or healed.

    Example: harness history list --limit 10 --json
    """
    from harness.cli.history_tables import run_lines
    from harness.reporting.history.reading import recent_runs

    with _told():
        found = recent_runs(root_of(project), limit)
    _tell(found, as_json, lambda: run_lines(found))


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="last, last-1, an id, or the beginning of one.")] = "last",
    project: Project = None,
    as_json: AsJson = False,
) -> None:
    """Show one run: what it ran on, what became of each task, what happened around them.

    Example: harness history show last-1
    """
    from harness.cli.history_tables import single_run_lines
    from harness.reporting.history.reading import load_run

    with _told():
        found = load_run(root_of(project), run)
    _tell(found, as_json, lambda: single_run_lines(found))


@app.command()
def compare(
    old: Annotated[
        str | None,
        typer.Argument(help="A run, as in `show`; default: the one before, or the newest that ran half of the tasks."),
    ] = None,
    new: Annotated[str, typer.Argument(help="A later one.")] = "last",
    project: Project = None,
    as_json: AsJson = False,
) -> None:
    """Say what is different in a later run: newly failing, fixed, slower, faster and flakier tasks, new ones.

    Slower and faster is what lies outside the median +- 3 deviations (of the median absolute deviation) of the
    30 runs before; flakier is told with the 95 % intervals of the failure rates.
    Exit code: 0, also when tasks are newly failing; 1 when there is no such run.

    Example: harness history compare last-5 last
    """
    from harness.cli.history_tables import comparison_lines
    from harness.reporting.history.reading import compared

    with _told():
        found = compared(root_of(project), old, new)
    _tell(found, as_json, lambda: comparison_lines(found))


@app.command()
def task(
    task_id: Annotated[str, typer.Argument(metavar="TASK_ID", help="A task's id, or its node id.")],
    runs: Runs = NEWEST,
    project: Project = None,
    as_json: AsJson = False,
) -> None:
    """Show what became of one task from run to run.

    Example: harness history task B1-2025-001
    """
    from harness.cli.history_tables import point_lines
    from harness.reporting.history.comparison import rate_of
    from harness.reporting.history.reading import task_points

    with _told():
        points = task_points(root_of(project), runs)
    found = {name: each for name, each in points.items() if task_id in (name, name.partition("::")[2])}
    if not found:
        fail(_unknown(task_id, [name.partition("::")[2] for name in points], runs))
    _tell(found, as_json, lambda: [line for name, p in found.items() for line in point_lines(name, p, rate_of(p))])


@app.command()
def flaky(runs: Runs = NEWEST, project: Project = None, as_json: AsJson = False) -> None:
    """List the tasks that now pass and now fail, the worst first, with the 95 % interval of their failure rate.

    Those that passed when they were run again, or ended otherwise than the run before at least three times.

    Example: harness history flaky --runs 50
    """
    from harness.cli.history_tables import flaky_lines
    from harness.reporting.history.comparison import flaky_tasks
    from harness.reporting.history.reading import task_points

    with _told():
        found = flaky_tasks(task_points(root_of(project), runs))
    _tell(found, as_json, lambda: flaky_lines(found, runs))


@app.command()
def prune(
    keep: Annotated[int, typer.Option(min=0, help="So many of the newest runs stay.")],
    project: Project = None,
    as_json: AsJson = False,
) -> None:
    """Forget old runs. Each run of pytest does so too, by `[tool.harness] history_runs` (200).

    Example: harness history prune --keep 50
    """
    from harness.reporting.history.reading import recent_runs
    from harness.reporting.history.writing import drop_old_runs

    root = root_of(project)
    with _told():
        recent_runs(root, 1)  # else an empty history would be made where there is none
        gone = drop_old_runs(root, keep)
    if as_json:
        typer.echo(json.dumps({"dropped": gone}))
    else:
        typer.echo(f"{how_many(len(gone), 'run')} dropped")


def root_of(project: Path | None) -> Path:
    """The folder that was named, else the project of the current one, else that itself."""
    return project if project is not None else project_of(Path.cwd()) or Path.cwd()


@contextmanager
def _told() -> Iterator[None]:
    """What is wrong with the history, on stderr."""
    from harness.reporting.history.file import HistoryError
    from harness.spec.names import blanked

    try:
        yield
    except HistoryError as error:
        fail(blanked(str(error)))


def _tell(found: object, as_json: bool, lines: Callable[[], Iterable[Table | str]]) -> None:
    from harness.cli.history_tables import printed

    if as_json:
        from pydantic_core import to_jsonable_python

        typer.echo(json.dumps(to_jsonable_python(found), indent=2))
    else:
        printed(lines())


def _unknown(task_id: str, known: list[str], runs: int) -> str:
    from harness.spec.problems import did_you_mean

    hint = did_you_mean(task_id, known)
    return f"no task {task_id!r} in the last {runs} runs" + (f"; {hint}" if hint else "")
