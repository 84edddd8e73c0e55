"""`harness triage`: the failures of a run by cause, a line each."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct
from msgspec.structs import asdict

from harness.cli.ending import AsJson, fail
from harness.cli.failures import ArtifactDirectory, UnreadableReportError, latest, read_kept
from harness.cli.project import settings_here
from harness.model.settings import Settings
from harness.reporting.files import printable, shown_path
from harness.reporting.history.comparison import passed_last
from harness.reporting.history.file import HistoryError
from harness.reporting.history.reading import load_run, task_points
from harness.reporting.history.record import RunRecord, still_running
from harness.reporting.task_record import LAST_RUN, load_last_run, task_record
from harness.reporting.triage import Cause, Trouble, causes, first_look, of_record, troubles
from harness.reporting.words import shortened
from harness.spec.names import how_many
from harness.values import replace

_ROOMY = 180
"""The number of columns of a line that is written to a file."""


def triage(
    run: Annotated[
        str,
        typer.Option(help="last, last-1, an id, or its beginning.", metavar="RUN"),
    ] = "last",
    artifacts: Annotated[Path | None, typer.Option(help="Read this folder instead of the history.")] = None,
    as_json: AsJson = False,
) -> None:
    """Group the failures of a run by cause.

    The cause of most failures stands first, with what to look at. Failures that tasks declare are left out. Without a
    history, the directories under errors/ are read.
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
        return _of_history(settings.root, run)
    except HistoryError as error:
        kept = of_directories(settings.artifacts)
        if run != "last" or not kept.run:
            fail(str(error))
        return kept


def _of_an_earlier_run(found: FailedTasks, settings: Settings) -> FailedTasks:
    """The same failures; if a later run is known, which they are not of, a note says so."""
    try:
        last = load_last_run(settings.root / LAST_RUN)
    except (OSError, ValueError):
        return found
    if last is None or not found.run or last.run <= found.run:
        return found
    later = f"the last run ({printable(last.run)}) left none, or is not in the history"
    return replace(found, notes=(*found.notes, f"these are failures of an earlier run: {later}"))


_FEW = 3
"""The number of tasks that a line names."""
NARROWEST, WIDEST = 30, 90
"""The number of columns for what happened."""


def lines(found: FailedTasks, causes: Sequence[Cause], width: int) -> Iterator[str]:
    """The headline of the run, then a line for each cause."""
    yield _headline(found, causes)
    for file, why in sorted(found.uncollected.items()):
        yield f"not collected: {printable(file)}: {printable(why.splitlines()[-1] if why else 'no reason was given')}"
    code = max((len(cause.code or "-") for cause in causes), default=0)
    for cause in sorted(causes, key=lambda each: not each.judged):
        start = f"{cause.count:>4}  {printable(cause.code) or '-':<{code}}  "
        new = "" if not cause.new else " new" if cause.new == cause.count else f" {cause.new} new"
        suspect = f"  suspect: {cause.suspect}" if cause.suspect else ""
        rest = f"  [{_tasks(cause)}]{new}{suspect}  look: {first_look(cause)}"
        room = min(WIDEST, max(NARROWEST, width - len(start) - len(rest)))
        yield f"{start}{shortened(cause.title, room)}{rest}"


def _headline(found: FailedTasks, causes: Sequence[Cause]) -> str:
    failed = sum(cause.count for cause in causes if cause.judged)
    run = f"run {printable(found.run)}: " if found.run else ""
    of = "" if found.tasks is None else f" of {how_many(found.tasks, 'task')}"
    if not failed and found.uncollected:
        rest = f"nothing else failed{of}" if found.tasks else "no task ran"
        return f"{run}{how_many(len(found.uncollected), 'file')} could not be collected; {rest}"
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


def _tasks(cause: Cause) -> str:
    names = [printable(task.task_id) for task in cause.tasks[:_FEW]]
    more = f" +{cause.count - _FEW}" if cause.count > _FEW else ""
    return f"{', '.join(names)}{more}"


def document(found: FailedTasks, causes: Sequence[Cause]) -> Mapping[str, Any]:
    """The same as plain JSON, with all tasks."""
    return {
        "run": found.run,
        "tasks": found.tasks,
        "failed": sum(cause.count for cause in causes if cause.judged),
        "not_judged": sum(cause.count for cause in causes if not cause.judged),
        "passed_as_declared": found.expected,
        "uncollected": dict(found.uncollected),
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


# The failures of a run: from the history, else from the directories under `errors/`.

_RUN = re.compile(r"([0-9]{8}T[0-9]{6})-(?:[0-9]+|merged-[0-9a-f]+)")


class FailedTasks(Struct, frozen=True):
    """The failures to group, and their source."""

    run: str
    """The run; empty if there is not even one artifact directory."""
    troubles: tuple[Trouble, ...]
    tasks: int | None = None
    """The number of tasks that ran; None if only the failures are known."""
    expected: int = 0
    """The number of declared failures, which are left out."""
    notes: tuple[str, ...] = ()
    """Notes on what was left out, and why."""
    uncollected: Mapping[str, str] = {}
    """File that pytest could not collect -> why."""


_ENDINGS = {
    "interrupted": "the run was interrupted",
    "killed": "the run was killed",
    "unfinished": "the run did not reach its end",
}
"""How a run ended that may lack tasks -> the note about it."""


def _of_history(root: Path, name: str) -> FailedTasks:
    """The failures in the history. Raises HistoryError."""
    run = load_run(root, name)
    expected = sum(bool(each.record and each.record.expected and not each.record.unexpected) for each in run.last)
    note = still_running(len(run.last)) if run.running else _ENDINGS.get(run.ending)
    notes = (note,) if note else ()
    found = troubles(run, _passed_before(root, run))
    return FailedTasks(run.run, found, len(run.last), expected, notes, uncollected=run.uncollected)


def _passed_before(root: Path, run: RunRecord) -> frozenset[str]:
    """The node ids of tasks that passed when they last ran before this run."""
    try:
        points = task_points(root, until=run.run, not_green_in=run.run)
    except HistoryError:
        return frozenset()
    before = {nodeid: [each for each in found if each.run != run.run] for nodeid, found in points.items()}
    return passed_last(before)


def of_directories(root: Path) -> FailedTasks:
    """The failures of the last run that left any: a run's name begins with its time. Names unreadable directories."""
    named, others, notes, now = list[ArtifactDirectory](), list[ArtifactDirectory](), list[str](), datetime.now(UTC)
    for folder in latest(root):
        try:
            kept = read_kept(folder)
        except UnreadableReportError as error:
            notes.append(f"left out: {error}")
        else:
            (named if _may_be_a_run(kept.run, now) else others).append(kept)
    wrong = "left out: {}: its manifest names {!r}, which is not the id of a run"
    notes += [printable(wrong.format(shown_path(each.folder), each.run)) for each in others if named]
    believed = named or others  # if no manifest names a possible run, all of them count
    run = max((each.run for each in believed), default="")
    of_run = [each for each in believed if each.run == run]
    if older := len(believed) - len(of_run):
        notes.append(f"left out: failures of earlier runs ({older}); `harness show` lists them")
    own = [each for each in of_run if each.counts]
    if replaced := len(of_run) - len(own):
        notes.append(f"left out: failures that a later execution of the same task replaced ({replaced})")
    failed = tuple(of_record(task_record(each.story)) for each in own if not each.report.expected)
    return FailedTasks(run, failed, None, len(own) - len(failed), tuple(notes))


def _may_be_a_run(name: str, now: datetime) -> bool:
    """Return whether the name has the form of a run's (names.new_run_id, history.merging) and is not in the future.

    Clocks may differ by an hour.
    """
    if (found := _RUN.fullmatch(name)) is None:
        return False
    try:
        began = datetime.strptime(found[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return False
    return began <= now + timedelta(hours=1)
