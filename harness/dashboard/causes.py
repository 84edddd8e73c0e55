"""Failures grouped by what looks like one cause: the most frequent first, and what failed first is marked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from harness.dashboard.evidence import Found
from harness.dashboard.occurrences import occurrence, since
from harness.dashboard.timeline import seconds_of
from harness.dashboard.view import Cause
from harness.history.record import Execution, Happening, RunRecord, TaskPoint
from harness.reporting.table import shortened
from harness.reporting.task_record import TaskRecord
from harness.triage import causes as behind
from harness.triage import troubles

_TELLING = frozenset({"service-status", "circuit-state-change", "invariant-violated", "escalated"})
_BEFORE, _AFTER = timedelta(seconds=15), timedelta(seconds=1)
_LONGEST = timedelta(seconds=60)
"""What was told so long before a failure is not its cause, in a task that takes long."""
_NEEDS = re.compile(r"depends on (.+), which ")
"""As pytest is told why a task is skipped."""
_AROUND, _TITLE = 3, 180

Look = Callable[[TaskRecord], Found]


def failed(run: RunRecord) -> list[Execution]:
    """What a person must look at; a failure that its task declares is none."""
    return [each for each in run.last if each.counted_as in ("failed", "not judged")]


@dataclass(frozen=True, slots=True)
class Group:
    """Failures of one cause."""

    title: str
    executions: tuple[Execution, ...]
    judged: bool = True
    """Whether it says something about its tasks: not all of them were cut off from outside."""


def grouped(run: RunRecord) -> list[Group]:
    """As `harness triage` groups them: there is one answer to what is behind a failure."""
    found = {each.nodeid: each for each in failed(run)}
    made = [
        Group(cause.title, tuple(found[task.nodeid] for task in cause.tasks), cause.judged)
        for cause in behind(troubles(run))
    ]
    return sorted(made, key=lambda group: not group.judged)


def causes(
    run: RunRecord, groups: Sequence[Group], points: Mapping[str, Sequence[TaskPoint]], look: Look
) -> Iterator[Cause]:
    """In the order of `groups`. `look` reads what a failed task left."""
    earliest = min((_moment(group, run) for group in groups if group.judged), default=None)
    for group in groups:
        ordered = sorted(group.executions, key=lambda each: _started(each, run))
        first = ordered[0]
        yield Cause(
            title=shortened(group.title, _TITLE),
            codes=dict(Counter(map(_code, ordered)).most_common()),
            hint=first.record.hint if first.record else "",
            first=len(groups) > 1 and group.judged and _moment(group, run) == earliest,
            faulted=_faulted(first.record),
            around=tuple(_around(first.record, run.happenings)),
            skipped=tuple(_skipped({each.task_id for each in ordered}, run)),
            occurrences=tuple(
                occurrence(each, look(each.record) if each.record else Found(), since(run, points.get(each.nodeid, ())))
                for each in ordered
            ),
        )


def _skipped(failed_ids: set[str], run: RunRecord) -> Iterator[str]:
    """In the order of the run, in which a task comes after what it depends on; those that these hold up, too."""
    stopped = set(failed_ids)
    for each in run.last:
        needed = _NEEDS.search(each.reason) if each.outcome == "skipped" else None
        if needed and needed[1] in stopped:
            stopped.add(each.task_id)
            yield each.task_id


def _faulted(record: TaskRecord | None) -> bool:
    return record is not None and "struck" in record.faults.values()


def _code(execution: Execution) -> str:
    record = execution.record
    if record is None:
        return "no record"
    return record.code or ("expect" if record.unexpected else "unknown")


def _started(execution: Execution, run: RunRecord) -> datetime:
    """A task that never began comes last."""
    return execution.began or run.started + timedelta(days=365)


def _moment(group: Group, run: RunRecord) -> datetime:
    return min(_ended(each, run) for each in group.executions)


def _ended(execution: Execution, run: RunRecord) -> datetime:
    """When the failure was there: a long task that began early is not what failed first."""
    return _started(execution, run) + timedelta(seconds=seconds_of(execution))


def _around(record: TaskRecord | None, happenings: Sequence[Happening]) -> Iterator[str]:
    """What services and circuits said, the latest of it; what all is well with, says nothing of a cause."""
    if record is None or record.started is None:
        return
    end = record.started + timedelta(seconds=record.seconds)
    since = max(record.started - _BEFORE, end - _LONGEST)
    told = [each for each in happenings if since <= each.at <= end + _AFTER and _concerns(each, record)]
    for each in told[-_AROUND:]:
        apart = (end - each.at).total_seconds()
        yield f"{abs(apart):.1f} s {'before' if apart >= 0 else 'after'} the failure: {shortened(each.text, _TITLE)}"


def _concerns(each: Happening, record: TaskRecord) -> bool:
    """A circuit concerns the tasks that asked for its site; a service may concern any."""
    if each.type not in _TELLING or each.level in ("INFO", "DEBUG"):
        return False
    if each.type != "circuit-state-change":
        return each.task_id in ("", record.task_id)
    origin = str(each.details.get("circuit", "")).removeprefix("origin:")
    return any(origin in text for text in (record.message, *(step.target for step in record.steps)))
