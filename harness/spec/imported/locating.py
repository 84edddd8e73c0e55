"""Calls that make locators: `get_by_role`, `filter`, `nth` and their like."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from harness.spec.imported.values import PlaceInTest, Regex, plain, said
from harness.spec.recorded.locators import Kind, LocatorPart, UnwritableError, target_of
from harness.values import replace

_BY_TEXT: Mapping[str, Kind] = {
    "get_by_text": "text",
    "get_by_label": "label",
    "get_by_placeholder": "placeholder",
    "get_by_alt_text": "alt",
    "get_by_title": "title",
    "get_by_test_id": "test-id",
}
_STATES = ("checked", "disabled", "expanded", "include_hidden", "level", "pressed", "selected")
_CONDITIONS: Mapping[str, Kind] = {
    "has_text": "has-text",
    "has_not_text": "has-not-text",
    "has": "has",
    "has_not": "has-not",
    "visible": "visible",
}
_ONLY_PYTHON = re.compile(r"\(\?(?:P[<=>]|#|[aiLmsux-]+[:)])|\\[AZ]")
POSITIONS = {"first": "0", "last": "-1"}
"""Property of a locator -> the position."""
_EDGE = re.compile(r"^\s*\^|\$\s*$")


def bind(
    args: list[Any], kwargs: Mapping[str, Any], names: tuple[str, ...], known: Collection[str] = (), least: int = 1
) -> dict[str, Any]:
    """The arguments of a call by name: `names` in their order, the first `least` of them required, and `known` ones.

    Raises UnwritableError for others.
    """
    if len(args) > len(names):
        raise UnwritableError("these arguments cannot be said in a task")
    found = {**dict(zip(names, args, strict=False)), **kwargs}
    for name in found:
        if name not in names and name not in known:
            raise UnwritableError(f"the option `{name}` cannot be said in a task")
    if missing := [name for name in names[:least] if name not in found]:
        raise UnwritableError(f"it has no `{missing[0]}`")
    return {name: value for name, value in found.items() if value is not None}


def pattern(regex: Regex) -> str:
    """A regular expression as a selector has it: `/body/flags`. Raises UnwritableError for what only Python knows."""
    body = checked(regex).body.replace("/", r"\/")
    return f"/{body}/{regex.flags}"


def checked(regex: Regex) -> Regex:
    """A regular expression that means the same in a browser. Raises UnwritableError."""
    if _ONLY_PYTHON.search(regex.body):
        raise UnwritableError(f"the regular expression {regex.body!r} is written in a way that only Python knows")
    return replace(regex, body=re.sub(r"\\/", "/", regex.body))


def snake(name: str) -> str:
    """`getByRole` as `get_by_role`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def css(selector: Any) -> LocatorPart:
    """The part for a selector that is a text."""
    return LocatorPart("css", said(selector))


def selector_of(value: Any, outer: PlaceInTest | None = None) -> str:
    """The selector of a locator inside of a condition. Raises UnwritableError."""
    if not isinstance(value, PlaceInTest):
        raise UnwritableError("a condition needs a locator")
    target = target_of(
        value.parts[len(outer.parts) :] if outer and value.parts[: len(outer.parts)] == outer.parts else value.parts
    )
    if target.frame is not None:
        raise UnwritableError("a frame inside of a condition cannot be said in a task")
    return target.selector


def _text(kind: Kind, value: Any, *, exact: bool = False) -> LocatorPart:
    if isinstance(value, Regex):
        return LocatorPart(kind, pattern(value), pattern=True)
    return LocatorPart(kind, said(value), exact=exact)


def _of_text(method: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[LocatorPart, ...]:
    given = bind(args, kwargs, ("test_id",) if method == "get_by_test_id" else ("text",), ("exact", "test_id"))
    exact = method == "get_by_test_id" or bool(plain(given.get("exact", False)))
    return (_text(_BY_TEXT[method], next(iter(given.values())), exact=exact),)


def _role(_: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[LocatorPart, ...]:
    given = bind(args, kwargs, ("role",), ("name", "exact", *_STATES))
    role, exact = said(given["role"]), bool(plain(given.get("exact", False)))
    states = tuple((name.replace("_", "-"), said(given[name])) for name in _STATES if name in given)
    name = given.get("name")
    if isinstance(name, Regex):
        return (LocatorPart("role", role, pattern=True, name=pattern(name), states=states),)
    return (LocatorPart("role", role, exact=exact, name=None if name is None else said(name), states=states),)


def _conditions(given: Mapping[str, Any]) -> tuple[LocatorPart, ...]:
    found = []
    for name, value in given.items():
        kind = _CONDITIONS[name]
        if kind in ("has", "has-not"):
            found.append(LocatorPart(kind, selector_of(value)))
        else:
            found.append(LocatorPart(kind, said(value)) if kind == "visible" else _text(kind, value))
    return tuple(found)


def _locator(_: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[LocatorPart, ...]:
    given = bind(args, kwargs, ("selector",), _CONDITIONS)
    inner = given.pop("selector")
    return (*(inner.parts if isinstance(inner, PlaceInTest) else (css(inner),)), *_conditions(given))


def _filter(_: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[LocatorPart, ...]:
    return _conditions(bind(args, kwargs, (), _CONDITIONS))


def _nth(_: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[LocatorPart, ...]:
    return (LocatorPart("nth", said(bind(args, kwargs, ("index",))["index"])),)


def _frame_locator(_: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[LocatorPart, ...]:
    return css(bind(args, kwargs, ("selector",))["selector"]), LocatorPart("frame")


def _frame(_: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[LocatorPart, ...]:
    name = said(bind(args, kwargs, ("name",))["name"])
    return LocatorPart("css", f'iframe[name="{name}"]'), LocatorPart("frame")


def _joined(method: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[LocatorPart, ...]:
    kind: Kind = "and" if method == "and_" else "or"
    return (LocatorPart(kind, selector_of(bind(args, kwargs, ("locator",))["locator"])),)


MAKING: Mapping[str, Callable[[str, list[Any], dict[str, Any]], tuple[LocatorPart, ...]]] = {
    **dict.fromkeys(_BY_TEXT, _of_text),
    "get_by_role": _role,
    "locator": _locator,
    "query_selector": lambda method, args, kwargs: (*_locator(method, args, kwargs), LocatorPart("nth", "0")),
    "filter": _filter,
    "nth": _nth,
    "frame_locator": _frame_locator,
    "frame": _frame,
    "or_": _joined,
    "and_": _joined,
    **dict.fromkeys(POSITIONS, lambda method, args, kwargs: (LocatorPart("nth", POSITIONS[method]),)),
}
"""Method of a page or a locator -> the parts that it adds."""


def made(owner: PlaceInTest, method: str, args: list[Any], kwargs: dict[str, Any]) -> PlaceInTest:
    """The locator that a method gives. Raises UnwritableError."""
    return replace(owner, parts=(*owner.parts, *MAKING[method](method, args, kwargs)))
