"""A parsed criterion, and what can be told of it without running it."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.criteria.syntax import Condition, Read, Stable, Value, Within, walk
from harness.criteria.vocabulary import MEMORY_FUNCTIONS, SELECTOR_FUNCTIONS


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
    def waits(self) -> bool:
        """Whether judging it may take time: WITHIN, EVENTUALLY, STABLE."""
        return any(isinstance(node, Within | Stable) for node in walk(self.tree))


@dataclass(frozen=True, slots=True)
class Criterion(_Expression):
    """Something that holds or does not."""

    tree: Condition = field(repr=False)


@dataclass(frozen=True, slots=True)
class ValueExpression(_Expression):
    """Something that has a value, as `remember` takes it."""

    tree: Value = field(repr=False)
