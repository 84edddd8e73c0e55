"""`harness verify`: whether tasks test anything."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.checking import check_paths
from harness.cli.ending import fail
from harness.cli.project import project_of
from harness.plan import new_run_id
from harness.reporting.redaction import Redactor
from harness.settings import load_settings
from harness.spec.loaded import Loaded
from harness.spec.parametrize import expand
from harness.telemetry.run_events import RunEvents
from harness.verify import Verdict, verify


def run_verify(
    paths: Annotated[list[Path], typer.Argument(help="Task files, or folders that hold some.")],
) -> None:
    """Run each task with no steps at all (it must not pass), then as written (it must do what it declares).

    Tasks run after what they depend on, and after those of their episode that pytest runs earlier.
    A success criterion that holds before anything is done is named: it proves nothing of the steps.
    Of a task whose steps an agent chooses, only doing nothing is tried. Exit code 1 when a task is not sound.

    Example: harness verify tasks/
    """
    checked = check_paths(paths, strict=False, needs_steps=False)
    if checked.broken or not checked.loaded:
        for problem in checked.problems:
            if problem.severity == "error":
                typer.echo(str(problem), err=True)
        fail("nothing was run: mend these files first" if checked.loaded else "there is nothing to verify")
    tasks = [case for task in checked.loaded for case in expand(task)]
    unsound = _verified(tasks, checked.loaded[0].folder)
    typer.echo(f"{len(tasks)} task{'' if len(tasks) == 1 else 's'}, {len(tasks) - unsound} sound")
    if left := sum(not task.spec.steps for task in tasks):
        typer.echo(f"{left} without steps: what an agent would do there was not tried")
    if unsound:
        raise typer.Exit(1)


def _verified(tasks: Sequence[Loaded], folder: Path) -> int:
    """Run them, and tell of each; how many are not sound."""
    from harness.wiring import SyncHarness  # Playwright is loaded only when tasks run

    try:
        settings, run = load_settings(project_of(folder) or Path.cwd()), new_run_id(datetime.now(UTC), os.getpid())
        events = RunEvents(settings, run, Redactor((), settings.redact))
        harness = SyncHarness(settings, run, events.emit)
    except ValueError as error:  # of the settings, or of what they name
        fail(str(error))
    try:
        return sum(_told(verdict) for verdict in verify(tasks, harness, events.on))
    finally:
        harness.close()
        for problem in events.close():
            typer.echo(problem, err=True)


def _told(verdict: Verdict) -> bool:
    """Print what was found; whether the task is not sound."""
    state = "sound" if verdict.sound else "NOT SOUND"
    typer.echo(f"{verdict.task_id}: {state}")
    if verdict.wrong:
        more = f"; harness show {shlex.quote(verdict.kept)}" if verdict.kept else ""
        typer.echo(f"  as written: {verdict.wrong}{more}")
    if verdict.hollow:
        typer.echo("  with no steps: it passes; it tests nothing")
    for criterion in verdict.idle:
        typer.echo(f"  holds before anything is done: {criterion}")
    return not verdict.sound
