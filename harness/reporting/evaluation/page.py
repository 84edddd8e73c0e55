"""The page of an evaluation: one HTML file with everything it needs, with the intervals drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import quote

from msgspec import Struct

from harness.model.consumption import money_text
from harness.model.evaluation import (
    USE_HEAD,
    EvaluatedCell,
    Evaluation,
    EvaluationTrial,
    ahead,
    by_worth,
    condition_text,
    evidence_text,
    headline,
    interval_text,
    more_text,
    p_text,
    points_text,
    share_text,
    shown_ks,
    use_cells,
    verdict_sentence,
)
from harness.reporting.dashboard.page import asset, rendered
from harness.reporting.evaluation.tables import cause_head, cause_rows, rate_head, rate_rows, task_head, task_rows
from harness.reporting.evaluation.trials import cell_links, trial_link

# Drawings in units of a place that is 400 wide: readable on a phone.

LEFT, RIGHT = 8.0, 392.0
ROW, FOOT = 52.0, 24.0


class ForestRow(Struct, frozen=True):
    """A line of a forest plot: a value, its interval, and how far it would reach if all void trials were decided."""

    label: str
    text: str
    y: float
    value: float | None
    """All positions are in units of the drawing."""
    interval: tuple[float, float] | None = None
    bounds: tuple[float, float] | None = None
    colour: int = 0
    """The number of the agent; agents have colours."""


class ForestPlot(Struct, frozen=True):
    """A forest plot."""

    title: str
    rows: tuple[ForestRow, ...]
    ticks: tuple[tuple[float, str], ...]
    zero: float | None = None
    """The place of no difference."""

    @property
    def height(self) -> float:
        return ROW * len(self.rows) + FOOT


def _at(share: float, low: float, high: float) -> float:
    """The place of a value between the lowest and the highest."""
    return round(LEFT + (RIGHT - LEFT) * (share - low) / (high - low), 1)


def rate_plot(found: Evaluation) -> ForestPlot:
    """The rate of each agent, clean and under each fault."""
    rows = (_rate_row(cell, number, found.agents.index(cell.agent)) for number, cell in enumerate(found.cells))
    ticks = tuple((_at(share, 0, 1), f"{share * 100:.0f} %") for share in (0, 0.25, 0.5, 0.75, 1))
    return ForestPlot("Share that passes, a mean over tasks, with its 95 % interval", tuple(rows), ticks)


def _rate_row(cell: EvaluatedCell, number: int, colour: int) -> ForestRow:
    rate = cell.rate
    spread = f" (95 %: {interval_text(rate.interval)})" if rate.interval else ""
    return ForestRow(
        label=f"{cell.agent}, {condition_text(cell.fault)}",
        text=share_text(rate.share) + spread + (f", void {cell.void} of {cell.trials}" if cell.void else ""),
        y=ROW * number,
        value=None if rate.share is None else _at(rate.share, 0, 1),
        interval=None if rate.interval is None else (_at(rate.interval[0], 0, 1), _at(rate.interval[1], 0, 1)),
        bounds=(_at(cell.worst, 0, 1), _at(cell.best, 0, 1))
        if cell.void and cell.worst is not None and cell.best
        else None,
        colour=colour,
    )


def _void_bounds(cell: EvaluatedCell) -> tuple[float, float] | None:
    """The places of the rates if all void trials had failed, and if they had passed; None if none is void."""
    if not cell.void or cell.worst is None or cell.best is None:
        return None
    return _at(cell.worst, 0, 1), _at(cell.best, 0, 1)


def difference_plot(found: Evaluation) -> ForestPlot | None:
    """The difference of each two agents, as the one ahead sees it; None with one agent."""
    if not found.comparisons:
        return None
    ends = [abs(end) for each in found.comparisons for end in (each.difference or 0, *(each.interval or ()))]
    widest = max(0.1, min(1.0, -(-max(ends) * 10 // 1) / 10))
    rows = []
    for number, each in enumerate(map(ahead, by_worth(found.comparisons))):
        spread = each.interval
        rows.append(
            ForestRow(
                label=f"{each.first} minus {each.second}, {condition_text(each.fault)}",
                text=f"{points_text(each.difference or 0)}, {p_text(each.p_value)}",
                y=ROW * number,
                value=None if each.difference is None else _at(each.difference, -widest, widest),
                interval=None if spread is None else (_at(spread[0], -widest, widest), _at(spread[1], -widest, widest)),
                colour=found.agents.index(each.first),
            )
        )
    ticks = tuple((_at(end, -widest, widest), points_text(end)) for end in (-widest, 0, widest))
    return ForestPlot("Difference of the shares, in pairs of trials", tuple(rows), ticks, _at(0, -widest, widest))


# Cost against success.


class CostDot(Struct, frozen=True):
    """An agent in the drawing of cost against success."""

    agent: str
    text: str
    x: float
    y: float
    interval: tuple[float, float] | None
    """The places of the lower and the upper bound."""
    colour: int


class CostPlot(Struct, frozen=True):
    """What a trial costs on average, and how many pass."""

    dots: tuple[CostDot, ...]
    most: str
    """The highest cost of the axis."""


TOP, BOTTOM = 12.0, 172.0


def cost_plot(found: Evaluation) -> CostPlot | None:
    """Cost for each trial against the share that passes; None if no agent has a known cost above 0."""
    known = [each for each in found.totals if not each.models.unpriced_calls and each.trials]
    costs = {each.agent: each.models.cost_usd / each.trials for each in known}
    most = max(costs.values(), default=0.0)
    if not most:
        return None
    cells = {cell.agent: cell for cell in found.cells if cell.fault is None and cell.agent in costs}
    dots = tuple(_dot(each, costs[each.agent], most, found.agents.index(each.agent)) for each in cells.values())
    return CostPlot(dots, money_text(most))


def _dot(cell: EvaluatedCell, cost: float, most: float, colour: int) -> CostDot:
    spread = cell.rate.interval
    return CostDot(
        agent=cell.agent,
        text=f"{cell.agent}: {share_text(cell.rate.share)}, {money_text(cost)}",
        x=_at(cost, 0, most),
        y=_height(cell.rate.share or 0),
        interval=None if spread is None else (_height(spread[0]), _height(spread[1])),
        colour=colour,
    )


def _height(share: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * share, 1)


# The page.


class EvaluationVerdict(Struct, frozen=True):
    """A comparison in words."""

    sentence: str
    evidence: str
    more: str
    decided: bool


def evaluation_page(found: Evaluation, trials: Sequence[EvaluationTrial] = ()) -> str:
    """The whole document. `trials`: those whose pages lie beside it, which its tables then lead to."""
    return rendered(
        "evaluation.html",
        more_style=asset("evaluation.css"),
        found=found,
        headline=headline(found),
        plots=[each for each in (rate_plot(found), difference_plot(found)) if each is not None],
        costs=cost_plot(found),
        verdicts=list(_verdicts(found)),
        tables=list(_tables(found, trials)),
        state=_state(found),
    )


def _state(found: Evaluation) -> str:
    """The class of the head: how it went."""
    if found.no_verdict or not found.complete:
        return "unsure"
    return "good" if all(each.met for each in found.gate) else "bad"


def _verdicts(found: Evaluation) -> Iterator[EvaluationVerdict]:
    for each in by_worth(found.comparisons):
        evidence = evidence_text(each)
        sentence = verdict_sentence(each).removesuffix(f": {evidence}")
        yield EvaluationVerdict(sentence, evidence, more_text(each), each.better != "open")


Cell = tuple[str, str]
"""A text, and the address that it leads to; the second is empty for most."""


class PageTable(Struct, frozen=True):
    """A table of the page."""

    name: str
    title: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def _table(name: str, title: str, caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> PageTable:
    return PageTable(name, title, caption, head, [[(text, "") for text in row] for row in rows])


def _tables(found: Evaluation, trials: Sequence[EvaluationTrial]) -> Iterator[PageTable]:
    hats = ("; pass^k: the probability that k trials of a task all pass") if max(shown_ks(found.trials)) > 1 else ""
    yield _table("rates", "Rates", f"Share that passes, a mean over tasks{hats}", rate_head(found), rate_rows(found))
    yield _task_table(found, cell_links(trials))
    if found.causes:
        yield _cause_table(found, trials)
    caption = "Of all trials, those that were void or made again included"
    yield _table("use", "Cost and time", caption, USE_HEAD, [use_cells(each) for each in found.totals])


def _task_table(found: Evaluation, links: Mapping[tuple[str, str | None, str], str]) -> PageTable:
    """The cells of an agent lead to its trials."""
    names = {condition_text(fault): fault for fault in (None, *found.faults)}
    rows = [
        [(row[0], ""), (row[1], "")]
        + [
            (text, links.get((row[0], names[row[1]], agent), ""))
            for agent, text in zip(found.agents, row[2:], strict=True)
        ]
        for row in task_rows(found)
    ]
    more = ": a click shows them, and what the agent did" if links else ""
    return PageTable("tasks", "Tasks", f"Trials that passed, of those that count{more}", task_head(found), rows)


def _cause_table(found: Evaluation, trials: Sequence[EvaluationTrial]) -> PageTable:
    """A code leads to the first trial that ended with it, or else to the files of that."""
    first = {each.artifacts: trial_link(each) for each in trials if each.artifacts}
    links = [
        first.get(each.artifacts or "") or (quote(f"{each.artifacts}/") if each.artifacts else "")
        for each in found.causes
    ]
    rows = [
        [(row[0], link), *((text, "") for text in row[1:])] for row, link in zip(cause_rows(found), links, strict=True)
    ]
    caption = "Number of trials that ended with each code, side by side; a code leads to the first one"
    return PageTable("causes", "Failures by cause", caption, cause_head(found), rows)
