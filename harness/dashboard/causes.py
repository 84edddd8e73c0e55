"""Failures grouped by what looks like one cause: the most frequent first, and what failed first is marked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from harness.dashboard.evidence import Found
from harness.dashboard.occurrences import NO_RECORD, failing_step, message, occurrence, since
from harness.dashboard.timeline import seconds_of
from harness.dashboard.view import Cause
from harness.history.record import Execution, Happening, RunRecord, TaskPoint
from harness.reporting.table import shortened
from harness.reporting.task_record import TaskRecord

_UNREACHED = frozenset({
    "NET_DNS", "NET_CONNECTION_REFUSED", "NET_CONNECTION_RESET", "NET_EMPTY_RESPONSE", "NET_TIMEOUT", "NET_OFFLINE",
    "NET_UNREACHABLE", "NET_PROTOCOL", "NET_PROXY", "NET_FAILED", "NET_TLS", "CIRCUIT_OPEN", "HTTP_UNAVAILABLE",
    "SERVICE_DOWN",
})  # fmt: skip
"""Of one site these are one cause: it is down, and its circuit opens."""
_TELLING = frozenset({"service-status", "circuit-state-change", "invariant-violated", "escalated"})
_ORIGIN = re.compile(r"https?://[^\s/'\"`<>?#]+")
_URL = re.compile(r"(https?://[^\s/'\"`<>?#]+)([^\s'\"`<>?#]*)[^\s'\"`<>]*")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_BEFORE, _AFTER = timedelta(seconds=15), timedelta(seconds=1)
_LONGEST = timedelta(seconds=60)
"""What was told so long before a failure is not its cause, in a task that takes long."""
_AROUND, _TITLE, _SHAPE = 3, 180, 300

Look = Callable[[TaskRecord], Found]


def failed(run: RunRecord) -> list[Execution]:
    """What a person must look at; a failure that its task declares is none."""
    return [each for each in run.last if each.outcome == "failed"]


def grouped(run: RunRecord) -> list[list[Execution]]:
    """The failures of each cause; the cause with most of them first, then the one seen first."""
    groups: dict[tuple[str, str, bool], list[Execution]] = {}
    for execution in failed(run):
        groups.setdefault(cause_key(execution.record), []).append(execution)
    return sorted(groups.values(), key=lambda group: (-len(group), _moment(group, run)))


def causes(
    run: RunRecord, groups: Sequence[Sequence[Execution]], points: Mapping[str, Sequence[TaskPoint]], look: Look
) -> Iterator[Cause]:
    """In the order of `groups`. `look` reads what a failed task left."""
    earliest = min((_moment(group, run) for group in groups), default=None)
    for group in groups:
        ordered = sorted(group, key=lambda each: _started(each, run))
        first = ordered[0]
        yield Cause(
            title=_title(first.record),
            codes=dict(Counter(map(_code, ordered)).most_common()),
            hint=first.record.hint if first.record else "",
            first=len(groups) > 1 and _moment(group, run) == earliest,
            faulted=_faulted(first.record),
            around=tuple(_around(first.record, run.happenings)),
            occurrences=tuple(
                occurrence(each, look(each.record) if each.record else Found(), since(run, points.get(each.nodeid, ())))
                for each in ordered
            ),
        )


def cause_key(record: TaskRecord | None) -> tuple[str, str, bool]:
    """Equal for failures that look like one cause: a site that is not reached, or one code with one kind of message.

    What failed after a fault that was injected is never one with what failed without.
    """
    if record is None:
        return "", "", False
    if origin := _unreached(record):
        return "unreached", origin, _faulted(record)
    text = message(record).replace(record.task_id, "TASK")
    text = _NUMBER.sub("#", _URL.sub(r"\1\2", text))
    return record.code or "", shortened(text, _SHAPE), _faulted(record)


def _faulted(record: TaskRecord | None) -> bool:
    return record is not None and "struck" in record.faults.values()


def _unreached(record: TaskRecord) -> str:
    """The origin that the failing step asked for, when that was not reached."""
    if record.code not in _UNREACHED:
        return ""
    step = failing_step(record)
    found = _ORIGIN.search(step.target if step else "") or _ORIGIN.search(record.message)
    return found[0] if found else ""


def _title(record: TaskRecord | None) -> str:
    if record is None:
        return NO_RECORD
    if origin := _unreached(record):
        return f"{origin} is down or cannot be reached"
    return shortened(message(record), _TITLE)


def _code(execution: Execution) -> str:
    record = execution.record
    if record is None:
        return "no record"
    return record.code or ("expect" if record.unexpected else "unknown")


def _started(execution: Execution, run: RunRecord) -> datetime:
    """A task that never began comes last."""
    return execution.began or run.started + timedelta(days=365)


def _moment(group: Sequence[Execution], run: RunRecord) -> datetime:
    return min(_ended(each, run) for each in group)


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
