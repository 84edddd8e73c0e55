"""An evaluation as Markdown, for the page of a CI job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from harness.model.evaluation import Evaluation
from harness.model.evaluation_words import USE_HEAD, headline, more_text, use_cells, verdict_sentence
from harness.reporting.evaluation.rows import cause_head, cause_rows, rate_head, rate_rows, task_head, task_rows
from harness.reporting.markdown import escape_markdown
from harness.reporting.tables import markdown_table

MOST_ROWS = 200
"""The number of rows of a table; the page of a job has a limit, and the document has all."""


def evaluation_markdown(found: Evaluation) -> str:
    """The whole page."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Evaluation) -> Iterator[str]:
    yield f"## Evaluation of {', '.join(map(escape_markdown, found.agents))}: {escape_markdown(headline(found))}\n"
    yield from (f"- **no verdict**: {escape_markdown(line)}" for line in found.no_verdict)
    for each in found.comparisons:
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
        yield from markdown_table(("threshold", "agent", "", "reason"), gate[:MOST_ROWS])
        yield from _more(gate)
    yield "\n### Rates\n"
    yield from _table(rate_head(found), rate_rows(found))
    yield "\n### Tasks\n"
    yield from _table(task_head(found), task_rows(found))
    if found.causes:
        yield "\n### Failures by cause\n"
        yield from _table(cause_head(found), cause_rows(found))
    yield "\n### Costs\n"
    yield from _table(USE_HEAD, map(use_cells, found.totals))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    several = [[*map(escape_markdown, cells)] for cells in rows]
    yield from markdown_table(map(escape_markdown, head), several[:MOST_ROWS])
    yield from _more(several)


def _more(rows: Sequence[object]) -> Iterator[str]:
    if more := len(rows) - MOST_ROWS:
        yield f"\n{more} more rows: see evaluation.json" if more > 0 else ""
