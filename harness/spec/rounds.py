"""The rounds of a step group that is used with `for_each` or `count`, and the values that are filled into its steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from harness.criteria.paths import lookup
from harness.spec.references import as_text, quoted

EACH = "each"
MOST_ROUNDS = 100


class Guard(Struct, frozen=True):
    """What is asked before a step that is the first of several, which are left out together.

    Steps keep them in their `guards`: this as a text -> a criterion; or with `key` a list, of which this is a round.
    """

    steps: int
    key: str = ""
    """The memory entry with the list."""
    round: int = 0
    """The number of the round, from 0; in round 0 the list is read."""
    rounds: int = 1
    """For how many rounds there are steps."""

    @classmethod
    def read(cls, text: str) -> Guard:
        """The opposite of `str(...)`."""
        steps, *of_list = text.split()
        return cls(int(steps), of_list[0], int(of_list[1]), int(of_list[2])) if of_list else cls(int(steps))

    def __str__(self) -> str:
        return f"{self.steps} {self.key} {self.round} {self.rounds}" if self.key else str(self.steps)

    @property
    def in_a_round(self) -> int:
        """The number of steps in one round."""
        return self.steps // (self.rounds - self.round)


def unused(guards: Iterable[Iterable[str]], memory: Mapping[str, Any]) -> int:
    """The number of steps of rounds for which their list, if it is in memory already, has no item."""
    first = (Guard.read(text) for of_step in guards for text in of_step)
    lists = ((guard, memory.get(guard.key)) for guard in first if guard.key)
    return sum(guard.steps for guard, items in lists if isinstance(items, list) and guard.round == len(items))


class LaterItem(Struct, frozen=True):
    """An item that is known only when the steps are reached: it stands in a list in memory."""

    key: str
    place: int


OTHERS = object()
"""The value of `${each}` in a `use` that has rounds of its own: it stays."""


def given(values: Mapping[str, Any], reference: str) -> Any:
    """The value of `with.NAME`, `each` or `each.PATH`. Raises KeyError with what has no value."""
    if reference.startswith("with."):
        return values[reference.removeprefix("with.")]
    rest = reference.removeprefix(EACH)
    if EACH_KEY not in values:
        raise KeyError(reference)
    item = values[EACH_KEY]
    if item is OTHERS:
        return f"${{{reference}}}"
    if isinstance(item, LaterItem):
        return f"${{memory.{item.key}[{item.place}]{rest}}}"
    found = lookup(item, rest.removeprefix(".")) if rest else [item]
    if not found:
        raise KeyError(reference)
    return found[0]


EACH_KEY = "${each}"
"""The name of the item among the values of parameters: no parameter can have it."""


class Round(Struct, frozen=True):
    """One of the rounds: its number from 1, and its item."""

    number: int
    item: Any


def rounds_of(for_each: Any, count: int | None, at_most: int, key: str) -> Iterator[Round | None]:
    """The rounds of a `use`; a single None without `for_each` and `count`. `key`: that of a list read later."""
    if count is not None:
        yield from (Round(number, number) for number in range(1, count + 1))
    elif isinstance(for_each, list):
        yield from (Round(number, item) for number, item in enumerate(for_each, 1))
    elif for_each is not None:
        yield from (Round(place + 1, LaterItem(key, place)) for place in range(at_most))
    else:
        yield None


_NAMED = r"\$\{(with\.[^{}]*|each(?:[.\[][^{}]*)?)\}"
REFERENCE = re.compile(rf"\$\$\{{|{_NAMED}")
"""A reference to a value, in group 1, or `$${`, which is none."""
_PART = re.compile(rf"""'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|\$\$\{{|{_NAMED}""", re.DOTALL)


def filled_length(value: Any, lengths: Mapping[str, int]) -> int:
    """The length of a value when its parameters are filled in, before that is done. `lengths`: those of the values."""
    if isinstance(value, str):
        names = ((found[1] or "").removeprefix("with.") for found in REFERENCE.finditer(value))
        return len(value) + sum(lengths.get(name, 0) for name in names)
    if isinstance(value, dict):
        return sum(len(key) + filled_length(each, lengths) for key, each in value.items())
    return sum(filled_length(each, lengths) for each in value) if isinstance(value, list) else 1


def fill(text: str, values: Mapping[str, Any]) -> Any:
    """Fill in `${with.NAME}`; a text that is only a reference becomes the value itself. Raises KeyError.

    Other references stay, and so do those in the values, which the task has written.
    """
    whole = REFERENCE.fullmatch(text)
    if whole and whole[1] is not None:
        return given(values, whole[1])
    return REFERENCE.sub(lambda found: found[0] if found[1] is None else as_text(given(values, found[1])), text)


def fill_criterion(text: str, values: Mapping[str, Any]) -> str:
    """Fill in `${with.NAME}` in a criterion: within quotes as text, elsewhere as a literal. Raises KeyError."""

    def part(found: re.Match[str]) -> str:
        piece = found[0]
        if piece[0] in "'\"":
            return REFERENCE.sub(
                lambda each: each[0] if each[1] is None else quoted(as_text(given(values, each[1])), piece[0]), piece
            )
        if piece.startswith("$$"):
            return piece
        value = given(values, piece[2:-1])
        if isinstance(value, str):
            alone = value.startswith("${") and value.endswith("}") and value.count("${") == 1
            return value if alone else f"'{quoted(value, chr(39))}'"
        return as_text(value)

    return _PART.sub(part, text)
