"""What was tried, on a time axis: steps, attempts, the waits between them, and the faults that struck."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from harness.model.diagnosis import note, went_back
from harness.model.record import StepRecord, TaskResult
from harness.reporting.redaction import Redactor
from harness.reporting.still_page import still_page
from harness.reporting.table import described, done, place, shortened

MOST = 300
"""Rows that are shown: the last ones, for there the task ended."""
_TEXT = 140
_STYLE = (
    "td{height:20px}.axis{position:relative;width:46%}.axis span{position:absolute;top:5px;height:14px;min-width:3px;"
    "border-radius:2px}.ok{background:#3c9a5f}.no{background:#d3483e}.wait{background:repeating-linear-gradient("
    "45deg,#c3c9d0 0 4px,#eef0f2 4px 8px)}.fault{background:#7a4bc4}.mark{color:#fff;border-radius:3px;padding:0 5px}"
)


@dataclass(frozen=True, slots=True)
class Bar:
    """A piece of time: `ok`, `no`, `wait` or `fault`. Seconds since the start of the task."""

    kind: str
    start: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the page."""

    place: str
    text: str
    bars: tuple[Bar, ...]

    @property
    def start(self) -> float:
        return self.bars[0].start


def attempt_page(result: TaskResult, redactor: Redactor) -> str | None:
    """The page; None for a task that went by itself."""
    if not any(record.extra_attempts or record.failure or record.rewound for record in result.history):
        return None
    lines = [*attempt_lines(result.history, result.steps_total), *_fault_lines(result)]
    whole = max([result.elapsed, *(bar.start + bar.seconds for line in lines for bar in line.bars)]) or 1.0
    lines = sorted(lines, key=lambda line: line.start)[-MOST:]
    rows = "".join(_row(line, whole, redactor) for line in lines)
    keys = "".join(f'<span class="mark {kind}">{name}</span> ' for kind, name in _KEYS)
    head = "".join(f"<th>{name}</th>" for name in ("step", "what", "at", "took", f"0 to {whole:.1f} s"))
    return still_page("Attempts", f"<p>{keys}</p>\n<table><tr>{head}</tr>\n{rows}</table>\n", _STYLE)


_KEYS = (("ok", "worked"), ("no", "failed"), ("fault", "injected fault"))


def attempt_lines(history: Iterable[StepRecord], total: int) -> Iterator[Line]:
    """A line for each attempt of a step that did not go at once, with the wait before it; one for those between."""
    for plain, records in groupby(history, key=lambda record: record.passed and not record.extra_attempts):
        if plain:
            yield from _plain([record for record in records if record.attempts], total)
        else:
            for record in records:
                yield from _tried(record, total)


def _plain(records: list[StepRecord], total: int) -> Iterator[Line]:
    if not records:
        return
    first, last = place(records[0].index, total), place(records[-1].index, total)
    bars = tuple(Bar("ok", each.t, each.seconds) for record in records for each in record.attempts)
    what = described(done(records[0])) if len(records) == 1 else f"{len(records)} steps passed at once"
    name = f"{records[0].step.act} {what}" if len(records) == 1 else what
    yield Line(first if first == last else f"{first} to {last}", name, bars)


def _tried(record: StepRecord, total: int) -> Iterator[Line]:
    name = f"{record.step.act} {described(done(record))}: "
    end: float | None = None
    for attempt in record.attempts:
        wait = () if end is None or attempt.t - end < 0.01 else (Bar("wait", end, attempt.t - end),)
        bar = Bar("ok" if attempt.passed else "no", attempt.t, attempt.seconds)
        yield Line(place(record.index, total), name + note(attempt, record.step), (*wait, bar))
        end, name = attempt.t + attempt.seconds, ""
    if record.rewound and end is not None:
        yield Line("", f"went back {went_back(record)}", (Bar("wait", end, 0),))


def _fault_lines(result: TaskResult) -> Iterator[Line]:
    for met in result.faults:
        if met.count:
            yield Line("", f"injected fault {met.describe()}", tuple(Bar("fault", at, 0) for at in met.strikes))


def _row(line: Line, whole: float, redactor: Redactor) -> str:
    own = [bar for bar in line.bars if bar.kind != "wait"] or list(line.bars)
    took = own[-1].start + own[-1].seconds - own[0].start
    text = html.escape(redactor.text(shortened(line.text, _TEXT)))
    bars = "".join(
        f'<span class="{bar.kind}" style="left:{100 * bar.start / whole:.2f}%;'
        f'width:{100 * bar.seconds / whole:.2f}%"></span>'
        for bar in line.bars
    )
    return (
        f'<tr><td class="s">{html.escape(line.place)}</td><td class="u">{text}</td>'
        f'<td class="n">{own[0].start:.2f} s</td><td class="n">{took:.2f} s</td><td class="axis">{bars}</td></tr>\n'
    )
