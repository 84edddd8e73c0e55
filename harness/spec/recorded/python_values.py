"""Values in the source of a test, as texts of a task. The source is read and never executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from typing import Any

from msgspec import Struct, field

from harness.spec.recorded.locators import UnwritableError
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
