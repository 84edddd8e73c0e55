"""The kept failures that a command is about: of a task, or in a directory."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.ending import fail
from harness.cli.kept import Kept, UnreadableReportError, cases_of, earlier, is_kept, latest, named, read_kept, task_id
from harness.cli.kept_document import readable
from harness.cli.project import settings_at
from harness.model.settings import SettingsError
from harness.reporting.files import shown_path
from harness.reporting.task_record import LAST_RUN, load_last_run
from harness.spec.problems import did_you_mean

LAST = "last"
"""In the place of a task's id: the task that failed last."""
Run = Annotated[str | None, typer.Option("--run", help="An earlier run, as `harness show` lists them.")]
Artifacts = Annotated[
    Path | None, typer.Option("--artifacts", help="Where failures are kept; default: errors of the project.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]


def artifacts_root() -> Path:
    """Where the project keeps failures."""
    try:
        return settings_at(Path.cwd()).artifacts
    except SettingsError as error:
        fail(str(error))


def folders_of(root: Path, run: str | None) -> list[Path]:
    """Those of an earlier run, else the latest; a run that is not there ends the command."""
    if run is None:
        return latest(root)
    runs = earlier(root)
    if run not in runs:
        known = did_you_mean(run, runs) or (f"there are: {', '.join(runs)}" if runs else "no earlier run is kept")
        fail(f"no run {run!r} under {shown_path(root)}; {known}")
    return runs[run]


def last_run() -> str | None:
    """Its name, also when it was killed; None where there was none, or its record cannot be read."""
    from harness.reporting.history.file import HistoryError
    from harness.reporting.history.reading import recent_runs

    try:
        root = settings_at(Path.cwd()).root
    except ValueError:
        return None
    with contextlib.suppress(HistoryError):
        if runs := recent_runs(root, 1):
            return runs[0].run
    try:
        found = load_last_run(root / LAST_RUN)
    except ValueError:
        return None
    return found.run if found else None


def _newest(root: Path, run: str | None, of_run: str | None, command: str) -> Kept:
    """The failure that was written last; none of the run `of_run` (None: any) ends the command."""
    found = [kept for kept in map(readable, folders_of(root, run)) if kept and not kept.report.expected]
    if not found:
        fail(f"no failures under {shown_path(root)}")
    own = [kept for kept in found if of_run in (None, kept.run) and kept.counts]
    newest = max(own or found, key=lambda kept: kept.report.timestamp)
    if not own:
        older = f"the last failure is of run {newest.run}: {command} {newest.folder.name}"
        fail(f"nothing is kept of a failure in the last run, {of_run}; {older}")
    if len(own) > 1:
        typer.echo(f"{newest.folder.name}, the last of {len(own)} failures; `harness triage` lists all", err=True)
    return newest


def the_failure(task: str, run: str | None, artifacts: Path | None, command: str) -> Kept:
    """The one that is meant; none, or several, ends the command. `command` stands in the line that says how."""
    if run is None and is_kept(Path(task)):
        return readable_or_end(Path(task))
    root = artifacts or artifacts_root()
    if task == LAST:
        return _newest(root, run, last_run() if run is None and artifacts is None else None, command)
    folders = folders_of(root, run)
    found = named(folders, task) or cases_of(folders, task)
    if not found:
        fail(unknown(root, folders, task, run))
    if len(found) > 1:
        fail(f"{task} left {len(found)} directories: {command} DIR, one of {', '.join(map(shown_path, found))}")
    return readable_or_end(found[0])


def readable_or_end(folder: Path) -> Kept:
    """A directory that cannot be read ends the command."""
    try:
        return read_kept(folder)
    except UnreadableReportError as error:
        fail(str(error))


def unknown(root: Path, folders: list[Path], task: str, run: str | None) -> str:
    """What is there instead, and whether an earlier run has it."""
    before = [name for name, kept in earlier(root).items() if run is None and named(kept, task)]
    if before:
        return f"{task} left nothing in its last run; an earlier one: harness show {task} --run {before[0]}"
    names = sorted({name for folder in folders for name in (folder.name, task_id(folder))})
    older = {folder.name for kept in earlier(root).values() for folder in kept} if run is None else set()
    hint = did_you_mean(task, [*names, *older]) or (f"there are: {', '.join(names)}" if names else "there are none")
    return f"no failure of {task!r} under {shown_path(root)}; {hint}"
