"""`harness verify`: whether tasks test anything."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import asdict

from harness.cli.ending import AsJson, fail
from harness.cli.project import project_of
from harness.cli.trials import Workers, WorkersOption, begun_run, with_workers
from harness.cli.validate import Checked, check_paths
from harness.model.settings import load_settings
from harness.runner.trials import TrialRunner
from harness.runner.verify import TaskVerification, verify
from harness.spec.loaded import Loaded
from harness.spec.names import how_many
from harness.spec.parametrize import expand


def run_verify(
    paths: Annotated[list[Path], typer.Argument(help="Task files, or folders with them.")],
    as_json: AsJson = False,
    yes: Annotated[bool, typer.Option("--yes", help="Also call tools of servers that write.")] = False,
    workers: WorkersOption = None,
) -> None:
    """Find tasks that test nothing, or do not end as they declare.

    Each task runs as written, and twice without its steps: on a blank page, and on the first page that it opens. It
    must not pass then. A criterion that holds before anything is done is named: it proves nothing. A task runs after
    its dependencies and the earlier tasks of its episode. If an agent chooses its steps, it runs only without steps.
    Exit code: 1 when a task tests nothing, does not end as declared, or does not load.

    Example: harness verify tasks/
    """
    checked = check_paths(paths, strict=False, needs_steps=False)
    tasks = [case for task in _runnable_tasks(checked) for case in expand(task)]
    verdicts = _verified(tasks, checked.loaded[0].folder, workers, told_on_stderr=as_json, writes=yes)
    unsound = sum(not verdict.sound for verdict in verdicts)
    typer.echo(f"{how_many(len(tasks), 'task')}, {len(tasks) - unsound} sound", err=as_json)
    if skipped := [f"{task.spec.task_id} ({why})" for task in checked.loaded if (why := _left_out(task))]:
        typer.echo(f"{len(skipped)} skipped: {', '.join(skipped)}", err=as_json)
    if broken := sorted(checked.broken):
        typer.echo(f"{len(broken)} with errors, not tried: {', '.join(broken)}", err=as_json)
    if left := sum(not task.spec.does_its_steps for task in tasks):
        typer.echo(f"{left} without steps: the agent was not tried", err=as_json)
    if as_json:
        found = [{**asdict(verdict), "sound": verdict.sound} for verdict in verdicts]
        typer.echo(json.dumps({"tasks": found, "unsound": unsound, "without_steps": left, "broken": broken}, indent=2))
    if unsound or broken:
        raise typer.Exit(1)


def _runnable_tasks(checked: Checked) -> list[Loaded]:
    """The tasks that can be run; errors of the others are printed."""
    for problem in checked.problems:
        if problem.severity == "error":
            typer.echo(f"error: {problem}", err=True)
    whole = [task for task in checked.loaded if task.source not in checked.broken]
    if not whole or checked.broken - {*checked.files}:  # settings that cannot be read concern all tasks
        to_fix = checked.files and checked.broken
        fail("nothing was run: fix these files first" if to_fix else "there is nothing to verify")
    return [task for task in whole if not _left_out(task)]


def _left_out(task: Loaded) -> str:
    """Why the task is not tried: it is skipped, or fails for now; empty: it is."""
    return task.spec.left_out() or task.spec.expected_failure or ""


def _verified(
    tasks: Sequence[Loaded], folder: Path, workers: Workers, *, told_on_stderr: bool, writes: bool
) -> list[TaskVerification]:
    try:
        run = begun_run(with_workers(load_settings(project_of(folder) or Path.cwd()), workers))
    except ValueError as error:  # an error in the settings, or in a file that they name
        fail(str(error))
    with run:
        if not writes:
            run.harness.only_reads_with_tools()
        trials = TrialRunner(run.harness, run.stream.on)
        tell = partial(typer.echo, err=told_on_stderr)
        return verify(tasks, run.harness, trials, lambda verdict: tell("\n".join(_lines(verdict))))


def _lines(verdict: TaskVerification) -> Iterator[str]:
    yield f"{verdict.task_id}: {'sound' if verdict.sound else 'NOT SOUND'}"
    if verdict.wrong:
        more = f"; harness show {shlex.quote(verdict.kept)}" if verdict.kept else ""
        yield f"  as written: {verdict.wrong}{more}"
    if verdict.hollow:
        how = "with its first page opened and nothing done there" if verdict.idle_there else "with no steps"
        yield f"  {how}: it passes, so it tests nothing"
    there = verdict.idle_there
    yield from (f"  holds on the first page, before anything is done there: {criterion}" for criterion in there)
    yield from (f"  holds before anything is done: {criterion}" for criterion in verdict.idle)
