"""Expressions and functions of JavaScript as those of Python."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tree_sitter import Node

from harness.spec.imported.javascript_nodes import (
    bare,
    call_of,
    field_of,
    function_node,
    is_function,
    member,
    name_of,
    pairs_of_pattern,
    placed,
    store,
    string,
    text_of,
    unescaped,
    word,
)
from harness.spec.imported.locating import snake
from harness.spec.imported.vocabulary import PROPERTIES, VOCABULARY

OPERATORS: Mapping[str, type[ast.operator]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "%": ast.Mod, "**": ast.Pow,
    "|": ast.BitOr, "&": ast.BitAnd,
}  # fmt: skip
_COMPARISONS: Mapping[str, type[ast.cmpop]] = {
    "==": ast.Eq, "===": ast.Eq, "!=": ast.NotEq, "!==": ast.NotEq, "<": ast.Lt, "<=": ast.LtE,
    ">": ast.Gt, ">=": ast.GtE,
    "in": ast.In,
}  # fmt: skip
_LISTS = ("includes", "map", "filter")
_DATA = ("fulfill", "evaluate")


class JavaScriptValues:
    """Translates expressions."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.hoisted: list[ast.stmt] = []
        self.count = 0

    # Statements.
    def block(self, node: Node) -> list[ast.stmt]:
        """The statements of a block."""
        raise NotImplementedError

    # Functions and classes.

    def function(
        self, node: Node, name: str, *, receiver: str = "", marks: list[ast.expr] | None = None
    ) -> ast.FunctionDef:
        arguments, before = self.parameters(node)
        if receiver:
            arguments.args.insert(0, ast.arg(receiver))
        body_node = field_of(node, "body")
        if body_node.type == "statement_block":
            body = self.block(body_node)
        else:
            outer, self.hoisted = self.hoisted, []
            value = self.value(body_node)
            body, self.hoisted = [*self.hoisted, placed(ast.Return(value), body_node)], outer
        made = function_node(name, arguments, [*before, *body] or [ast.Pass()], marks or [])
        placed(made, node)
        return made

    def parameters(self, node: Node) -> tuple[ast.arguments, list[ast.stmt]]:
        """The parameters of a function, and what unpacks those that are patterns."""
        single = node.child_by_field_name("parameter")
        listed = node.child_by_field_name("parameters")
        names: list[ast.arg] = []
        defaults: list[ast.expr] = []
        before: list[ast.stmt] = []
        rest: ast.arg | None = None
        for number, each in enumerate(
            [single] if single is not None else listed.named_children if listed is not None else []
        ):
            if each.type == "comment":
                continue
            pattern, value = each.child_by_field_name("pattern"), each.child_by_field_name("value")
            inner = pattern or each
            if inner.type == "this":
                continue
            if inner.type == "rest_pattern":
                rest = ast.arg(word(inner.named_children[0]))
                continue
            name = word(inner) if inner.type == "identifier" else f"_given_{number}"
            names.append(ast.arg(name))
            if each.type == "optional_parameter" or value is not None or defaults:
                defaults.append(self.value(value) if value is not None else ast.Constant(None))
            if inner.type == "object_pattern":
                before += self.unpacked(inner, name_of(name))
            if any(child.type in ("accessibility_modifier", "readonly") for child in each.children):
                before.append(ast.Assign([ast.Attribute(name_of("self"), name, ast.Store())], name_of(name)))
        return ast.arguments([], names, rest, [], [], None, defaults), before

    def value(self, node: Node) -> ast.expr:
        """An expression."""
        method: Callable[[Node], ast.expr] | None = getattr(self, f"_e_{node.type}", None)
        unsaid = call_of(name_of("__unsaid__"), ast.Constant(text_of(node)[:60]))
        found = unsaid if method is None else method(node)
        placed(found, node)
        return found

    def _inner(self, node: Node) -> ast.expr:
        return self.value(node.named_children[0])

    _e_parenthesized_expression = _e_as_expression = _e_non_null_expression = _e_satisfies_expression = _inner

    def _e_await_expression(self, node: Node) -> ast.expr:
        return ast.Await(self._inner(node))

    def _e_identifier(self, node: Node) -> ast.expr:
        return ast.Constant(None) if text_of(node) == "undefined" else name_of(word(node))

    _e_type_identifier = _e_identifier

    def _e_this(self, node: Node) -> ast.expr:
        return name_of("self")

    def _e_super(self, node: Node) -> ast.expr:
        return call_of(name_of("super"))

    def _e_string(self, node: Node) -> ast.expr:
        return ast.Constant(string(node))

    def _e_template_string(self, node: Node) -> ast.expr:
        parts: list[ast.expr] = []
        for each in node.named_children:
            if each.type == "template_substitution":
                parts.append(ast.FormattedValue(self._inner(each), -1))
            else:
                parts.append(ast.Constant(unescaped(text_of(each))))
        return (
            ast.JoinedStr(parts)
            if any(isinstance(each, ast.FormattedValue) for each in parts)
            else ast.Constant("".join(str(each.value) for each in parts if isinstance(each, ast.Constant)))
        )

    def _e_number(self, node: Node) -> ast.expr:
        return ast.Constant(ast.literal_eval(text_of(node).replace("_", "").lstrip("0") or "0"))

    def _e_true(self, node: Node) -> ast.expr:
        return ast.Constant(True)

    def _e_false(self, node: Node) -> ast.expr:
        return ast.Constant(False)

    def _e_null(self, node: Node) -> ast.expr:
        return ast.Constant(None)

    _e_undefined = _e_null

    def _e_regex(self, node: Node) -> ast.expr:
        flags = node.child_by_field_name("flags")
        kept = "".join(each for each in (text_of(flags) if flags is not None else "") if each in "ims")
        return call_of(name_of("__regex__"), ast.Constant(text_of(field_of(node, "pattern"))), ast.Constant(kept))

    def _e_array(self, node: Node) -> ast.expr:
        return ast.List([self.value(each) for each in node.named_children if each.type != "comment"], ast.Load())

    def _e_spread_element(self, node: Node) -> ast.expr:
        return ast.Starred(self._inner(node), ast.Load())

    def _e_object(self, node: Node) -> ast.expr:
        keys: list[ast.expr | None] = []
        values: list[ast.expr] = []
        for key, value in self._pairs(node):
            keys.append(key if not isinstance(key, str) else ast.Constant(key))
            values.append(value)
        return ast.Dict(keys, values)

    def _pairs(self, node: Node) -> Iterator[tuple[str | ast.expr | None, ast.expr]]:
        for each in node.named_children:
            if each.type == "pair":
                key = field_of(each, "key")
                computed = self._inner(key) if key.type == "computed_property_name" else None
                yield (
                    computed or (string(key) if key.type == "string" else text_of(key)),
                    self.value(field_of(each, "value")),
                )
            elif each.type == "shorthand_property_identifier":
                yield text_of(each), name_of(word(each))
            elif each.type == "spread_element":
                yield None, self._inner(each)
            elif each.type == "method_definition":
                name = text_of(field_of(each, "name"))
                self.hoisted.append(self.function(each, name))
                yield name, name_of(name)

    def _e_arrow_function(self, node: Node) -> ast.expr:
        body = field_of(node, "body")
        arguments, before = self.parameters(node)
        if body.type != "statement_block" and not before:
            return ast.Lambda(arguments, self.value(body))
        self.count += 1
        name = f"_function_{self.count}"
        self.hoisted.append(self.function(node, name))
        return name_of(name)

    _e_function_expression = _e_arrow_function

    def _e_member_expression(self, node: Node) -> ast.expr:
        owner, name = field_of(node, "object"), text_of(field_of(node, "property"))
        if text_of(owner) == "process.env":
            return call_of(ast.parse("os.getenv", mode="eval").body, ast.Constant(name))
        if name == "length":
            return call_of(name_of("len"), self.value(owner))
        if name == "not":
            return self.value(owner)
        label = member(name)
        if bare(owner).type == "member_expression" and text_of(field_of(bare(owner), "property")) == "not":
            label = f"not_{label}"
        return ast.Attribute(self.value(owner), label, ast.Load())

    def _e_subscript_expression(self, node: Node) -> ast.expr:
        return ast.Subscript(self.value(field_of(node, "object")), self.value(field_of(node, "index")), ast.Load())

    def _e_call_expression(self, node: Node) -> ast.expr:
        callee, given = field_of(node, "function"), field_of(node, "arguments")
        nodes = [each for each in given.named_children if each.type != "comment"]
        if callee.type == "super":
            return ast.Call(
                ast.Attribute(call_of(name_of("super")), "__init__", ast.Load()),
                [self.value(each) for each in nodes],
                [],
            )
        if callee.type == "member_expression":
            name = member(text_of(field_of(callee, "property")))
            if not nodes and name in PROPERTIES:
                return self.value(callee)
            if name in _LISTS and nodes and (found := self._of_list(name, callee, nodes)) is not None:
                return found
            if name in VOCABULARY or name.startswith("to_") or name in ("soft", "poll"):
                return self._playwright(callee, nodes)
        function = self.value(callee)
        return ast.Call(function, [self.value(each) for each in nodes], [])

    def _playwright(self, callee: Node, nodes: list[Node]) -> ast.expr:
        """A call whose last object has the options."""
        options: list[ast.keyword] = []
        name = member(text_of(field_of(callee, "property")))
        if nodes and nodes[-1].type == "object" and name not in _DATA:
            pairs = list(self._pairs(nodes[-1]))
            if all(isinstance(key, str) for key, _ in pairs):
                options = [ast.keyword(snake(str(key)), value) for key, value in pairs]
                nodes = nodes[:-1]
        return ast.Call(self.value(callee), [self.value(each) for each in nodes], options)

    def _of_list(self, name: str, callee: Node, nodes: list[Node]) -> ast.expr | None:
        owner = self.value(field_of(callee, "object"))
        if name == "includes":
            return ast.Compare(self.value(nodes[0]), [ast.In()], [owner])
        return call_of(name_of(name), self.value(nodes[0]), owner) if is_function(nodes[0]) else None

    def _e_new_expression(self, node: Node) -> ast.expr:
        given = node.child_by_field_name("arguments")
        made = self.value(field_of(node, "constructor"))
        return ast.Call(made, [self.value(each) for each in given.named_children] if given is not None else [], [])

    def _e_binary_expression(self, node: Node) -> ast.expr:
        left, right, sign = field_of(node, "left"), field_of(node, "right"), text_of(field_of(node, "operator"))
        if sign in ("&&", "||", "??"):
            if sign != "&&" and text_of(left).startswith("process.env."):
                name = ast.Constant(text_of(left).rpartition(".")[2].rstrip("!"))
                return call_of(ast.parse("os.getenv", mode="eval").body, name, self.value(right))
            return ast.BoolOp(ast.And() if sign == "&&" else ast.Or(), [self.value(left), self.value(right)])
        if sign in _COMPARISONS:
            return ast.Compare(self.value(left), [_COMPARISONS[sign]()], [self.value(right)])
        if sign in OPERATORS:
            return ast.BinOp(self.value(left), OPERATORS[sign](), self.value(right))
        return call_of(name_of("__unsaid__"), ast.Constant(sign))

    def _e_unary_expression(self, node: Node) -> ast.expr:
        sign = text_of(field_of(node, "operator"))
        signs: Mapping[str, Callable[[], ast.unaryop]] = {"!": ast.Not, "-": ast.USub, "+": ast.UAdd}
        value = self.value(field_of(node, "argument"))
        return (
            ast.UnaryOp(signs[sign](), value) if sign in signs else call_of(name_of("__unsaid__"), ast.Constant(sign))
        )

    def _e_ternary_expression(self, node: Node) -> ast.expr:
        test, then, other = (self.value(field_of(node, name)) for name in ("condition", "consequence", "alternative"))
        return ast.IfExp(test, then, other)

    def unpacked(self, pattern: Node, value: ast.expr) -> list[ast.stmt]:
        self.count += 1
        whole = f"_whole_{self.count}"
        found: list[ast.stmt] = [ast.Assign([store(whole)], value)]
        for key, name in pairs_of_pattern(pattern):
            found.append(ast.Assign([store(name)], call_of(name_of("__member__"), name_of(whole), ast.Constant(key))))
        return found
