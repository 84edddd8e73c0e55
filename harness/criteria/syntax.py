"""The syntax tree of the assertion language: two closed unions, `Value` and `Condition`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from harness.criteria.vocabulary import MIRRORED

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A part of a criterion; `source` is its own text, `offset` where that starts. Neither counts in comparisons."""

    source: str = field(default="", compare=False, repr=False)
    offset: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A constant; durations are numbers of seconds."""

    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class ListOf(Node):
    """`[a, b]`."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class ObjectOf(Node):
    """`{a: 1, 'b': 2}`."""

    entries: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Read(Node):
    """A call of one of the functions, with its quoted arguments."""

    function: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Length(Node):
    """`.length` of a text, a list or an object."""

    of: Value


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """`left operator right`, and the methods `.includes(x)` and `.matches(r)`. As a value it is true or false."""

    operator: str
    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Test(Node):
    """A yes-or-no function standing alone, such as `exists('#a')`."""

    __test__ = False  # pytest collects classes of this name

    read: Read


@dataclass(frozen=True, slots=True)
class Every(Node):
    """`ALL[...]` and `&&`."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Some(Node):
    """`ANY[...]` and `||`."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not(Node):
    """`NOT[...]` and `!`."""

    part: Condition


@dataclass(frozen=True, slots=True)
class Within(Node):
    """`WITHIN(s, e)`; `EVENTUALLY(e)` is the same with infinite seconds, which the deadline cuts."""

    seconds: float
    part: Condition


@dataclass(frozen=True, slots=True)
class Stable(Node):
    """`STABLE(s, e)`."""

    seconds: float
    part: Condition


Value: TypeAlias = Literal | ListOf | ObjectOf | Read | Length | Compare
Condition: TypeAlias = Compare | Test | Every | Some | Not | Within | Stable


def children(node: Value | Condition) -> tuple[Value | Condition, ...]:
    match node:
        case ListOf(items=parts) | Every(parts=parts) | Some(parts=parts):
            return parts
        case ObjectOf(entries=entries):
            return tuple(value for _, value in entries)
        case Length(of=part) | Test(read=part) | Not(part=part) | Within(part=part) | Stable(part=part):
            return (part,)
        case Compare(left=left, right=right):
            return (left, right)
        case Literal() | Read():
            return ()


def walk(node: Value | Condition) -> Iterator[Value | Condition]:
    """The node and everything below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def constant(value: Value) -> bool:
    """Whether nothing has to be read for it."""
    return not any(isinstance(node, Read) for node in walk(value))


def oriented(comparison: Compare) -> tuple[str, Value, Value]:
    """Operator, what is looked at, what is expected: a constant on the left goes to the right."""
    operator, left, right = comparison.operator, comparison.left, comparison.right
    if operator in MIRRORED and constant(left) and not constant(right):
        return MIRRORED[operator], right, left
    return operator, left, right
