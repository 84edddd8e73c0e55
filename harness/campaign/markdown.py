"""A campaign as Markdown, for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.campaign.document import Campaign
from harness.campaign.table import counted, interval, row, total_lines

_HEAD = ("task", "fault", "struck", "code", "right", "recovered", "seconds", "kept", "outcome")


def markdown(found: Campaign) -> str:
    """The whole document."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Campaign) -> Iterator[str]:
    yield f"# Campaign {_plain(found.name)}: {found.verdict}\n"
    if found.goal:
        yield f"{_plain(found.goal)}\n"
    yield from (f"- {line}" for line in total_lines(found))
    if found.unmet:
        yield "\n## Not as expected\n"
        yield from (f"- {_plain(line)}" for line in found.unmet)
    yield "\n## Faults\n"
    yield from _table(_HEAD, [row(cell) for cell in found.cells])
    yield "\n## Tasks\n"
    rates = [
        (t.task_id, counted(t.clean), interval(t.clean), counted(t.faulted), interval(t.faulted)) for t in found.tasks
    ]
    yield from _table(("task", "clean", "95 %", "faulted", "95 %"), rates)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for cells in rows:
        yield f"| {' | '.join(map(_plain, cells))} |"


def _plain(text: str) -> str:
    """On one line, and without what Markdown or HTML would read as its own."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
