"""Tables of texts, as the terminal shows them, as plain lines, and as Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_NO_STYLES: Mapping[str, str] = MappingProxyType({})


def terminal_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Collection[str] = (),
    styles: Mapping[str, str] = _NO_STYLES,
    narrowest: int | None = None,
) -> Table:
    """A table without lines, whose texts are folded. `numbers`: columns that end at the right.

    `styles`: text of a cell -> its style. `narrowest`: the least width of the first column.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for place, name in enumerate(head):
        justify, least = "right" if name in numbers else "left", narrowest if place == 0 else None
        table.add_column(name, overflow="fold", justify=justify, min_width=least)  # type: ignore[arg-type]
    for cells in rows:
        table.add_row(*(Text(text, styles.get(text, "")) for text in cells))
    return table


def markdown_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a table, whose cells are Markdown."""
    names = list(head)
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    yield from (f"| {' | '.join(cells)} |" for cells in rows)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, in columns as wide as they need."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
