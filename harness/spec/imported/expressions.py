"""Expressions of a test's source."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from harness.spec.imported.following import Core
from harness.spec.imported.script import steps_of
from harness.spec.imported.values import (
    Choice,
    Class,
    Frame,
    Instance,
    Method,
    Module,
    Native,
    Opaque,
    PageCheck,
    PageRead,
    Quiet,
    Ref,
    SourceFunction,
    Unknown,
    joined,
    said,
)
from harness.spec.recorded.locators import UnwritableError

_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
}


_LISTS = {"push": "append"}
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "In": lambda left, right: left in right,
    "NotIn": lambda left, right: left not in right,
    "Is": operator.is_,
    "IsNot": operator.is_not,
}


class Expressions(Core):
    """Follows expressions."""

    def value(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an expression. Raises UnwritableError."""
        method = getattr(self, f"_of_{type(node).__name__.lower()}", None)
        if method is None:
            raise UnwritableError(f"a task has no `{ast.unparse(node)}`")
        return method(node, frame)

    def _of_constant(self, node: ast.Constant, frame: Frame) -> Any:
        return node.value

    def _of_name(self, node: ast.Name, frame: Frame) -> Any:
        known, value = frame.find(node.id)
        if not known:
            value = self.world.builtin(node.id)
            if value is None:
                return Unknown(f"`{node.id}` is not in the source")
        return value

    def _of_await(self, node: ast.Await, frame: Frame) -> Any:
        return self.world.awaited(self.value(node.value, frame))

    def _of_namedexpr(self, node: ast.NamedExpr, frame: Frame) -> Any:
        value = self.value(node.value, frame)
        self.bind(node.target, value, frame)
        return value

    def _of_lambda(self, node: ast.Lambda, frame: Frame) -> Any:
        return SourceFunction(node, frame.module, frame)

    def _of_joinedstr(self, node: ast.JoinedStr, frame: Frame) -> Any:
        return joined([self._part(each, frame) for each in node.values])

    def _part(self, node: ast.expr, frame: Frame) -> Any:
        if not isinstance(node, ast.FormattedValue):
            return self.value(node, frame)
        value = self.value(node.value, frame)
        if isinstance(value, PageRead):
            value = self.script.memorised(value)
        if node.format_spec is None:
            return (
                said(value) if isinstance(value, bool) else value if isinstance(value, Ref | Unknown) else _raw(value)
            )
        form = self.value(node.format_spec, frame)
        return self.world.invoke(value, "__format__", [form], {}) if not _is_plain(value) else format(value, form)

    def _of_list(self, node: ast.List | ast.Tuple | ast.Set, frame: Frame) -> Any:
        found: list[Any] = []
        for each in node.elts:
            if isinstance(each, ast.Starred):
                found += self.items(self.value(each.value, frame))
            else:
                found.append(self.value(each, frame))
        return found

    _of_set = _of_list

    def _of_tuple(self, node: ast.Tuple, frame: Frame) -> Any:
        return tuple(self._of_list(node, frame))

    def _of_dict(self, node: ast.Dict, frame: Frame) -> Any:
        found: dict[Any, Any] = {}
        for key, each in zip(node.keys, node.values, strict=True):
            value = self.value(each, frame)
            if key is None:
                found.update(value)
            else:
                found[self.value(key, frame)] = value
        return found

    def _of_ifexp(self, node: ast.IfExp, frame: Frame) -> Any:
        test = self.value(node.test, frame)
        if isinstance(test, PageRead):
            test = self.world.compared("truth", test, None)
        if isinstance(test, PageCheck):
            return Choice(test, self.value(node.body, frame), self.value(node.orelse, frame))
        return self.value(node.body if self.truth(test) else node.orelse, frame)

    def _of_boolop(self, node: ast.BoolOp, frame: Frame) -> Any:
        """`and`, `or`: a value if the source decides it, else a condition of several."""
        all_of = isinstance(node.op, ast.And)
        found: list[Any] = []
        value: Any = all_of
        for each in node.values:
            value = self.value(each, frame)
            if isinstance(value, PageRead) and not all_of and isinstance(node.values[-1], ast.Constant):
                return value  # `text or ""`
            if isinstance(value, PageRead):
                value = self.world.compared("truth", value, None)
            if isinstance(value, PageCheck):
                found.append(value)
            elif (isinstance(value, Ref) and not all_of) or bool(self.truth(value)) != all_of:
                return value
        if not found:
            return value
        if len(found) == 1:
            return found[0]
        text = f"{'ALL' if all_of else 'ANY'}[{', '.join(each.text for each in found)}]"
        return self.script.checking(text, found[0].page, found[0].api)

    def _of_unaryop(self, node: ast.UnaryOp, frame: Frame) -> Any:
        value = self.value(node.operand, frame)
        if not isinstance(node.op, ast.Not):
            return -value if isinstance(node.op, ast.USub) else +value
        if isinstance(value, PageRead):
            return self.world.compared("false", value, None)
        if isinstance(value, PageCheck):
            return PageCheck(f"NOT[{value.text}]", value.line, value.page, value.api)
        return not self.truth(value)

    def _of_compare(self, node: ast.Compare, frame: Frame) -> Any:
        left, checks = self.value(node.left, frame), list[PageCheck]()
        for sign, other in zip(node.ops, node.comparators, strict=True):
            right = self.value(other, frame)
            found = self.compare(type(sign).__name__, left, right)
            if isinstance(found, PageCheck):
                checks.append(found)
            elif not self.truth(found):
                return False
            left = right
        if not checks:
            return True
        if len(checks) == 1:
            return checks[0]
        return self.script.checking(f"ALL[{', '.join(each.text for each in checks)}]", checks[0].page)

    def compare(self, sign: str, left: Any, right: Any) -> Any:
        """A comparison by the name of its node, such as `NotEq`."""
        plain = _COMPARISONS[sign]
        if isinstance(left, Choice) or isinstance(right, Choice):
            turned = {"Lt": "Gt", "LtE": "GtE", "Gt": "Lt", "GtE": "LtE"}
            return (
                self._chosen(sign, left, right)
                if isinstance(left, Choice)
                else self._chosen(turned.get(sign, sign), right, left)
            )
        if right is None and isinstance(left, Ref):
            return sign in ("IsNot", "NotEq")
        symbolic = any(
            isinstance(each, PageRead | PageCheck | Ref | Unknown | Opaque | Method | Quiet) for each in (left, right)
        )
        if sign in ("Is", "IsNot") and not isinstance(left, Unknown | Ref | PageRead | PageCheck):
            return plain(left, right) if right is None or isinstance(right, bool) else plain(left == right, True)
        return self.world.compared(sign, left, right) if symbolic else plain(left, right)

    def _of_binop(self, node: ast.BinOp, frame: Frame) -> Any:
        left, right = self.value(node.left, frame), self.value(node.right, frame)
        if unknown := next((each for each in (left, right) if isinstance(each, Unknown)), None):
            return unknown
        if _is_plain(left) and _is_plain(right):
            return left + right if isinstance(node.op, ast.Add) else _OPERATORS[type(node.op)](left, right)
        if isinstance(node.op, ast.Add) and isinstance(left, list | tuple) and isinstance(right, list | tuple):
            return [*left, *right]
        if isinstance(node.op, ast.Add) and all(isinstance(each, str | Ref) for each in (left, right)):
            return joined([left, right])
        return self.world.arithmetic(type(node.op).__name__, left, right)

    def _of_subscript(self, node: ast.Subscript, frame: Frame) -> Any:
        owner = self.value(node.value, frame)
        if isinstance(node.slice, ast.Slice):
            ends = (each and self.value(each, frame) for each in (node.slice.lower, node.slice.upper, node.slice.step))
            key: Any = slice(*ends)
        else:
            key = self.value(node.slice, frame)
        if isinstance(owner, Class):
            return Instance(owner, {"name": key, "value": owner.find(key)})
        if isinstance(owner, Unknown):
            return owner
        if isinstance(key, Unknown):
            return key
        return owner[key] if isinstance(owner, str | list | tuple | dict) else self.world.item(owner, key)

    def _of_listcomp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, frame: Frame) -> list[Any]:
        found: list[Any] = []
        self._comprehend(node.generators, frame, lambda inner: found.append(self.value(node.elt, inner)))
        return found

    _of_generatorexp = _of_setcomp = _of_listcomp

    def _of_dictcomp(self, node: ast.DictComp, frame: Frame) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        self._comprehend(
            node.generators,
            frame,
            lambda inner: found.update({self.value(node.key, inner): self.value(node.value, inner)}),
        )
        return found

    def _comprehend(self, rounds: list[ast.comprehension], frame: Frame, found: Callable[[Frame], None]) -> None:
        if not rounds:
            found(frame)
            return
        first, *rest = rounds
        for each in self.items(self.value(first.iter, frame)):
            inner = Frame(frame.module, {}, frame, frame.function)
            self.bind(first.target, each, inner)
            if all(self.truth(self.value(test, inner)) for test in first.ifs):
                self._comprehend(rest, inner, found)

    def _of_attribute(self, node: ast.Attribute, frame: Frame) -> Any:
        owner = self.value(node.value, frame)
        if isinstance(owner, dict) and frame.module.file.suffix != ".py":
            return owner.get(node.attr)
        return self.attribute(owner, node.attr)

    def attribute(self, owner: Any, name: str) -> Any:
        """An attribute of any value."""
        if isinstance(owner, Instance):
            return self._of_instance(owner, name)
        if isinstance(owner, Class):
            return self._of_class(owner, name)
        if isinstance(owner, Module):
            return owner.names.get(name, Unknown(f"`{owner.file.name}` has no `{name}`"))
        if isinstance(owner, str):
            return self.world.text_method(owner, name)
        if _is_plain(owner) or isinstance(owner, list | tuple | dict):
            return Native(getattr(owner, _LISTS.get(name, name)))
        return owner if isinstance(owner, Unknown) else self.world.attribute(owner, name)

    def _of_class(self, owner: Class, name: str) -> Any:
        found = owner.find(name)
        if name in ("model_validate", "parse_obj") and found is None:
            return Native(lambda value: value)  # data with a type are the data
        if owner.derives_from("Enum", "StrEnum") and not isinstance(found, SourceFunction | None):
            automatic = isinstance(found, Opaque) and found.kind == "auto"
            return Instance(owner, {"name": name, "value": name.lower() if automatic else found})
        if isinstance(found, SourceFunction) and "classmethod" in _marks_of(found):
            return found.bound(owner)
        return found if found is not None else Unknown(f"`{owner.name}` has no `{name}`")

    def _of_instance(self, owner: Instance, name: str) -> Any:
        if name in owner.names:
            return owner.names[name]
        if name == "__class__":
            return owner.kind
        found = owner.kind.find(name)
        if not isinstance(found, SourceFunction):
            if found is None:
                return Unknown(f"`{owner.kind.name}` has no `{name}`")
            return found
        marks = _marks_of(found)
        if marks & {"property", "cached_property"}:
            return self.call(found.bound(owner), [], {})
        if "staticmethod" in marks:
            return found
        return found.bound(owner.kind if "classmethod" in marks else owner)

    def _choice(self, check: PageCheck, statement: ast.If, frame: Frame) -> Choice | None:
        """`if a: return b` and `return c`, without an act in between."""
        match statement:
            case ast.If(body=[ast.Return(value=ast.expr() as then)], orelse=[ast.Return(value=ast.expr() as other)]):
                before = len(self.script.lines)
                found = Choice(check, self.value(then, frame), self.value(other, frame))
                return None if steps_of(self.script.lines[before:]) else found
        return None

    def _chosen(self, sign: str, choice: Choice, other: Any) -> Any:
        """A comparison of a value that depends on what the page shows."""
        then, rest = self.compare(sign, choice.then, other), self.compare(sign, choice.other, other)
        if not isinstance(then, PageCheck) and not isinstance(rest, PageCheck) and bool(then) == bool(rest):
            return bool(then)
        no = f"NOT[{choice.check.text}]"
        cases = [
            f"ALL[{when}, {each.text}]" if isinstance(each, PageCheck) else when
            for when, each in ((choice.check.text, then), (no, rest))
            if isinstance(each, PageCheck) or each
        ]
        text = cases[0] if len(cases) == 1 else f"ANY[{', '.join(cases)}]"
        return self.script.checking(text, choice.check.page)


def _marks_of(function: SourceFunction) -> set[str]:
    return {ast.unparse(each).rpartition(".")[2] for each in getattr(function.node, "decorator_list", ())}


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool | None) or value is None


def _raw(value: Any) -> Any:
    """A value as f-strings have it."""
    if isinstance(value, list | dict | tuple):
        return str(value)
    try:
        return str(value) if _is_plain(value) else Ref(said(value))
    except UnwritableError as error:
        return Unknown(str(error))
