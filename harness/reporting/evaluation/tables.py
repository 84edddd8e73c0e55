"""The tables of an evaluation: their rows, in the terminal and as Markdown for the page of a CI job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from harness.model.evaluation import (
    USE_HEAD,
    EvaluatedTask,
    Evaluation,
    by_worth,
    condition_text,
    hat_text,
    headline,
    interval_text,
    more_text,
    share_text,
    shown_ks,
    use_cells,
    verdict_sentence,
    void_text,
)
from harness.reporting.files import printable
from harness.reporting.markdown import escape_markdown
from harness.reporting.tables import markdown_table, terminal_table

Row = tuple[str, ...]


def rate_head(found: Evaluation) -> Row:
    """The head of the table of rates."""
    hats = (f"pass^{k}" for k in shown_ks(found.trials) if k > 1)
    struck = ("struck",) if found.faults else ()
    return ("agent", "fault", "passed", "95 %", *hats, "tasks", *struck, "void")


def rate_rows(found: Evaluation) -> Iterator[Row]:
    """Yield a row for each agent and fault: the rates, and pass^k under each fault beside clean."""
    ks = [k for k in shown_ks(found.trials) if k > 1]
    for cell in found.cells:
        hats = (hat_text(cell, k) for k in ks)
        rate = (share_text(cell.rate.share), interval_text(cell.rate.interval))
        struck = () if not found.faults else (f"{cell.struck}/{cell.trials}" if cell.fault else "",)
        yield (cell.agent, condition_text(cell.fault), *rate, *hats, str(cell.rate.tasks), *struck, void_text(cell))


def task_head(found: Evaluation) -> Row:
    """The head of the table of tasks."""
    return ("task", "fault", *found.agents)


def task_rows(found: Evaluation) -> Iterator[Row]:
    """Yield a row for each task and fault, with a cell for each agent: `4/5`, and the void ones."""
    tasks = {(cell.fault, each.task_id, cell.agent): each for cell in found.cells for each in cell.tasks}
    for fault in (None, *found.faults):
        for task_id in found.task_ids:
            own = [tasks.get((fault, task_id, agent)) for agent in found.agents]
            if any(own):
                yield (task_id, condition_text(fault), *map(_counted_text, own))


def _counted_text(task: EvaluatedTask | None) -> str:
    """`4/5`, `4/4, 1 void`; empty if it was not tried."""
    if task is None:
        return ""
    of = task.passed + task.failed
    return f"{task.passed}/{of}" + (f", {task.void} void" if task.void else "")


def cause_head(found: Evaluation) -> Row:
    """The head of the table of causes."""
    return ("code", "fault", "outcome", *found.agents, "first message")


def cause_rows(found: Evaluation) -> Iterator[Row]:
    """Yield a row for each code, with a cell for each agent."""
    for each in found.causes:
        counts = (str(each.counts.get(name, 0)) for name in found.agents)
        yield (each.code, condition_text(each.fault), each.outcome, *counts, each.example)


# In the terminal.


def show_evaluation(found: Evaluation, console: Console) -> None:
    """Print rates, tasks, causes, costs and comparisons, then the gate and the verdict."""
    for part in _terminal_parts(found):
        console.print(part)


def _terminal_parts(found: Evaluation) -> Iterator[RenderableType]:
    yield _terminal_table(rate_head(found), rate_rows(found))
    yield Text()
    yield _terminal_table(task_head(found), task_rows(found))
    if found.causes:
        yield Text()
        yield _terminal_table(cause_head(found), cause_rows(found))
    yield Text()
    yield _terminal_table(USE_HEAD, map(use_cells, found.totals))
    yield Text()
    yield from map(Text, _verdict_lines(found))


def _verdict_lines(found: Evaluation) -> Iterator[str]:
    for each in by_worth(found.comparisons):
        yield verdict_sentence(each)
        if more := more_text(each):
            yield f"  {more}"
    for threshold in found.gate:
        met = "met" if threshold.met else "NOT met"
        yield f"gate {threshold.key}, {threshold.agent}: {met}: {threshold.reason}"
    yield from (f"no verdict: {line}" for line in found.no_verdict)
    yield headline(found)


def _terminal_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> RenderableType:
    return terminal_table(head, ([*map(printable, cells)] for cells in rows), narrowest=8)


# As Markdown.

_MOST_ROWS = 200
"""The number of rows of a table; the page of a job has a limit, and the document has all."""


def evaluation_markdown(found: Evaluation) -> str:
    """The whole page."""
    return "\n".join(_markdown_lines(found)) + "\n"


def _markdown_lines(found: Evaluation) -> Iterator[str]:
    yield f"## Evaluation of {', '.join(map(escape_markdown, found.agents))}: {escape_markdown(headline(found))}\n"
    yield from (f"- **no verdict**: {escape_markdown(line)}" for line in found.no_verdict)
    for each in by_worth(found.comparisons):
        yield f"- {escape_markdown(verdict_sentence(each), 400)}"
        if more := more_text(each):
            yield f"  - {more}"
    if found.gate:
        yield "\n### Gate\n"
        words = {False: "**not met**", True: "met"}
        gate = [
            (escape_markdown(each.key), escape_markdown(each.agent), words[each.met], escape_markdown(each.reason))
            for each in found.gate
        ]
        yield from markdown_table(("threshold", "agent", "", "reason"), gate[:_MOST_ROWS])
        yield from _more(gate)
    yield "\n### Rates\n"
    yield from _markdown_table(rate_head(found), rate_rows(found))
    yield "\n### Tasks\n"
    yield from _markdown_table(task_head(found), task_rows(found))
    if found.causes:
        yield "\n### Failures by cause\n"
        yield from _markdown_table(cause_head(found), cause_rows(found))
    yield "\n### Costs\n"
    yield from _markdown_table(USE_HEAD, map(use_cells, found.totals))


def _markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    several = [[*map(escape_markdown, cells)] for cells in rows]
    yield from markdown_table(map(escape_markdown, head), several[:_MOST_ROWS])
    yield from _more(several)


def _more(rows: Sequence[object]) -> Iterator[str]:
    if more := len(rows) - _MOST_ROWS:
        yield f"\n{more} more rows: see evaluation.json" if more > 0 else ""
