"""Generates the tables of what is done again in docs/design/never-twice.md, from the functions that decide it.

Run as `python -m tools.docs.ways_back docs/design/never-twice.md`, in the folder of the project.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.model.ledger import RULES, Gone, ItemFacts, what_runs_again
from harness.recovery.never_twice import EffectAnswer, Known, RepeatWay, again

CASES = {
    "nothing was sent": Known(wrote=False),
    "undone with the environment": Known(wrote=True, undone=True),
    **{f"`done_when`: {answer}": Known(True, answer) for answer in EffectAnswer},
}
"""What is known of a step that may write -> how the function is told."""
ENDED, LEFT = ItemFacts(ended=True, episode="e"), ItemFacts(episode="e")
ITEMS: Mapping[str, Mapping[str, ItemFacts]] = {
    "had not begun": {"it": ItemFacts()},
    "had begun to write": {"it": ItemFacts(begun=True, wrote=True)},
    "ran among others, without a write": {"it": ItemFacts(begun=True)},
    "the same, in the third process": {"it": ItemFacts(begun=True, losses=3)},
    "ran alone, without a write": {"it": ItemFacts(begun=True, alone=1)},
    "the same, in the second process": {"it": ItemFacts(begun=True, losses=2, alone=2)},
    "an ordinary test ran": {"it": ItemFacts(begun=True, task=False)},
    "has ended": {"it": ItemFacts(ended=True)},
    "has ended, others of its episode have not": {"it": ENDED, "other": LEFT},
    "has not ended, another of its episode has": {"other": ENDED, "it": LEFT},
    "the same, and that one wrote": {"other": ItemFacts(ended=True, wrote=True, episode="e"), "it": LEFT},
}
"""What is known of an item of a process that is gone -> how the function is told."""
FAILURES = sorted(frozenset[str]().union(*(rule.no_end for rule in RULES.values())))


def rendered_ways() -> str:
    """What is done again in a task: a line for each way, a column for what is known."""
    return _table("way", CASES, {way: [again(way, known) for known in CASES.values()] for way in RepeatWay})


def rendered_processes() -> str:
    """What runs again after a process: a line for what is known of an item, a column for each kind of process."""
    lines = {name: [_answer(facts, gone) for gone in Gone] for name, facts in ITEMS.items()}
    for code in FAILURES:
        again = ["again" if code in RULES[gone].no_end else "kept" for gone in Gone]
        lines[f"ended as `{code}`, without a write"] = again
    return _table("the item", Gone, lines)


def _answer(facts: Mapping[str, ItemFacts], gone: Gone) -> str:
    if gone is Gone.SERVER and (len(facts) > 1 or not facts["it"].task):
        return "-"  # it has single tasks
    found = what_runs_again(facts, gone)
    if "it" in found.lost:
        return "no"
    return "kept" if "it" in found.kept else "again" if "it" in found.again else "runs"


def _table(corner: str, head: Iterable[str], lines: Mapping[str, Iterable[str]]) -> str:
    rows = [[corner, *head], ["---"] * (1 + len(list(head))), *([name, *cells] for name, cells in lines.items())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


PARTS = {"ways": rendered_ways, "processes": rendered_processes}
"""The name in the marks of a table -> what is between them."""


def updated(document: str) -> str:
    """The document with the tables between their marks. Raises ValueError if it lacks marks."""
    for name, rendered in PARTS.items():
        first, last = f"<!-- {name}: begin (generated) -->", f"<!-- {name}: end -->"
        before, begin, rest = document.partition(first)
        _, end, after = rest.partition(last)
        if not begin or not end:
            raise ValueError(f"the document has no lines {first} and {last}")
        document = f"{before}{first}\n\n{rendered()}\n\n{last}{after}"
    return document


if __name__ == "__main__":
    _path = Path(sys.argv[1])
    _path.write_text(updated(_path.read_text("utf-8")), "utf-8")
