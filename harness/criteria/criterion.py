"""A parsed criterion, and what can be told of it without running it."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.criteria.syntax import Condition, Every, Read, Stable, Value, Within, walk
from harness.criteria.vocabulary import MEMORY_FUNCTIONS, PAGE_FUNCTIONS, SELECTOR_FUNCTIONS


@dataclass(frozen=True, slots=True)
class _Expression:
    text: str
    tree: Value | Condition = field(repr=False)

    def __str__(self) -> str:
        return self.text

    def _first_arguments(self, functions: frozenset[str]) -> frozenset[str]:
        return frozenset(
            node.arguments[0] for node in walk(self.tree) if isinstance(node, Read) and node.function in functions
        )

    @property
    def channels(self) -> frozenset[str]:
        """The environment channels it reads."""
        return self._first_arguments(frozenset({"json"}))

    @property
    def memory_keys(self) -> frozenset[str]:
        """The memory keys it reads, as written: a key may be a path into a structured entry."""
        return self._first_arguments(MEMORY_FUNCTIONS)

    @property
    def selectors(self) -> frozenset[str]:
        """The elements it looks at."""
        return self._first_arguments(SELECTOR_FUNCTIONS)

    @property
    def looks_at_page(self) -> bool:
        """Whether it looks at the page, and not only at memory and channels."""
        return any(isinstance(node, Read) and node.function in PAGE_FUNCTIONS for node in walk(self.tree))

    @property
    def waits(self) -> bool:
        """Whether judging it may take time: WITHIN, EVENTUALLY, STABLE."""
        return any(isinstance(node, Within | Stable) for node in walk(self.tree))


@dataclass(frozen=True, slots=True)
class Criterion(_Expression):
    """Something that holds or does not."""

    tree: Condition = field(repr=False)

    @property
    def instant(self) -> tuple[str, ...]:
        """What of it speaks of one moment, as criteria of their own; empty when nothing does.

        WITHIN, EVENTUALLY and STABLE speak of a stretch of time that is over when they are settled. Of ALL the other
        parts are left; ANY and NOT that hold such a part are settled with it.
        """
        return tuple(part.source for part in _instant(self.tree))

    def holds_part(self, expression: str) -> bool:
        """Whether a part of it, or all of it, is written so."""
        return any(node.source == expression for node in walk(self.tree))


def _instant(condition: Condition) -> list[Condition]:
    if not any(isinstance(node, Within | Stable) for node in walk(condition)):
        return [condition]
    return [left for part in condition.parts for left in _instant(part)] if isinstance(condition, Every) else []


@dataclass(frozen=True, slots=True)
class ValueExpression(_Expression):
    """Something that has a value, as `remember` takes it."""

    tree: Value = field(repr=False)
