"""Generates the table of what is done again in docs/design/never-twice.md, from the function that decides it.

Run as `python -m tools.docs.ways_back docs/design/never-twice.md`, in the folder of the project.
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness.recovery.never_twice import EffectAnswer, Known, RepeatWay, again

BEGIN, END = "<!-- ways: begin (generated) -->", "<!-- ways: end -->"
CASES = {
    "nothing was sent": Known(wrote=False),
    "undone with the environment": Known(wrote=True, undone=True),
    **{f"`done_when`: {answer}": Known(True, answer) for answer in EffectAnswer},
}
"""What is known of a step that may write -> how the function is told."""


def rendered() -> str:
    """The table as Markdown: a line for each way, a column for what is known."""
    head = ("way", *CASES)
    lines = [head, ["---"] * len(head), *((way, *(again(way, known) for known in CASES.values())) for way in RepeatWay)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def updated(document: str) -> str:
    """The document with the table between its marks. Raises ValueError if it has no marks."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{rendered()}\n\n{END}{after}"


if __name__ == "__main__":
    _path = Path(sys.argv[1])
    _path.write_text(updated(_path.read_text("utf-8")), "utf-8")
