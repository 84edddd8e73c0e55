"""`harness triage`: the failures of a run by cause, a line each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec.structs import asdict

from harness.cli.ending import fail
from harness.cli.failed_tasks import FailedTasks, of_directories, of_history
from harness.cli.project import settings_here
from harness.model.settings import Settings
from harness.reporting.files import printable
from harness.reporting.history.file import HistoryError
from harness.reporting.triage import Cause, causes, first_look
from harness.reporting.words import shortened
from harness.spec.names import how_many
from harness.values import replace

_ROOMY = 180
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
    for line in lines(found, grouped, shutil.get_terminal_size((_ROOMY, 24)).columns):
        typer.echo(line)


def _find_failures(settings: Settings, run: str, artifacts: Path | None) -> FailedTasks:
    """The failures in the history; for the last run of a project without history, those under `errors/`."""
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


_FEW = 3
"""The number of tasks that a line names."""
NARROWEST, WIDEST = 30, 90
"""The number of columns for what happened."""


def lines(found: FailedTasks, causes: Sequence[Cause], width: int) -> Iterator[str]:
    """The headline of the run, then a line for each cause."""
    yield _headline(found, causes)
    code = max((len(cause.code or "-") for cause in causes), default=0)
    for cause in sorted(causes, key=lambda each: not each.judged):
        start = f"{cause.count:>4}  {printable(cause.code) or '-':<{code}}  "
        rest = f"  [{tasks(cause)}]{_new(cause)}{_suspect(cause)}  look: {first_look(cause)}"
        room = min(WIDEST, max(NARROWEST, width - len(start) - len(rest)))
        yield f"{start}{shortened(cause.title, room)}{rest}"


def _headline(found: FailedTasks, causes: Sequence[Cause]) -> str:
    failed = sum(cause.count for cause in causes if cause.judged)
    run = f"run {printable(found.run)}: " if found.run else ""
    of = "" if found.tasks is None else f" of {how_many(found.tasks, 'task')}"
    if not failed:
        return f"{run}nothing failed{of}{_count_others(found, causes)}"
    new = sum(cause.new for cause in causes)
    newly = f", {new} of them newly" if new else ""
    several = sum(cause.judged for cause in causes)
    return f"{run}{failed}{of} failed{newly}: {how_many(several, 'cause')}{_count_others(found, causes)}"


def _count_others(found: FailedTasks, causes: Sequence[Cause]) -> str:
    unjudged = sum(cause.count for cause in causes if not cause.judged)
    counts = {"passed as declared": found.expected, "not judged": unjudged}
    return "".join(f"; {count} {words}" for words, count in counts.items() if count)


def tasks(cause: Cause) -> str:
    """The ids of the first few tasks."""
    names = [printable(task.task_id) for task in cause.tasks[:_FEW]]
    more = f" +{cause.count - _FEW}" if cause.count > _FEW else ""
    return f"{', '.join(names)}{more}"


def _new(cause: Cause) -> str:
    if not cause.new:
        return ""
    return " new" if cause.new == cause.count else f" {cause.new} new"


def _suspect(cause: Cause) -> str:
    return f"  suspect: {cause.suspect}" if cause.suspect else ""


def document(found: FailedTasks, causes: Sequence[Cause]) -> Mapping[str, Any]:
    """The same as plain JSON, with all tasks."""
    return {
        "run": found.run,
        "tasks": found.tasks,
        "failed": sum(cause.count for cause in causes if cause.judged),
        "not_judged": sum(cause.count for cause in causes if not cause.judged),
        "passed_as_declared": found.expected,
        "causes": [_of_cause(cause) for cause in causes],
        "notes": list(found.notes),
    }


def _of_cause(cause: Cause) -> Mapping[str, Any]:
    return {
        "count": cause.count,
        "new": cause.new,
        "judged": cause.judged,
        "code": cause.code or None,
        "codes": dict(cause.codes),
        "what": cause.what,
        "site": cause.site,
        "service": cause.service,
        "selector": cause.selector,
        "suspect": cause.suspect or None,
        "look": first_look(cause),
        "tasks": [asdict(task) for task in cause.tasks],
    }
