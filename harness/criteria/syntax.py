"""The syntax tree of the assertion language: two closed unions, `Value` and `Condition`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import NamedTuple, TypeAlias
from unicodedata import east_asian_width

# The error in the text of a criterion, and its place.

_WINDOW = 60


class CriterionError(ValueError):
    """A criterion that cannot be parsed. `offset` counts from 0, `line` and `column` from 1."""

    def __init__(self, text: str, offset: int, problem: str, expected: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(text, offset, problem, expected, hint)
        self.text = text
        self.offset = offset
        self.problem = problem
        self.expected = expected
        self.hint = hint
        self.line = text.count("\n", 0, offset) + 1
        self.column = offset - text.rfind("\n", 0, offset)

    def __str__(self) -> str:
        parts = [f"{self.problem} (line {self.line}, column {self.column})", *_mark_offset(self.text, self.offset)]
        if self.expected:
            parts.append("expected: " + " or ".join(self.expected))
        if self.hint:
            parts.append("hint: " + self.hint)
        return "\n".join(parts)


def _mark_offset(text: str, offset: int) -> tuple[str, str]:
    """The line around the offset, cut to a window, and a caret under the position."""
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    end = len(text) if end < 0 else end
    left, right = max(start, offset - _WINDOW), min(end, offset + _WINDOW)
    before, after = text[left:offset], text[offset:right]
    shown = ("..." if left > start else "") + before
    return (
        "  " + (shown + after + ("..." if right < end else "")).replace("\t", " "),
        "  " + " " * sum(2 if east_asian_width(character) in "WF" else 1 for character in shown) + "^",
    )


# The names of the assertion language, and what people write instead of them.

FUNCTIONS = MappingProxyType(
    {
        "exists": ("selector",),
        "text": ("selector",),
        "text_content": ("selector",),
        "value": ("selector",),
        "attr": ("selector", "attribute name"),
        "count": ("selector",),
        "visible": ("selector",),
        "checked": ("selector",),
        "enabled": ("selector",),
        "editable": ("selector",),
        "focused": ("selector",),
        "empty": ("selector",),
        "in_viewport": ("selector",),
        "texts": ("selector",),
        "class": ("selector",),
        "css": ("selector", "CSS property"),
        "role": ("selector",),
        "accessible_name": ("selector",),
        "accessible_description": ("selector",),
        "accessible_error_message": ("selector",),
        "url": (),
        "title": (),
        "cookie": ("name",),
        "local_storage": ("name",),
        "mem": ("key",),
        "json": ("channel", "path"),
        "requests": ("pattern",),
        "responses": ("pattern",),
        "messages": ("pattern",),
        "console": ("pattern",),
        "dialogs": (),
        "downloads": (),
        "result": ("path",),
        "number": ("value", "pattern"),
        "time_since": ("key",),
        "time_until": ("key",),
    }
)
SELECTOR_FUNCTIONS = frozenset(name for name, takes in FUNCTIONS.items() if takes[:1] == ("selector",))
STORED = frozenset({"cookie", "local_storage"})
"""Functions that read what the site keeps in the browser, by name."""
ACCESSIBLE = frozenset({"role", "accessible_name", "accessible_description", "accessible_error_message"})
"""What people with a screen reader are told of an element."""
PAGE_FUNCTIONS = SELECTOR_FUNCTIONS | STORED | {"url", "title"}
MEMORY_FUNCTIONS = frozenset({"mem", "time_since", "time_until"})
PATHS = frozenset({"key", "path"})  # parameters that are paths
OPTIONAL = frozenset({"result"})  # functions whose path may be left out: it is then empty, which means everything
SHOWN_TEXTS = frozenset({"text", "text_content", "title"})
"""Functions whose value is a text that people read: it is compared as Playwright compares texts (`texts.fold`)."""
STATES = frozenset({"checked", "enabled", "editable", "focused", "empty", "in_viewport"})
"""Questions about the first match that is displayed. Without such an element they have no answer."""
QUESTIONS = STATES | {"exists", "visible"}
HAPPENINGS: MappingProxyType[str, str | None] = MappingProxyType(
    {
        "requests": None,
        "responses": None,
        "messages": "text",
        "console": "text",
        "dialogs": "message",
        "downloads": "name",
    }
)
"""What pages have done so far: lists, of which a path takes an item. As a text each is this value of it."""
NAMED: MappingProxyType[str, frozenset[str]] = MappingProxyType(
    {"frame": SELECTOR_FUNCTIONS, "as": PAGE_FUNCTIONS | HAPPENINGS.keys()}
)
"""Arguments that are written with their name, and the functions that take them."""
SINCE_STEPS = HAPPENINGS.keys() - {"requests", "dialogs"}
"""The functions that preconditions cannot use: before the first step nothing has happened."""

WORDS = ("includes", "matches")
OPERATORS = ("==", "!=", "<", "<=", ">", ">=", *WORDS)
MIRRORED = MappingProxyType({"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="})

BRACKETS = ("ALL", "ANY", "NOT")
WAITS = MappingProxyType({"WITHIN": True, "EVENTUALLY": False, "STABLE": True})  # whether seconds come first
CONSTANTS: MappingProxyType[str, bool | None] = MappingProxyType({"true": True, "false": False, "null": None})
UNITS = MappingProxyType({"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800})

_HABITS = MappingProxyType(
    {
        "and": "use `&&` or ALL[...]",
        "or": "use `||` or ANY[...]",
        "not": "use `!` or NOT[...]",
        "contains": "use `includes`",
        "has": "use `includes`",
        "in": "swap the two sides: the whole `includes` the part",
        "is": "use `==`",
        "eq": "use `==`",
        "like": "use `matches` with a regular expression",
        "len": "use `.length`",
        "size": "use `.length`",
        "memory": "did you mean `mem`?",
        "env": "did you mean `json('env', '...')`?",
        "body": "use `result('path')` in `expect` of the `api` step, or `responses(...)[-1].body`",
        "none": "did you mean `null`?",
        "undefined": "did you mean `null`?",
        "startswith": "use `matches '^...'`",
        "endswith": "use `matches '...$'`",
    }
)


def suggestion(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name, or ""."""
    names = tuple(known)
    folded = {candidate.casefold(): candidate for candidate in names}
    close = get_close_matches(name.casefold(), list(folded), n=1)
    if name.casefold() in folded or (close and name.casefold() not in _HABITS):
        return f"did you mean `{folded[name.casefold() if name.casefold() in folded else close[0]]}`?"
    return _HABITS.get(name.casefold(), "")


Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class PageQuery(NamedTuple):
    """A question to the page: a page function with its arguments."""

    function: str
    selector: str | None = None
    name: str | None = None
    """The name of an attribute, a CSS property, a cookie or an entry of the local storage."""
    frame: str | None = None
    user: str | None = None
    """The user whose page is asked; None: the one who acts."""


class Happened(NamedTuple):
    """What pages have done so far, of one kind, in order."""

    items: list[dict[str, Json]]
    gap: str = ""
    """Why older ones are missing; empty if all are there."""


Selected: TypeAlias = tuple[str, str | None]
"""A selector, and that of its frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A part of a criterion; `source` is its text, `offset` its start. Neither counts in comparisons."""

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
    frame: str | None = None
    """The selector of the iframe that has the element."""
    user: str | None = None
    """The user whose pages it reads; None: the one who acts."""

    @property
    def query(self) -> PageQuery:
        """What a page function asks the page."""
        if self.function in STORED:
            return PageQuery(self.function, name=self.arguments[0], user=self.user)
        selector, name, *_ = *self.arguments, None, None
        return PageQuery(self.function, selector, name, self.frame, self.user)


@dataclass(frozen=True, slots=True)
class Part(Node):
    """`[n]`, `['key']` or `.key` after one of `HAPPENINGS`: an item of a list, or a value of an object."""

    of: Value
    segment: str | int


@dataclass(frozen=True, slots=True)
class Length(Node):
    """`.length` of a text, a list or an object."""

    of: Value


@dataclass(frozen=True, slots=True)
class Number(Node):
    """`number(value)`: the number in a text, as the browser's locale writes it; `pattern` picks it by its group."""

    of: Value
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Sum(Node):
    """`left + right` or `left - right`, of numbers."""

    left: Value
    sign: str
    right: Value


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """`left operator right`, and the methods `.includes(x)` and `.matches(r)`. As a value it is true or false."""

    operator: str
    left: Value
    right: Value
    over: str = ""
    """`ANY` or `ALL`: it compares each value that a path with `*` finds, and one of them or all must satisfy it."""

    @property
    def alone(self) -> str:
        """Its text as a criterion of its own."""
        return f"{self.over}[{self.source}]" if self.over else self.source


@dataclass(frozen=True, slots=True)
class Test(Node):
    """A yes-or-no function that stands alone, such as `exists('#a')`."""

    __test__ = False  # pytest would collect a class of this name

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


Value: TypeAlias = Literal | ListOf | ObjectOf | Read | Part | Length | Number | Sum | Compare
Condition: TypeAlias = Compare | Test | Every | Some | Not | Within | Stable


def _children(node: Value | Condition) -> tuple[Value | Condition, ...]:
    match node:
        case ListOf(items=parts) | Every(parts=parts) | Some(parts=parts):
            return parts
        case ObjectOf(entries=entries):
            return tuple(value for _, value in entries)
        case (
            Part(of=part)
            | Length(of=part)
            | Number(of=part)
            | Test(read=part)
            | Not(part=part)
            | Within(part=part)
            | Stable(part=part)
        ):
            return (part,)
        case Compare(left=left, right=right) | Sum(left=left, right=right):
            return (left, right)
        case Literal() | Read():
            return ()


def walk(node: Value | Condition) -> Iterator[Value | Condition]:
    """The node and everything below it."""
    yield node
    for child in _children(node):
        yield from walk(child)


_ABSENT: Mapping[tuple[str, object], bool] = {
    ("==", 0): True, ("<", 1): True, ("<=", 0): True, (">", 0): False, (">=", 1): False, ("!=", 0): False,
}  # fmt: skip
"""Comparison of a count -> whether it says that nothing is there."""


def denials(node: Value | Condition, *, negated: bool = False) -> Iterator[tuple[Selected, bool]]:
    """The selectors that it reads, and of each whether it says that no element is there, or none is to be seen."""
    match node:
        case Not(part=part):
            yield from denials(part, negated=not negated)
        case Test(read=Read(function="exists" | "visible") as read):
            yield (read.arguments[0], read.frame), negated
        case Compare() if (found := _says_absent(node)) is not None:
            read, absent = found
            yield (read.arguments[0], read.frame), absent != negated
        case Read() if node.function in SELECTOR_FUNCTIONS:
            yield (node.arguments[0], node.frame), False
        case _:
            for child in _children(node):
                yield from denials(child, negated=negated)


def _says_absent(comparison: Compare) -> tuple[Read, bool] | None:
    """What is counted or looked for, and whether it is to be absent; None for any other comparison."""
    operator, observed, expected = oriented(comparison)
    if not isinstance(observed, Read) or not isinstance(expected, Literal):
        return None
    if observed.function == "count" and not isinstance(expected.value, bool):
        absent = _ABSENT.get((operator, expected.value))
    else:
        known = observed.function in ("exists", "visible") and operator == "==" and isinstance(expected.value, bool)
        absent = not expected.value if known else None
    return None if absent is None else (observed, absent)


def of_happenings(value: Value) -> bool:
    """Return whether it is one of `HAPPENINGS` or a part of it: only these take a path after the brackets."""
    if isinstance(value, Part):
        return of_happenings(value.of)
    return isinstance(value, Read) and value.function in HAPPENINGS


def constant(value: Value) -> bool:
    """Return whether the value needs no read."""
    return not any(isinstance(node, Read) for node in walk(value))


def oriented(comparison: Compare) -> tuple[str, Value, Value]:
    """The operator, the observed value and the expected one: a constant on the left is moved to the right."""
    operator, left, right = comparison.operator, comparison.left, comparison.right
    if operator in MIRRORED and constant(left) and not constant(right):
        return MIRRORED[operator], right, left
    return operator, left, right
