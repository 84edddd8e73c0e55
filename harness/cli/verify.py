"""`harness verify`: whether tasks test anything."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
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
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")] = False,
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
    verdicts = _verified(tasks, checked.loaded[0].folder, told_on_stderr=as_json)
    unsound = sum(not verdict.sound for verdict in verdicts)
    typer.echo(f"{len(tasks)} task{'' if len(tasks) == 1 else 's'}, {len(tasks) - unsound} sound", err=as_json)
    if left := sum(not task.spec.steps for task in tasks):
        typer.echo(f"{left} without steps: what an agent would do there was not tried", err=as_json)
    if as_json:
        found = [{**asdict(verdict), "sound": verdict.sound} for verdict in verdicts]
        typer.echo(json.dumps({"tasks": found, "unsound": unsound, "without_steps": left}, indent=2))
    if unsound:
        raise typer.Exit(1)


def _verified(tasks: Sequence[Loaded], folder: Path, *, told_on_stderr: bool) -> list[Verdict]:
    """Run them, and tell of each."""
    from harness.wiring import SyncHarness  # Playwright is loaded only when tasks run

    try:
        settings, run = load_settings(project_of(folder) or Path.cwd()), new_run_id(datetime.now(UTC), os.getpid())
        events = RunEvents(settings, run, Redactor.of(settings))
        harness = SyncHarness(settings, run, events.emit)
    except ValueError as error:  # of the settings, or of what they name
        fail(str(error))
    try:
        return [_told(verdict, told_on_stderr) for verdict in verify(tasks, harness, events.on)]
    finally:
        harness.close()
        for problem in events.close():
            typer.echo(problem, err=True)


def _told(verdict: Verdict, on_stderr: bool) -> Verdict:
    """Print what was found."""
    for line in _lines(verdict):
        typer.echo(line, err=on_stderr)
    return verdict


def _lines(verdict: Verdict) -> Iterator[str]:
    yield f"{verdict.task_id}: {'sound' if verdict.sound else 'NOT SOUND'}"
    if verdict.wrong:
        more = f"; harness show {shlex.quote(verdict.kept)}" if verdict.kept else ""
        yield f"  as written: {verdict.wrong}{more}"
    if verdict.hollow:
        yield "  with no steps: it passes; it tests nothing"
    yield from (f"  holds before anything is done: {criterion}" for criterion in verdict.idle)
