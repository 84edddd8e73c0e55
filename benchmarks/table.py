"""The rows of a benchmark: the measurement, the rival, and whether the bound (docs/benchmarks.md) is met."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from benchmarks.figures import Estimate, Spread

Verdict = Literal["met", "not met", "met?", "not met?", "wrong", "-"]
"""A question mark means that the interval includes the bound. `wrong`: the work did not end as it should."""
HEAD = ("what", "ours", "rival", "figure", "95 % interval", "bound", "")


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound: at most, or at least, this value."""

    value: float
    at_least: bool = False

    def holds(self, figure: float) -> bool:
        return figure >= self.value if self.at_least else figure <= self.value

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.value:g}"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    part: str
    what: str
    unit: str
    ours: Spread
    theirs: Spread | None = None
    figure: Estimate | None = None
    """The ratio of ours to theirs; or the value that the bound is about."""
    bound: Bound | None = None
    wrong: str = ""
    """The reason why the figures are worthless; empty: they are not."""

    @property
    def verdict(self) -> Verdict:
        if self.wrong:
            return "wrong"
        if self.bound is None:
            return "-"
        figure = self.figure or Estimate(self.ours.median, self.ours.low, self.ours.high)
        ends = {self.bound.holds(figure.low), self.bound.holds(figure.high)}
        if self.bound.holds(figure.value):
            return "met" if ends == {True} else "met?"
        return "not met" if ends == {False} else "not met?"

    def as_json(self) -> dict[str, Any]:
        bound = str(self.bound) if self.bound else None
        return {**asdict(self), "bound": bound, "verdict": self.verdict}


def lines(rows: Iterable[Row]) -> list[str]:
    """The table as text, with a heading before each part."""
    rows = list(rows)
    cells = [HEAD, *map(_cells, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEAD))]
    told = [_line(HEAD, widths)]
    part = ""
    for row, cell in zip(rows, cells[1:], strict=True):
        if row.part != part:
            part = row.part
            told += ["", part]
        told.append(_line(cell, widths))
        if row.wrong:
            told.append(f"    {row.wrong}")
    return told


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(("  " + first, *others)).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    figure, interval = "", ""
    if row.figure:
        figure, interval = f"{row.figure.value:.3g}", f"{row.figure.low:.3g} .. {row.figure.high:.3g}"
    theirs = _spread(row.theirs, row.unit) if row.theirs else ""
    bound = str(row.bound) if row.bound else ""
    return (row.what, _spread(row.ours, row.unit), theirs, figure, interval, bound, row.verdict)


def _spread(spread: Spread, unit: str) -> str:
    return f"{spread.median:.4g} {unit} ({spread.low:.4g} .. {spread.high:.4g})"
