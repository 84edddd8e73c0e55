"""Builds the syntax tree out of the parse tree."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from types import MappingProxyType
from typing import NoReturn, TypedDict

from msgspec import Struct

from harness.criteria.lalr import ParseNode
from harness.criteria.lists import needs_a_word
from harness.criteria.paths import PathError, segments
from harness.criteria.syntax import (
    BRACKETS,
    CONSTANTS,
    FUNCTIONS,
    HAPPENINGS,
    NAMED,
    OPERATORS,
    OPTIONAL,
    PATHS,
    QUESTIONS,
    SELECTOR_FUNCTIONS,
    UNITS,
    WAITS,
    WORDS,
    Compare,
    Condition,
    CriterionError,
    Every,
    Length,
    ListOf,
    Literal,
    Not,
    Number,
    ObjectOf,
    Part,
    Read,
    Some,
    Stable,
    Sum,
    Test,
    Value,
    Within,
    of_happenings,
    suggestion,
)

_DEEPEST = 50
_LISTS = ("items", "entries")


class NodePlace(TypedDict):
    """The position of a node: the keyword arguments that every node of the syntax tree takes."""

    source: str
    offset: int


class Branch(Struct, frozen=True):
    """A rule's tree or a single token. Access to its parts raises CriterionError below a fixed depth."""

    part: ParseNode
    text: str
    depth: int = 0

    @property
    def kind(self) -> str:
        return self.part.kind

    @property
    def place(self) -> NodePlace:
        return NodePlace(source=self.text[self.part.start : self.part.end], offset=self.part.start)

    @property
    def source(self) -> str:
        return self.place["source"]

    @property
    def parts(self) -> list[Branch]:
        """The direct parts, tokens included; a token has none."""
        if self.part.parts and self.depth >= _DEEPEST:
            self.fail(f"nested more than {_DEEPEST} deep")
        return [Branch(part, self.text, self.depth + 1) for part in self.part.parts]

    @property
    def name(self) -> str:
        """The first token: the name of a call, the text of a constant."""
        return self.parts[0].source

    @property
    def items(self) -> list[Branch]:
        """The parts between the brackets."""
        return [item for part in self.parts if part.kind in _LISTS for item in part.flat]

    @property
    def flat(self) -> list[Branch]:
        """The parts, at the same depth as this one: a list does not count as nesting."""
        return [Branch(part, self.text, self.depth) for part in self.part.parts]

    def fail(self, problem: str, expected: tuple[str, ...] = (), hint: str = "") -> NoReturn:
        raise CriterionError(self.text, self.place["offset"], problem, expected, hint)

    def fail_inside(self, value: str, problem: str, offset: int) -> NoReturn:
        """Fail with a position inside a quoted text, if its characters stand there unescaped."""
        inside = 1 + offset if self.source[1:-1] == value else 0
        raise CriterionError(self.text, self.place["offset"] + inside, problem)


# Converts branches of the parse tree to conditions of the syntax tree.


def condition(branch: Branch) -> Condition:
    """Build the branch as a condition, which holds or does not. Raises CriterionError."""
    return _CONDITIONS.get(branch.kind, _test)(branch)


def _test(branch: Branch) -> Condition:
    tested = value(branch)
    if isinstance(tested, Compare):
        return tested
    if isinstance(tested, Read) and tested.function in QUESTIONS:
        return Test(tested, **branch.place)
    branch.fail("a criterion is a comparison, not a bare value", hint=_comparison_hint(tested))


def _comparison_hint(bare: Value) -> str:
    if not isinstance(bare, Read):
        return "compare something with it, for example text('#id') == 'done'"
    if bare.function in HAPPENINGS:
        return f"compare it, for example {bare.source}.length == 1"
    rest = {"mem": "== true", "count": "> 0", "time_since": "< 24h", "time_until": "> 0"}.get(bare.function, "!= ''")
    return f"compare it, for example {bare.source} {rest}"


def _bracket(branch: Branch) -> Condition:
    name, items = branch.name, branch.items
    if name not in BRACKETS:
        round_ones = f"{name} takes round brackets" if name in WAITS or name in FUNCTIONS else ""
        branch.fail(f"unknown combinator `{name}[...]`", BRACKETS, round_ones or suggestion(name, BRACKETS))
    if not items:
        branch.fail(f"{name}[...] is empty", ("a criterion",))
    if name != "NOT":
        parts = (condition(item) for item in items)
        return (Every if name == "ALL" else Some)(tuple(_over(name, part) for part in parts), **branch.place)
    if len(items) > 1:
        items[1].fail("NOT[...] takes one criterion", hint="say NOT[ALL[...]] or NOT[ANY[...]]")
    return Not(condition(items[0]), **branch.place)


def _over(name: str, part: Condition) -> Condition:
    """A comparison that stands directly in `ANY[...]` or `ALL[...]` is made for each value of a list."""
    if not isinstance(part, Compare) or not needs_a_word(part):
        return part
    return Compare(part.operator, part.left, part.right, name, source=part.source, offset=part.offset)


def _wait(branch: Branch) -> Condition:
    name, items = branch.name, branch.items
    timed = WAITS[name]
    form = f"{name}(seconds, criterion)" if timed else f"{name}(criterion)"
    if len(items) != 1 + timed:
        branch.fail(f"{name} takes {'two arguments' if timed else 'one argument'}", (form,))
    seconds = _seconds(items[0], form) if timed else math.inf
    return (Stable if name == "STABLE" else Within)(seconds, condition(items[-1]), **branch.place)


def _seconds(branch: Branch, form: str) -> float:
    if branch.kind in ("number", "duration"):
        literal = value(branch)
        if isinstance(literal, Literal) and isinstance(literal.value, int | float) and literal.value >= 0:
            return float(literal.value)
    branch.fail("the seconds are a number, zero or more", (form,))


_CONDITIONS: MappingProxyType[str, Callable[[Branch], Condition]] = MappingProxyType(
    {
        "group": lambda branch: condition(branch.parts[0]),
        "either": lambda branch: Some(tuple(map(condition, branch.parts)), **branch.place),
        "both": lambda branch: Every(tuple(map(condition, branch.parts)), **branch.place),
        "negation": lambda branch: Not(condition(branch.parts[0]), **branch.place),
        "bracket": _bracket,
        "call": lambda branch: _wait(branch) if branch.name in WAITS else _test(branch),
    }
)


# Converts branches to values of the syntax tree; checks names, numbers of arguments, paths and patterns.


def value(branch: Branch) -> Value:
    """Build the branch as a value. Raises CriterionError."""
    build = _EXPRESSIONS.get(branch.kind)
    if build is None or (branch.kind == "call" and branch.name in WAITS):
        branch.fail("a condition cannot stand where a value is needed")
    return build(branch)


def _constant(branch: Branch, read: Callable[[str], str | int | float]) -> Literal:
    return Literal(_constant_of(branch.parts[0], read), **branch.place)


def _name(branch: Branch) -> Literal:
    name = branch.name
    if name in CONSTANTS:
        return Literal(CONSTANTS[name], **branch.place)
    if name in FUNCTIONS:
        branch.fail(f"`{name}` needs its brackets", (form(name),))
    hint = suggestion(name, [*CONSTANTS, *FUNCTIONS]) or f"text goes in quotes: '{name}'"
    branch.fail(f"unknown name `{name}`", hint=hint)


def _call(branch: Branch) -> Read | Number:
    name = branch.name
    if name == "number":
        return _number_in(branch, branch.items)
    if name in BRACKETS:
        branch.fail(f"{name} takes square brackets", (f"{name}[...]",))
    if name not in FUNCTIONS:
        branch.fail(f"unknown function `{name}`", hint=suggestion(name, [*FUNCTIONS, *WAITS]))
    takes, items = FUNCTIONS[name], [item for item in branch.items if item.kind != "named"]
    named: dict[str, str] = {}
    for item in (item for item in branch.items if item.kind == "named"):
        _add_named(name, item, named)
    if name in OPTIONAL and not items:
        return Read(name, ("",), **branch.place)
    if len(items) != len(takes):
        whole = "the path '*' takes all of the document" if name == "json" and len(items) == 1 else ""
        branch.fail(f"`{name}` takes {len(takes) or 'no'} argument{'s' * (len(takes) != 1)}", (form(name),), hint=whole)
    given = tuple(map(_argument, [name] * len(takes), takes, items))
    return Read(name, given, named.get("frame"), named.get("as"), **branch.place)


def _add_named(function: str, branch: Branch, named: dict[str, str]) -> None:
    """Add an argument such as `frame='#pay'`."""
    key, quoted = branch.parts
    known = [name for name, functions in NAMED.items() if function in functions]
    if key.source not in known:
        expected = tuple(f"{name}=" for name in known)
        key.fail(f"`{function}` takes no `{key.source}=`", expected, suggestion(key.source, known))
    if key.source in named:
        key.fail(f"`{key.source}=` appears twice")
    named[key.source] = text = str(_constant_of(quoted, string))
    if not text.strip():
        quoted.fail(f"the {key.source} of `{function}` is empty")


def _stray_name(branch: Branch) -> NoReturn:
    key = branch.name if branch.name in NAMED else "frame"
    owners = ", ".join(sorted(NAMED[key]))
    branch.fail(f"`{branch.name}=` has no place here", hint=f"`{key}=` belongs into {owners}; to compare, use `==`")


def _number_in(branch: Branch, items: list[Branch]) -> Number:
    """`number(value)`, or `number(value, 'pattern')` with one group around the number."""
    if not 1 <= len(items) <= 2:
        branch.fail("`number` takes a value, and a pattern if the text has several numbers", (_NUMBER_FORM,))
    of = value(items[0])
    if len(items) == 1:
        return Number(of, **branch.place)
    pattern = value(items[1])
    groups = _check_pattern(items[1], pattern, "number")
    assert isinstance(pattern, Literal)
    if groups != 1:
        items[1].fail("the pattern of `number` has one group, which is around the number", (_NUMBER_FORM,))
    return Number(of, str(pattern.value), **branch.place)


_LISTS_OF_ITEMS = ", ".join(f"`{name}`" for name in HAPPENINGS)
_NUMBER_FORM = "number(text('#n'), '([0-9]+) of')"


def form(function: str) -> str:
    """The signature of a function, for messages."""
    return f"{function}({', '.join(repr(takes) for takes in FUNCTIONS[function])})"


def _argument(function: str, takes: str, branch: Branch) -> str:
    """Return a quoted argument. No other is allowed, so that what a criterion reads is known before it runs."""
    literal = value(branch)
    if not isinstance(literal, Literal) or not isinstance(literal.value, str):
        branch.fail(f"the {takes} of `{function}` is a quoted text", (form(function),))
    if not literal.value.strip() and takes != "path":
        branch.fail(f"the {takes} of `{function}` is empty", (form(function),))
    if takes in PATHS:
        try:
            segments(literal.value)
        except PathError as error:
            branch.fail_inside(literal.value, f"bad {takes}: {error.problem}", error.offset)
    return literal.value


def _member(branch: Branch) -> Length | Part:
    owner, name = branch.parts
    of = value(owner)
    if name.source != "length":
        call = f"call it: .{name.source}(...)" if name.source in WORDS else ""
        if of_happenings(of) and not call:
            return Part(of, name.source, **branch.place)
        hint = call or suggestion(name.source, ["length"]) or "a path goes inside the quotes"
        name.fail(f"unknown property `.{name.source}`", (".length",), hint)
    return Length(of, **branch.place)


def _item(branch: Branch) -> Part:
    owner, inside = branch.parts
    of = value(owner)
    if not of_happenings(of):
        offset = branch.text.index("[", owner.part.end)
        hint = "an index goes into the path: mem('orders[0].id')"
        if isinstance(of, Read) and of.function in SELECTOR_FUNCTIONS:
            name = "text" if of.function == "texts" else of.function
            hint = f"name the element in the selector: {name}('{of.arguments[0]} >> nth={inside.source}')"
        raise CriterionError(branch.text, offset, f"unexpected `[`: only {_LISTS_OF_ITEMS} take an index", hint=hint)
    if inside.kind == "STRING":
        return Part(of, str(_constant_of(inside, string)), **branch.place)
    index = _constant_of(inside, number)
    if not isinstance(index, int):
        inside.fail("an index is a whole number")
    return Part(of, index, **branch.place)


def _constant_of(token: Branch, read: Callable[[str], str | int | float]) -> str | int | float:
    try:
        return read(token.source)
    except ValueError as error:
        token.fail(str(error))


def _method(branch: Branch) -> Compare:
    owner, name = branch.parts[:2]
    left, items = value(owner), branch.items
    if name.source not in WORDS:
        hint = "write `.length` without brackets" if name.source == "length" else suggestion(name.source, WORDS)
        name.fail(f"unknown method `.{name.source}()`", tuple(f".{word}(...)" for word in WORDS), hint)
    if len(items) != 1:
        name.fail(f"`.{name.source}` takes one argument, not {len(items)}")
    return _comparison(branch, left, name.source, items[0])


def _sum(branch: Branch) -> Sum:
    left, sign, right = branch.parts
    return Sum(value(left), sign.source, value(right), **branch.place)


def _compare(branch: Branch) -> Compare:
    owner, name, other = branch.parts
    left = value(owner)
    if name.source not in OPERATORS:
        starts_another = name.source in FUNCTIONS or name.source in WAITS or name.source in BRACKETS
        hint = "put a comma or `&&` before it" if starts_another else suggestion(name.source, WORDS)
        name.fail(f"unknown operator `{name.source}`", OPERATORS, hint)
    return _comparison(branch, left, name.source, other)


def _comparison(branch: Branch, left: Value, operator: str, other: Branch) -> Compare:
    right = value(other)
    if operator == "matches":
        _check_pattern(other, right, "matches")
    return Compare(operator, left, right, **branch.place)


def _check_pattern(branch: Branch, pattern: Value, taker: str) -> int:
    """The number of groups in a pattern. Raises CriterionError for one that is wrong or too costly."""
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        branch.fail(f"`{taker}` takes a quoted regular expression", ("a quoted text",))
    from harness.criteria.patterns import PatternError, compiled  # few criteria have a pattern

    try:
        return compiled(pattern.value).groups
    except PatternError as error:
        branch.fail_inside(pattern.value, error.problem, error.offset)


def _object(branch: Branch) -> ObjectOf:
    entries: dict[str, Value] = {}
    for entry in branch.items:
        key, item = entry.parts
        name = str(_constant(entry, string).value) if key.kind == "STRING" else key.source
        if name in entries:
            key.fail(f"the key `{name}` appears twice")
        entries[name] = value(item)
    return ObjectOf(tuple(entries.items()), **branch.place)


_EXPRESSIONS: MappingProxyType[str, Callable[[Branch], Value]] = MappingProxyType(
    {
        "group": lambda branch: value(branch.parts[0]),
        "compare": _compare,
        "sum": _sum,
        "string": lambda branch: _constant(branch, string),
        "number": lambda branch: _constant(branch, number),
        "duration": lambda branch: _constant(branch, number),
        "name": _name,
        "call": _call,
        "named": _stray_name,
        "member": _member,
        "item": _item,
        "method": _method,
        "list": lambda branch: ListOf(tuple(map(value, branch.items)), **branch.place),
        "object": _object,
    }
)


# Constants: quoted texts, numbers, durations.

_LONGEST_NUMBER = 100
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
_DURATION = re.compile(r"(?P<amount>-?[0-9.]+)(?P<unit>[a-z]+)")


def string(quoted: str) -> str:
    r"""The text between the quotes. Escapes: `\n \t \r \\ \' \" \uXXXX`.

    A backslash before any other character stays, so that `'\d+\.'` and `'#a\:b'` mean what they seem to. Raises
    ValueError.
    """
    text = _ESCAPE.sub(_unescaped, quoted[1:-1])
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise ValueError("half of a surrogate pair is not a character") from error


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _SIMPLE.get(code, match[0])


def number(text: str) -> int | float:
    """Whole numbers stay integers; durations (`7d`, `1.5h`, `200ms`) become seconds. Raises ValueError."""
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a number has at most {_LONGEST_NUMBER} characters")
    if duration := _DURATION.fullmatch(text):
        return number(duration["amount"]) * UNITS[duration["unit"]]
    value = int(text) if text.lstrip("-").isdigit() else float(text)
    if not math.isfinite(value):
        raise ValueError("the number is too large")
    return value
