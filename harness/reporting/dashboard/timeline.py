"""The timeline of the run: tasks by worker, circuits, services, and events."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from heapq import heappush, heapreplace
from typing import Any

from markupsafe import Markup, escape

from harness.reporting.dashboard.view import Lane, Moment, StatefulLane, Status, Timeline, TimelineBar
from harness.reporting.history.record import Execution, Happening, RunRecord

# Untrusted text on a page: the template escapes it, and this removes what escaping leaves.

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
"""Control characters, characters that change the direction of writing, and characters that no file may contain."""


def visible(text: str) -> str:
    """The text with U+FFFD for each character that is invisible or misleading."""
    return _INVISIBLE.sub("\ufffd", text)


def shown(value: Any) -> Any:
    """A value as a template prints it: None is empty, markup is unchanged."""
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def with_code(text: str) -> Markup:
    """The text with parts between backticks as code; the rest is escaped."""
    parts = visible(text).split("`")
    if len(parts) % 2 == 0:  # an odd number of backticks: nothing is code
        return escape(visible(text))
    marks = [Markup("<code>{}</code>"), Markup("{}")]
    return Markup("").join(marks[place % 2 - 1].format(part) for place, part in enumerate(parts))


def duration(seconds: float) -> str:
    """A duration in words: `0.4 s`, `38 s`, `12 min 5 s`, `1 h 2 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def amount(number: int, one: str, several: str = "") -> str:
    """A number with its noun: `1 task`, `12 tasks`."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


_WELL = frozenset({"closed", "up", "booting", "stopped", "unknown", "connecting", "online"})
"""States without trouble, which are not shown."""
_MOMENTS = 200
_WORTH = frozenset({
    "circuit-state-change", "service-status", "tool-server-status", "threshold", "invariant-violated", "escalated",
    "degraded", "fallback",
})  # fmt: skip
_STATEFUL: Mapping[StatefulLane, tuple[str, str]] = {
    "circuit": ("circuit-state-change", "circuit"),
    "service": ("service-status", "service"),
    "tool server": ("tool-server-status", "server"),
}
"""Lane -> type of the events that tell its states, and their field with the name of what changed."""
_LABEL = 80


def timeline(run: RunRecord) -> Timeline:
    """The timeline of all executions, reruns included; times are seconds since the run began."""
    workers = list(_workers(run))
    states = [lane for kind in _STATEFUL for lane in _states(run, kind)]
    ends = [bar.end for lane in (*workers, *states) for bar in lane.bars]
    told = [each for each in run.happenings if each.type in _WORTH]
    moments = tuple(
        Moment(
            at=_offset(each.at, run.started),
            type=each.type,
            level=each.level,
            task_id=each.task_id,
            text=each.text[:400],
        )
        for each in told[:_MOMENTS]
    )
    return Timeline(
        seconds=max([run.seconds, *ends]),
        lanes=(*workers, *states),
        moments=moments,
        more=max(0, len(told) - _MOMENTS),
    )


def status(execution: Execution) -> Status:
    """The status of an execution. One that was rerun was a failure at the time."""
    counted = execution.counted_as
    if counted == "passed" and execution.record and execution.record.expected:
        return "expected"
    return "not_judged" if counted == "not judged" else counted


def seconds_of(execution: Execution) -> float:
    return execution.record.seconds if execution.record else execution.seconds


def start_offset(execution: Execution, run: RunRecord) -> float | None:
    """Seconds from the start of the run to that of the task; None for a task that never began."""
    began = execution.began
    return None if began is None else max(0.0, (began - run.started).total_seconds())


def _workers(run: RunRecord) -> Iterator[Lane]:
    """A lane for each worker; a worker with several tasks at once has several."""
    by_worker: dict[str, list[TimelineBar]] = {}
    for execution in run.executions:
        if bar := _bar(execution, run):
            by_worker.setdefault(execution.worker, []).append(bar)
    for worker in sorted(by_worker, key=_worker_key):
        rows = _rows(sorted(by_worker[worker], key=lambda bar: bar.start))
        name = worker or "this process"
        for number, row in enumerate(rows, 1):
            yield Lane(name=f"{name} ({number})" if len(rows) > 1 else name, kind="worker", bars=tuple(row))


def _bar(execution: Execution, run: RunRecord) -> TimelineBar | None:
    start = start_offset(execution, run)
    if start is None or execution.outcome == "skipped":
        return None
    steps, calls = (execution.record.steps, execution.record.calls) if execution.record else ((), ())
    failed = (each for step in steps for each in step.attempts if not each.passed)
    return TimelineBar(
        label=execution.task_id[:_LABEL],
        start=round(start, 2),
        end=round(start + seconds_of(execution), 2),
        kind=status(execution),
        marks=tuple(round(start + each.t + each.seconds, 2) for each in failed),
        thinking=tuple((round(start + call.t, 2), round(start + call.t + call.seconds, 2)) for call in calls),
    )


def _rows(bars: Sequence[TimelineBar]) -> list[list[TimelineBar]]:
    """Bars, in the order of their starts, in as few rows as hold them without overlap: as many as ran at once.

    The row that has been free for longest gets the next bar, so a heap of row ends finds it.
    """
    rows: list[list[TimelineBar]] = []
    ends: list[tuple[float, int]] = []
    for bar in bars:
        if ends and ends[0][0] <= bar.start:
            number = ends[0][1]
            heapreplace(ends, (bar.end, number))
            rows[number].append(bar)
        else:
            heappush(ends, (bar.end, len(rows)))
            rows.append([bar])
    return rows


_DRAWN = 400
"""A lane with more bars draws those as one that would lie on one another."""
_GRAVITY = ("failed", "not_judged", "expected", "passed")


def drawn(lane: Lane, seconds: float) -> Sequence[TimelineBar]:
    """The bars of a lane as a page draws them: of very many, one for each of 400 parts of the time."""
    if len(lane.bars) <= _DRAWN:
        return lane.bars
    parts: dict[int, list[TimelineBar]] = {}
    for bar in lane.bars:
        parts.setdefault(int(_DRAWN * bar.start / (seconds or 1)), []).append(bar)
    return [_as_one(bars) for bars in parts.values()]


def _as_one(bars: Sequence[TimelineBar]) -> TimelineBar:
    """One bar with the colour of the worst."""
    if len(bars) == 1:
        return bars[0]
    kinds = Counter(bar.kind for bar in bars)
    kind = next((each for each in _GRAVITY if kinds[each]), bars[0].kind)
    end = max(bar.end for bar in bars)
    return TimelineBar(label=f"{len(bars)} together ({kinds[kind]} {kind})", start=bars[0].start, end=end, kind=kind)


def _worker_key(worker: str) -> tuple[int, str]:
    """A sort key by which `gw10` comes after `gw2`."""
    digits = "".join(each for each in worker if each in "0123456789")
    return int(digits[:9] or -1), worker


def _states(run: RunRecord, lane: StatefulLane) -> Iterator[Lane]:
    """A lane for each circuit, service or tool server that was in trouble at some time."""
    kind, key = _STATEFUL[lane]
    changes: dict[str, list[Happening]] = {}
    for each in run.happenings:
        if each.type == kind and (name := str(each.details.get(key, ""))):
            changes.setdefault(f"{name} ({each.worker})" if each.worker else name, []).append(each)
    for name, found in sorted(changes.items()):
        if bars := tuple(_spans(found, run)):
            yield Lane(name=name.removeprefix("origin:"), kind=lane, bars=bars)


def _spans(changes: Sequence[Happening], run: RunRecord) -> Iterator[TimelineBar]:
    """Bars from each state to the next, the last one to the end of the run."""
    times = [_offset(each.at, run.started) for each in changes]
    for change, start, end in zip(changes, times, [*times[1:], max(run.seconds, times[-1])], strict=True):
        state = str(change.details.get("to", ""))
        if state not in _WELL:
            yield TimelineBar(label=state[:_LABEL], start=start, end=max(start, end), kind=state[:_LABEL])


def _offset(at: datetime, began: datetime) -> float:
    return round(max(0.0, (at - began).total_seconds()), 2)
