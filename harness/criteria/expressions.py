"""From branches to the values of the syntax tree: names, numbers of arguments, paths and patterns are checked here."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from harness.criteria import literals
from harness.criteria.branch import Branch
from harness.criteria.paths import PathError, segments
from harness.criteria.patterns import PatternError, compiled
from harness.criteria.syntax import Compare, Length, ListOf, Literal, ObjectOf, Read, Value
from harness.criteria.vocabulary import (
    BRACKETS,
    CONSTANTS,
    FUNCTIONS,
    OPERATORS,
    PATHS,
    WAITS,
    WORDS,
    suggestion,
)


def value(branch: Branch) -> Value:
    """The branch as something that has a value. Raises CriterionError."""
    build = _BUILDERS.get(branch.kind)
    if build is None or (branch.kind == "call" and branch.name in WAITS):
        branch.fail("a condition cannot stand where a value is needed")
    return build(branch)


def _group(branch: Branch) -> Value:
    return value(branch.parts[0])


def _string(branch: Branch) -> Literal:
    return _constant(branch, literals.string)


def _number(branch: Branch) -> Literal:
    return _constant(branch, literals.number)


def _constant(branch: Branch, read: Callable[[str], str | int | float]) -> Literal:
    try:
        return Literal(read(branch.name), **branch.place)
    except ValueError as error:
        branch.fail(str(error))


def _name(branch: Branch) -> Literal:
    name = branch.name
    if name in CONSTANTS:
        return Literal(CONSTANTS[name], **branch.place)
    if name in FUNCTIONS:
        branch.fail(f"`{name}` needs its brackets", (form(name),))
    hint = suggestion(name, [*CONSTANTS, *FUNCTIONS]) or f"text goes in quotes: '{name}'"
    branch.fail(f"unknown name `{name}`", hint=hint)


def _call(branch: Branch) -> Read:
    name, items = branch.name, branch.items
    if name in BRACKETS:
        branch.fail(f"{name} takes square brackets", (f"{name}[...]",))
    if name not in FUNCTIONS:
        branch.fail(f"unknown function `{name}`", hint=suggestion(name, [*FUNCTIONS, *WAITS]))
    takes = FUNCTIONS[name]
    if len(items) != len(takes):
        branch.fail(f"`{name}` takes {len(takes) or 'no'} argument{'s' * (len(takes) != 1)}", (form(name),))
    return Read(name, tuple(map(_argument, [name] * len(takes), takes, items)), **branch.place)


def form(function: str) -> str:
    """How a function is written."""
    return f"{function}({', '.join(repr(takes) for takes in FUNCTIONS[function])})"


def _argument(function: str, takes: str, branch: Branch) -> str:
    """Quoted texts only, so that what a criterion reads is known before it runs."""
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


def _member(branch: Branch) -> Length:
    owner, name = branch.parts
    of = value(owner)
    if name.source != "length":
        call = f"call it: .{name.source}(...)" if name.source in WORDS else ""
        hint = call or suggestion(name.source, ["length"]) or "a path goes inside the quotes"
        name.fail(f"unknown property `.{name.source}`", (".length",), hint)
    return Length(of, **branch.place)


def _method(branch: Branch) -> Compare:
    owner, name = branch.parts[:2]
    left, items = value(owner), branch.items
    if name.source not in WORDS:
        hint = "write `.length` without brackets" if name.source == "length" else suggestion(name.source, WORDS)
        name.fail(f"unknown method `.{name.source}()`", tuple(f".{word}(...)" for word in WORDS), hint)
    if len(items) != 1:
        name.fail(f"`.{name.source}` takes one argument, not {len(items)}")
    return _comparison(branch, left, name.source, items[0])


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
        _check_pattern(other, right)
    return Compare(operator, left, right, **branch.place)


def _check_pattern(branch: Branch, pattern: Value) -> None:
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        branch.fail("`matches` takes a quoted regular expression", ("a quoted text",))
    try:
        compiled(pattern.value)
    except PatternError as error:
        branch.fail_inside(pattern.value, error.problem, error.offset)


def _list(branch: Branch) -> ListOf:
    return ListOf(tuple(map(value, branch.items)), **branch.place)


def _object(branch: Branch) -> ObjectOf:
    entries: dict[str, Value] = {}
    for entry in branch.items:
        key, item = entry.parts
        name = str(_constant(entry, literals.string).value) if key.kind == "STRING" else key.source
        if name in entries:
            key.fail(f"the key `{name}` stands twice")
        entries[name] = value(item)
    return ObjectOf(tuple(entries.items()), **branch.place)


_BUILDERS: MappingProxyType[str, Callable[[Branch], Value]] = MappingProxyType(
    {
        "group": _group,
        "compare": _compare,
        "string": _string,
        "number": _number,
        "duration": _number,
        "name": _name,
        "call": _call,
        "member": _member,
        "method": _method,
        "list": _list,
        "object": _object,
    }
)
