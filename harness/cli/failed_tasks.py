"""The failures of a run for `harness triage`: from the history, else from the directories under `errors/`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import compress
from pathlib import Path

from msgspec import Struct

from harness.cli.failures import ArtifactDirectory, UnreadableReportError, latest, read_kept
from harness.reporting.files import printable, shown_path
from harness.reporting.history.comparison import passed_last
from harness.reporting.history.file import HistoryError
from harness.reporting.history.reading import load_run, task_points
from harness.reporting.history.record import RunRecord
from harness.reporting.task_record import task_record
from harness.reporting.triage import Trouble, of_record, troubles

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


_ENDINGS = {
    "interrupted": "the run was interrupted",
    "killed": "the run was killed",
    "unfinished": "the run did not reach its end",
}
"""How a run ended that may lack tasks -> the note about it."""


def of_history(root: Path, name: str) -> FailedTasks:
    """The failures in the history. Raises HistoryError."""
    run = load_run(root, name)
    expected = sum(bool(each.record and each.record.expected and not each.record.unexpected) for each in run.last)
    notes = (_ENDINGS[run.ending],) if run.ending in _ENDINGS else ()
    return FailedTasks(run.run, troubles(run, _passed_before(root, run)), len(run.last), expected, notes)


def _passed_before(root: Path, run: RunRecord) -> frozenset[str]:
    """The node ids of tasks that passed when they last ran before this run."""
    try:
        points = task_points(root, until=run.run)
    except HistoryError:
        return frozenset()
    before = {nodeid: [each for each in found if each.run != run.run] for nodeid, found in points.items()}
    return passed_last(before)


def of_directories(root: Path) -> FailedTasks:
    """The failures of the last run that left any: a run's name begins with its time. Names unreadable directories."""
    read = [_read(folder) for folder in latest(root)]
    found = [each for each in read if isinstance(each, ArtifactDirectory)]
    notes = [each for each in read if isinstance(each, str)]
    believed, others = _split_by_run(found)
    notes += map(_no_run, others)
    run = max((each.run for each in believed), default="")
    of_run = [each for each in believed if each.run == run]
    if older := len(believed) - len(of_run):
        notes.append(f"left out: failures of earlier runs ({older}); `harness show` lists them")
    own = [each for each in of_run if each.counts]
    if replaced := len(of_run) - len(own):
        notes.append(f"left out: failures that a later execution of the same task replaced ({replaced})")
    failed = tuple(of_record(task_record(each.story)) for each in own if not each.report.expected)
    return FailedTasks(run, failed, None, len(own) - len(failed), tuple(notes))


def _split_by_run(
    found: Sequence[ArtifactDirectory],
) -> tuple[Sequence[ArtifactDirectory], Sequence[ArtifactDirectory]]:
    """The directories whose manifest names a possible run, and the others; if none does, all of them count."""
    now = datetime.now(UTC)
    named = [_may_be_a_run(each.run, now) for each in found]
    if not any(named):
        return found, ()
    return tuple(compress(found, named)), tuple(
        each for each, is_named in zip(found, named, strict=True) if not is_named
    )


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


def _no_run(kept: ArtifactDirectory) -> str:
    return printable(
        f"left out: {shown_path(kept.folder)}: its manifest names {kept.run!r}, which is not the id of a run"
    )


def _read(folder: Path) -> ArtifactDirectory | str:
    try:
        return read_kept(folder)
    except UnreadableReportError as error:
        return f"left out: {error}"
