"""Locators in the source of a test."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from msgspec import Struct, field

from harness.spec.recorded.locators import Kind, Locator, LocatorPart, UnwritableError
from harness.spec.recorded.python_values import Names, arguments

_BY_TEXT: Mapping[str, Kind] = {
    "get_by_text": "text",
    "get_by_label": "label",
    "get_by_placeholder": "placeholder",
    "get_by_alt_text": "alt",
    "get_by_title": "title",
    "get_by_test_id": "test-id",
}
_STATES = ("checked", "disabled", "expanded", "include_hidden", "level", "pressed", "selected")
_POSITIONS = {"first": "0", "last": "-1"}


class PlaceInTest(Struct, frozen=True):
    """A page of a test, or elements in it."""

    page: int
    """The page, in the order of opening."""
    locator: Locator = ()


class Places(Struct):
    """What the names of a test stand for: pages and locators."""

    names: Names
    known: dict[str, PlaceInTest] = field(default_factory=dict)

    def of(self, node: ast.expr) -> PlaceInTest | None:
        """The page or the locator of an expression; None if it is neither. Raises UnwritableError."""
        match node:
            case ast.Await(value=inner):
                return self.of(inner)
            case ast.Name(id=name):
                return self.known.get(name)
            case ast.Attribute(value=inner, attr=attribute):
                return self._attribute(inner, attribute)
            case ast.Call(func=ast.Attribute(value=inner, attr=method)) if (base := self.of(inner)) is not None:
                parts = self._parts(method, node)
                return None if parts is None else PlaceInTest(base.page, (*base.locator, *parts))
        return None

    def _attribute(self, inner: ast.expr, attribute: str) -> PlaceInTest | None:
        base = self.of(inner)
        if base is None or attribute not in (*_POSITIONS, "content_frame"):
            return None
        frame = attribute == "content_frame"
        part = LocatorPart("frame") if frame else LocatorPart("nth", _POSITIONS[attribute])
        return PlaceInTest(base.page, (*base.locator, part))

    def _parts(self, method: str, call: ast.Call) -> tuple[LocatorPart, ...] | None:
        """The parts that a method adds to a locator; None for another method."""
        if method in _BY_TEXT:
            given = arguments(call, ("text",), ("exact",))
            exact = method == "get_by_test_id" or self._flag(given.get("exact"))
            return (self._text(_BY_TEXT[method], given["text"], exact=exact),)
        making = {"get_by_role": self._role, "locator": self._locator, "filter": self._filter, "nth": self._nth}
        if method in making:
            return making[method](call)
        if method == "frame_locator":
            given = arguments(call, ("selector",))
            return LocatorPart("css", self._selector(given["selector"])), LocatorPart("frame")
        return None

    def _locator(self, call: ast.Call) -> tuple[LocatorPart, ...]:
        given = arguments(call, ("selector",), ("has_text", "has_not_text"))
        return (LocatorPart("css", self._selector(given.pop("selector"))), *self._conditions(given))

    def _filter(self, call: ast.Call) -> tuple[LocatorPart, ...]:
        return self._conditions(arguments(call, (), ("has_text", "has_not_text", "visible")))

    def _nth(self, call: ast.Call) -> tuple[LocatorPart, ...]:
        return (LocatorPart("nth", self.names.text(arguments(call, ("index",))["index"])),)

    def _selector(self, node: ast.expr) -> str:
        if self.of(node) is not None:
            raise UnwritableError("a locator inside of a locator cannot be said in a task")
        return self.names.text(node)

    def _conditions(self, given: Mapping[str, ast.expr]) -> tuple[LocatorPart, ...]:
        found = []
        for name, node in given.items():
            if name == "visible":
                found.append(LocatorPart("visible", "true" if self._flag(node) else "false"))
            else:
                found.append(self._text("has-text" if name == "has_text" else "has-not-text", node))
        return tuple(found)

    def _text(self, kind: Kind, node: ast.expr, *, exact: bool = False) -> LocatorPart:
        if (pattern := self.names.pattern(node)) is not None:
            return LocatorPart(kind, pattern, pattern=True)
        return LocatorPart(kind, self.names.text(node), exact=exact)

    def _role(self, call: ast.Call) -> tuple[LocatorPart, ...]:
        given = arguments(call, ("role",), ("name", "exact", *_STATES))
        role, exact = self.names.text(given["role"]), self._flag(given.get("exact"))
        states = tuple(
            (name.replace("_", "-"), str(self.names.plain(given[name])).lower()) for name in _STATES if name in given
        )
        if "name" not in given:
            return (LocatorPart("role", role, states=states),)
        pattern = self.names.pattern(given["name"])
        name = pattern or self.names.text(given["name"])
        return (LocatorPart("role", role, exact=exact, pattern=pattern is not None, name=name, states=states),)

    def _flag(self, node: ast.expr | None) -> bool:
        return node is not None and bool(self.names.plain(node))
