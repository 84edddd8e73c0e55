"""`harness show`: what a failed task left under `errors/`, read in the terminal."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.ending import fail
from harness.cli.failure_page import line, page
from harness.cli.kept import UnreadableReportError, cases_of, earlier, is_kept, latest, named, read_kept, task_id
from harness.cli.project import settings_at
from harness.reporting.history import LAST_RUN, load_last_run
from harness.reporting.names import shown_path
from harness.settings import SettingsError
from harness.spec.problems import did_you_mean

NARROWEST = 60


def show(
    task: Annotated[
        str | None, typer.Argument(metavar="TASK_ID", help="A task's id, or its directory; none: list all.")
    ] = None,
    run: Annotated[str | None, typer.Option(help="An earlier run, as the list names it.")] = None,
    artifacts: Annotated[
        Path | None, typer.Option(help="Where failures are kept; default: errors of the project.")
    ] = None,
) -> None:
    """Show what a failed task left: what was tried, why it failed, which files; without a task, list all.

    Example: harness show B1-2025-001
    """
    if task is not None and run is None and is_kept(Path(task)):
        _show(Path(task))
        return
    root = artifacts or _root()
    folders = _of_run(root, run) if run is not None else latest(root)
    if task is None:
        _list(root, folders, run, None if run is not None or artifacts is not None else _last_run())
        return
    found = named(folders, task)
    if not found and (cases := cases_of(folders, task)):
        _list_cases(cases, run)
        return
    if not found:
        fail(_unknown(root, folders, task, run))
    for number, folder in enumerate(found):
        if number:
            typer.echo()
        _show(folder)


def _root() -> Path:
    try:
        return settings_at(Path.cwd()).artifacts
    except SettingsError as error:
        fail(str(error))


def _of_run(root: Path, run: str) -> list[Path]:
    runs = earlier(root)
    if run not in runs:
        known = did_you_mean(run, runs) or (f"there are: {', '.join(runs)}" if runs else "no earlier run is kept")
        fail(f"no run {run!r} under {shown_path(root)}; {known}")
    return runs[run]


def _show(folder: Path) -> None:
    try:
        kept = read_kept(folder)
    except UnreadableReportError as error:
        fail(str(error))
    typer.echo(page(kept, max(NARROWEST, shutil.get_terminal_size((100, 24)).columns)))


def _last_run() -> str | None:
    """Its name; None where there was none, or its record cannot be read."""
    try:
        found = load_last_run(settings_at(Path.cwd()).root / LAST_RUN)
    except ValueError:
        return None
    return found.run if found else None


def _tell(folders: list[Path], last_run: str | None) -> None:
    for folder in folders:
        try:
            typer.echo(line(read_kept(folder), last_run))
        except UnreadableReportError as error:
            typer.echo(str(error), err=True)


def _list_cases(folders: list[Path], run: str | None) -> None:
    _tell(folders, None)
    option = f" --run {run}" if run is not None else ""
    typer.echo(f"one of them: harness show {shlex.quote(task_id(folders[0]))}{option}")


def _list(root: Path, folders: list[Path], run: str | None, last_run: str | None) -> None:
    _tell(folders, last_run)
    if not folders:
        typer.echo(f"no failures under {shown_path(root)}")
    runs = earlier(root) if run is None else {}
    for name, kept in runs.items():
        typer.echo(f"earlier run {name}: {', '.join(folder.name for folder in kept)}")


def _unknown(root: Path, folders: list[Path], task: str, run: str | None) -> str:
    """What is there instead, and whether an earlier run has it."""
    before = [name for name, kept in earlier(root).items() if run is None and named(kept, task)]
    if before:
        return f"{task} left nothing in its last run; an earlier one: harness show {task} --run {before[0]}"
    names = sorted({name for folder in folders for name in (folder.name, task_id(folder))})
    older = {folder.name for kept in earlier(root).values() for folder in kept} if run is None else set()
    hint = did_you_mean(task, [*names, *older]) or (f"there are: {', '.join(names)}" if names else "there are none")
    return f"no failure of {task!r} under {shown_path(root)}; {hint}"
