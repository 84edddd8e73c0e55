"""An evaluation in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from harness.model.evaluation import Evaluation
from harness.model.evaluation_words import USE_HEAD, headline, more_text, use_cells, verdict_sentence
from harness.reporting.evaluation.rows import cause_head, cause_rows, rate_head, rate_rows, task_head, task_rows
from harness.reporting.files import printable
from harness.reporting.tables import terminal_table


def show_evaluation(found: Evaluation, console: Console) -> None:
    """Print rates, tasks, causes, costs and comparisons, then the gate and the verdict."""
    for part in _parts(found):
        console.print(part)


def _parts(found: Evaluation) -> Iterator[RenderableType]:
    yield _table(rate_head(found), rate_rows(found))
    yield Text()
    yield _table(task_head(found), task_rows(found))
    if found.causes:
        yield Text()
        yield _table(cause_head(found), cause_rows(found))
    yield Text()
    yield _table(USE_HEAD, map(use_cells, found.totals))
    yield Text()
    yield from map(Text, _lines(found))


def _lines(found: Evaluation) -> Iterator[str]:
    for each in found.comparisons:
        yield verdict_sentence(each)
        if more := more_text(each):
            yield f"  {more}"
    for threshold in found.gate:
        met = "met" if threshold.met else "NOT met"
        yield f"gate {threshold.key}, {threshold.agent}: {met}: {threshold.reason}"
    yield from (f"no verdict: {line}" for line in found.no_verdict)
    yield headline(found)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> RenderableType:
    return terminal_table(head, ([*map(printable, cells)] for cells in rows), narrowest=8)
