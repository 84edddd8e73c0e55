"""The result of a regrading as lines for people. Texts of pages and files cannot steer the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.reporting.files import shown_path
from harness.spec.names import blank_unprintable, how_many

LONGEST = 300
_SIGNS = {"held": "+", "unmet": "x", "undecided": "?"}


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """A line for each task, with the changed or open criteria; the directories that were left out; the counts."""
    for task in document["tasks"]:
        yield from _task_lines(task)
    for one in document["left_out"]:
        yield f"left out: {_plain(shown_path(Path(one['folder'])))}: {_plain(one['why'])}"
    yield _counts_line(document["counts"])


def _plain(text: str) -> str:
    return blank_unprintable(text if len(text) <= LONGEST else f"{text[:LONGEST]}...")


def _task_lines(task: Mapping[str, Any]) -> Iterator[str]:
    before, now, criteria = task["before"], task["now"], task["criteria"]
    verdict = before if before == now else f"{before} -> {now}"
    yield f"{verdict:<18} {_plain(task['task_id'])}  ({_plain(shown_path(Path(task['folder'])))})"
    why = task["why"] or ("" if criteria else "it has no success criteria")
    if why and why not in [criterion["why"] for criterion in criteria]:
        yield f"    {_plain(why)}"
    for criterion in criteria:
        if criterion["now"] != "held" or criterion["new"] or criterion["before"] == "unmet":
            yield from _criterion_line(criterion)
    yield from (f"    - gone: {_plain(text)}" for text in task["gone"])
    if score := task["score"]:
        was = "" if score["before"] is None else f"{score['before']:g} -> "
        yield f"    score: {was}{_plain(score['why']) if score['now'] is None else format(score['now'], 'g')}"


def _criterion_line(criterion: Mapping[str, Any]) -> Iterator[str]:
    now, before = criterion["now"], criterion["before"]
    marks = [word for word in ("new", "relaxed") if criterion[word]]
    marks += [f"{before} before"] if before not in (None, now) and now != "undecided" else []
    said = f"  ({', '.join(marks)})" if marks else ""
    yield f"    {_SIGNS[now]} {_plain(criterion['text'])}{said}"
    if now != "held":
        yield f"        {'undecided: ' if now == 'undecided' else ''}{_plain(criterion['why'])}"


def _counts_line(counts: Mapping[str, int]) -> str:
    judged = f"{counts['pass']} pass, {counts['fail']} fail, {counts['undecided']} undecided"
    newly = [f"{counts[f'newly_{name}']} newly {name}" for name in ("failing", "passing") if counts[f"newly_{name}"]]
    changed = f" ({', '.join(newly)})" if newly else ""
    more = f", {counts['left_out']} left out" if counts["left_out"] else ""
    return f"{how_many(counts['tasks'], 'task')}: {judged}{changed}{more}"
