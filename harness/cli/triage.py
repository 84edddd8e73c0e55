"""`harness triage`: the failures of a run by cause, a line each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.ending import fail
from harness.cli.project import settings_here
from harness.model.settings import Settings
from harness.reporting.files import printable
from harness.values import replace

if TYPE_CHECKING:
    from harness.cli.failed_tasks import FailedTasks

ROOMY = 180
"""The number of columns of a line that is written to a file."""


def triage(
    run: Annotated[
        str,
        typer.Option(help="The run: last, last-1 (the one before), an id, or the beginning of an id.", metavar="RUN"),
    ] = "last",
    artifacts: Annotated[
        Path | None, typer.Option(help="Read this folder of artifact directories instead of the history.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
) -> None:
    """Group the failures of a run by cause, the cause of most failures first.

    Each line names the number of tasks, the code, what happened, the tasks, and what to look at first. Failures that
    tasks declare are left out. Without a history, the command reads the directories under errors/.
    Exit code: 0, whatever has failed.

    Example: harness triage --run last-1
    """
    from harness.cli.cause_lines import document, lines
    from harness.reporting.triage import causes

    settings = settings_here()
    found = _find_failures(settings, run, artifacts)
    if run == "last" and artifacts is None:
        found = _of_an_earlier_run(found, settings)
    for note in found.notes:
        typer.echo(note, err=True)
    hosts = {host: name for name, service in settings.services.items() for host in service.hosts}
    grouped = causes(found.troubles, hosts)
    if as_json:
        typer.echo(json.dumps(document(found, grouped), indent=2, ensure_ascii=False))
        return
    for line in lines(found, grouped, shutil.get_terminal_size((ROOMY, 24)).columns):
        typer.echo(line)


def _find_failures(settings: Settings, run: str, artifacts: Path | None) -> FailedTasks:
    """The failures in the history; for the last run of a project without history, those under `errors/`."""
    from harness.cli.failed_tasks import of_directories, of_history
    from harness.reporting.history.file import HistoryError

    if artifacts is not None:
        if not artifacts.is_dir():
            fail(f"{artifacts}: there is no such folder")
        return of_directories(artifacts)
    try:
        return _at_work(of_history(settings.root, run), settings)
    except HistoryError as error:
        kept = of_directories(settings.artifacts)
        if run != "last" or not kept.run:
            fail(str(error))
        return kept


def _of_an_earlier_run(found: FailedTasks, settings: Settings) -> FailedTasks:
    """The same failures; if a later run is known, which they are not of, a note says so."""
    from harness.reporting.task_record import LAST_RUN, load_last_run

    try:
        last = load_last_run(settings.root / LAST_RUN)
    except (OSError, ValueError):
        return found
    if last is None or not found.run or last.run <= found.run:
        return found
    later = f"the last run ({printable(last.run)}) left none, or is not in the history"
    return replace(found, notes=(*found.notes, f"these are failures of an earlier run: {later}"))


def _at_work(found: FailedTasks, settings: Settings) -> FailedTasks:
    """The same failures; if the run's process is alive, a note says so in place of the ending. Raises HistoryError."""
    from harness.reporting.history.reading import load_run
    from harness.reporting.history.record import still_running

    running = load_run(settings.root, found.run).running
    return replace(found, notes=(still_running(found.tasks or 0),)) if running else found
