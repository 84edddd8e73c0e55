"""What is told of an error code, in `harness explain` and in docs/error-codes.md: from the catalog and the rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

from harness.recovery import GiveUp, Remedy, Repair, Retry, Rewind, Rulebook, Skip, Substitute, Trust
from harness.recovery.catalog import Family, Row
from harness.recovery.failure import Failure

_EXAMPLES = Path(__file__).with_name("error_examples.json")
"""Code -> what a report of it says beyond the catalog: `message`, `step`, `step_index`, `context`."""
USUAL_INDEX = 3
"""Which step fails in the examples that do not say."""


def facts(row: Row) -> Iterator[tuple[str, str]]:
    """Label and words: all that is told of a code, but for its example."""
    yield "error_type", row.error_type
    yield "category", f"{row.category}, severity {row.severity}, scope {row.scope}"
    yield "retryable", "yes" if row.retryable else "no"
    yield "cause", row.cause
    yield "rule", treatment(row)
    yield "do", row.hint


def treatment(row: Row) -> str:
    """What the harness does by default: the rule that answers, and its remedies in their order."""
    book = Rulebook()
    rule = book.rule(row.family)
    remedies = list(book.remedies(Failure(row.code, ""), Random(0).random))
    ways = "; then ".join(_ways(remedies, row))
    if rule is None:
        return f"none answers: {ways}"
    if rule.strategy == "retry" and all(isinstance(each, GiveUp) for each in remedies):
        return f"`{row.family}`, by default `{rule.strategy}`, which does not try this code again: {ways}"
    patience = getattr(rule, "wait_seconds", None)
    looked = f"the element is looked for {patience:g} s, then for each of its fallbacks; then " if patience else ""
    return f"`{row.family}`, by default `{rule.strategy}`: {looked}{ways}"


def _ways(remedies: Iterable[Remedy], row: Row) -> Iterator[str]:
    """The remedies in words; those that are the same are counted."""
    for words, same in groupby(_way(remedy, row) for remedy in remedies):
        count = len(list(same))
        yield words if count == 1 else f"{words}, {count} times"


def _way(remedy: Remedy, row: Row) -> str:
    match remedy:
        case Retry(after=after):
            page = ", on a page that was freed or opened again" if row.family is Family.BROWSER else ""
            words = f"the step again after {after:g} s" if after else f"the step again{page}"
        case Rewind(restart=restart):
            words = f"back to the nearest checkpoint, where there is one{', in a new browser' if restart else ''}"
        case Substitute(selector=selector):
            words = f"the step with {selector}"
        case Repair():
            words = "the precondition is repaired"
        case Trust(source=source):
            words = f"the value of the {source} is taken for both"
        case Skip(what=what):
            words = f"the {what} is left out"
        case GiveUp(final_state=state):
            words = f"the task ends as {state}, with the evidence"
    return words


@dataclass(frozen=True, slots=True)
class Example:
    """One failure of a code, as a report tells it."""

    message: str
    context: dict[str, Any]
    step: dict[str, Any] | None = None
    step_index: int = USUAL_INDEX


@lru_cache
def examples() -> dict[str, Example]:
    """Code -> example, for every code of the catalog."""
    found: dict[str, dict[str, Any]] = json.loads(_EXAMPLES.read_text("utf-8"))
    return {code: Example(**each) for code, each in found.items()}


def excerpt(row: Row) -> dict[str, Any]:
    """The part of an error report that tells of the failure."""
    example = examples()[row.code]
    return {
        "error_type": str(row.error_type),
        "code": row.code,
        "step_index": example.step_index,
        **({"step": example.step} if example.step else {}),
        "error_message": example.message,
        **({"context": example.context} if example.context else {}),
    }
