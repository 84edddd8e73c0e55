"""Values and locators in the source of a test, as a task has them. The source is read and never executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct, field

from harness.spec.recorded.locators import Kind, Locator, LocatorPart, UnwritableError
from harness.spec.references import escape_references

_FLAGS = {"I": "i", "IGNORECASE": "i", "M": "m", "MULTILINE": "m", "S": "s", "DOTALL": "s"}
_SLASH = re.compile(r"(?<!\\)/")
_ONLY_PYTHON = re.compile(r"\(\?(?:P[<=>]|#|[aiLmsux-]+[:)])|\\[AZ]")


class Names(Struct):
    """What the names of a test stand for, as far as the source says it."""

    texts: dict[str, ast.expr] = field(default_factory=dict)
    """Names of constants."""
    parameters: frozenset[str] = frozenset()
    """The names that `parametrize` gives values to."""

    def inside(self, parameters: frozenset[str]) -> Names:
        """The names of one test of the file."""
        return Names(dict(self.texts), parameters)

    def text(self, node: ast.expr) -> str:
        """The text of an expression, escaped as in a task. Raises UnwritableError."""
        match node:
            case ast.Constant(value=str() | int() | float() as value) if not isinstance(value, bool):
                return str(escape_references(str(value)))
            case ast.JoinedStr(values=values):
                return "".join(map(self._part, values))
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.text(left) + self.text(right)
            case ast.Name(id=name):
                return self._named(name)
        if (variable := _variable(node)) is not None:
            return f"${{env:{variable}}}"
        raise UnwritableError(f"the value of `{ast.unparse(node)}` is not in the source")

    def _part(self, node: ast.expr) -> str:
        if isinstance(node, ast.FormattedValue):
            if node.format_spec is not None or node.conversion != -1:
                raise UnwritableError(f"the format of `{ast.unparse(node.value)}` cannot be said in a task")
            return self.text(node.value)
        return self.text(node)

    def _named(self, name: str) -> str:
        if name in self.parameters:
            return f"${{param.{name}}}"
        if name == "base_url":
            return ""  # the address that follows is relative to it
        if name not in self.texts:
            raise UnwritableError(f"the value of `{name}` is not in the source")
        return self.text(self.texts[name])

    def regex(self, node: ast.expr) -> tuple[str, str] | None:
        """The body and flags of `re.compile(...)`; None for anything else.

        Raises UnwritableError for one that means something else in a browser.
        """
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) in ("re.compile", "compile") and node.args):
            return None
        source, *flags = (*node.args, *(keyword.value for keyword in node.keywords))
        body = self.text(source)
        if _ONLY_PYTHON.search(body):
            raise UnwritableError(f"the regular expression {body!r} is written in a way that only Python knows")
        return body, "".join(map(_flags, flags))

    def pattern(self, node: ast.expr) -> str | None:
        """The regular expression of `re.compile(...)`, as a selector has it: `/body/flags`. Raises UnwritableError."""
        if (found := self.regex(node)) is None:
            return None
        body = _SLASH.sub(r"\/", found[0])
        return f"/{body}/{found[1]}"

    def plain(self, node: ast.expr) -> Any:
        """A literal of the source, or the value of a constant. Raises UnwritableError."""
        if isinstance(node, ast.Name) and node.id in self.texts:
            return self.plain(self.texts[node.id])
        try:
            return ast.literal_eval(node)
        except ValueError as error:
            raise UnwritableError(f"`{ast.unparse(node)}` is no literal") from error


def _flags(node: ast.expr) -> str:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _flags(node.left) + _flags(node.right)
    name = ast.unparse(node).removeprefix("re.")
    if name not in _FLAGS:
        raise UnwritableError(f"the flag `{name}` of a regular expression has no counterpart")
    return _FLAGS[name]


def _variable(node: ast.expr) -> str | None:
    """The environment variable that an expression reads."""
    match node:
        case ast.Subscript(value=read, slice=ast.Constant(value=str() as name)) if ast.unparse(read) in _ENVIRONMENT:
            return name
        case ast.Call(func=read, args=[ast.Constant(value=str() as name)]) if ast.unparse(read) in _READING:
            return name
    return None


_ENVIRONMENT = ("os.environ", "environ")
_READING = ("os.getenv", "getenv", "os.environ.get", "environ.get")


def arguments(
    call: ast.Call, names: tuple[str, ...], known: Collection[str] = (), *, least: int = 1
) -> dict[str, ast.expr]:
    """The arguments of a call by name: `names` in their order, the first `least` of them required, and `known` ones.

    Raises UnwritableError for others.
    """
    if len(call.args) > len(names) or any(isinstance(each, ast.Starred) for each in call.args):
        raise UnwritableError("these arguments cannot be said in a task")
    found = dict(zip(names, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None or (keyword.arg not in names and keyword.arg not in known):
            raise UnwritableError(f"the option `{keyword.arg or '**'}` cannot be said in a task")
        found[keyword.arg] = keyword.value
    if missing := [name for name in names[:least] if name not in found]:
        raise UnwritableError(f"it has no `{missing[0]}`")
    return found


# Locators.

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
