"""The run along its time: tasks by worker, circuits, services, and what was told about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from harness.dashboard.view import Bar, Lane, Moment, Status, Timeline
from harness.history.record import Execution, Happening, RunRecord

_WELL = frozenset({"closed", "up", "booting", "stopped"})
"""States in which there is nothing to show."""
_MOMENTS = 200
_WORTH = frozenset(
    {"circuit-state-change", "service-status", "threshold", "invariant-violated", "escalated", "degraded"}
)
_LABEL = 80


def timeline(run: RunRecord) -> Timeline:
    """All executions, reruns too; times are seconds since the run began."""
    workers = list(_workers(run))
    states = [*_states(run, "circuit-state-change", "circuit"), *_states(run, "service-status", "service")]
    ends = [bar.end for lane in (*workers, *states) for bar in lane.bars]
    told = [each for each in run.happenings if each.type in _WORTH]
    moments = tuple(_moment(each, run.started) for each in told[:_MOMENTS])
    return Timeline(
        seconds=max([run.seconds, *ends]),
        lanes=(*workers, *states),
        moments=moments,
        more=max(0, len(told) - _MOMENTS),
    )


def status(execution: Execution) -> Status:
    """A rerun was a failure, at the time."""
    counted = execution.counted_as
    if counted == "passed" and execution.record and execution.record.expected:
        return "expected"
    return "not_judged" if counted == "not judged" else counted


def seconds_of(execution: Execution) -> float:
    return execution.record.seconds if execution.record else execution.seconds


def begun(execution: Execution, run: RunRecord) -> float | None:
    """Seconds since the run began; None for a task that never did."""
    began = execution.began
    return None if began is None else max(0.0, (began - run.started).total_seconds())


def _workers(run: RunRecord) -> Iterator[Lane]:
    """A lane for each worker; a worker that does several tasks at once has several."""
    by_worker: dict[str, list[Bar]] = {}
    for execution in run.executions:
        if bar := _bar(execution, run):
            by_worker.setdefault(execution.worker, []).append(bar)
    for worker in sorted(by_worker, key=_numbered):
        rows = _rows(sorted(by_worker[worker], key=lambda bar: bar.start))
        name = worker or "this process"
        for number, row in enumerate(rows, 1):
            yield Lane(name=f"{name} ({number})" if len(rows) > 1 else name, kind="worker", bars=tuple(row))


def _bar(execution: Execution, run: RunRecord) -> Bar | None:
    start = begun(execution, run)
    if start is None or execution.outcome == "skipped":
        return None
    steps = execution.record.steps if execution.record else ()
    failed = (each for step in steps for each in step.attempts if not each.passed)
    return Bar(
        label=execution.task_id[:_LABEL],
        start=round(start, 2),
        end=round(start + seconds_of(execution), 2),
        kind=status(execution),
        marks=tuple(round(start + each.t + each.seconds, 2) for each in failed),
    )


def _rows(bars: Sequence[Bar]) -> list[list[Bar]]:
    """Bars that overlap lie in rows of their own."""
    rows: list[list[Bar]] = []
    for bar in bars:
        free = next((row for row in rows if row[-1].end <= bar.start), None)
        if free is None:
            rows.append([bar])
        else:
            free.append(bar)
    return rows


def _numbered(worker: str) -> tuple[int, str]:
    """`gw10` comes after `gw2`."""
    digits = "".join(each for each in worker if each in "0123456789")
    return int(digits[:9] or -1), worker


def _states(run: RunRecord, kind: str, key: str) -> Iterator[Lane]:
    """A lane for each circuit or service that was not well at some time."""
    changes: dict[str, list[Happening]] = {}
    for each in run.happenings:
        if each.type == kind and (name := str(each.details.get(key, ""))):
            changes.setdefault(f"{name} ({each.worker})" if each.worker else name, []).append(each)
    for name, found in sorted(changes.items()):
        if bars := tuple(_spans(found, run)):
            yield Lane(name=name.removeprefix("origin:"), kind="circuit" if key == "circuit" else "service", bars=bars)


def _spans(changes: Sequence[Happening], run: RunRecord) -> Iterator[Bar]:
    """Each state until the next, the last one until the end of the run."""
    times = [_offset(each.at, run.started) for each in changes]
    for change, start, end in zip(changes, times, [*times[1:], max(run.seconds, times[-1])], strict=True):
        state = str(change.details.get("after", ""))
        if state not in _WELL:
            yield Bar(label=state[:_LABEL], start=start, end=max(start, end), kind=state[:_LABEL])


def _moment(each: Happening, began: datetime) -> Moment:
    at = _offset(each.at, began)
    return Moment(at=at, type=each.type, level=each.level, task_id=each.task_id, text=each.text[:400])


def _offset(at: datetime, began: datetime) -> float:
    return round(max(0.0, (at - began).total_seconds()), 2)
