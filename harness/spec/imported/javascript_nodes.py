"""Nodes of the parser for JavaScript, and nodes of Python that are made from them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from tree_sitter import Node

from harness.spec.imported.locating import snake
from harness.spec.imported.vocabulary import PROPERTIES, VOCABULARY


def field_of(node: Node, name: str) -> Node:
    found = node.child_by_field_name(name)
    if found is None:
        raise SyntaxError(f"line {node.start_point.row + 1}: `{node.type}` has no {name}")
    return found


def text_of(node: Node) -> str:
    return (node.text or b"").decode()


def bare(node: Node) -> Node:
    while node.type in ("await_expression", "parenthesized_expression", "as_expression", "non_null_expression"):
        node = node.named_children[0]
    return node


def function_node(name: str, given: ast.arguments, body: list[ast.stmt], marks: list[ast.expr]) -> ast.FunctionDef:
    """A function. From Python 3.12 on a node has type parameters too, which the parser knows."""
    made = ast.parse("def name(): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    made.name, made.args, made.body, made.decorator_list = name, given, body, marks
    del made.lineno  # `placed` gives it that of the source
    return made


def class_node(name: str, bases: list[ast.expr], body: list[ast.stmt]) -> ast.ClassDef:
    """A class, as `function_node` makes a function."""
    made = ast.parse("class Name: pass").body[0]
    assert isinstance(made, ast.ClassDef)
    made.name, made.bases, made.body = name, bases, body
    del made.lineno
    return made


def is_function(node: Node) -> bool:
    return node.type in ("arrow_function", "function_expression", "function")


def word(node: Node) -> str:
    return text_of(node)


def member(name: str) -> str:
    word = snake(name.lstrip("#"))
    return (
        word
        if word in VOCABULARY or word in PROPERTIES or re.match(r"to_(be|have|contain|match|equal|strict)", word)
        else name.lstrip("#")
    )


def string(node: Node) -> str:
    return unescaped(text_of(node)[1:-1])


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b"}


def unescaped(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1].strip("{}"), 16))
        return _ESCAPES.get(found[2], found[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4}|\{[0-9a-fA-F]+\})|(.))", one, text, flags=re.DOTALL)


def name_of(word: str) -> ast.Name:
    return ast.Name(word, ast.Load())


def store(word: str) -> ast.Name:
    return ast.Name(word, ast.Store())


def stored(node: ast.expr) -> Any:
    if hasattr(node, "ctx"):
        node.ctx = ast.Store()
    return node


def parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def no_arguments() -> ast.arguments:
    return ast.arguments([], [], None, [], [], None, [])


def call_of(function: ast.expr, *args: ast.expr) -> ast.Call:
    return ast.Call(function, list(args), [])


def import_from(path: str, names: list[tuple[str, str]]) -> ast.stmt:
    module = "playwright.sync_api" if path in ("@playwright/test", "playwright/test", "playwright") else path
    return ast.ImportFrom(module, [ast.alias(key, None if key == name else name) for key, name in names], 0)


def pairs_of_pattern(pattern: Node) -> Iterator[tuple[str, str]]:
    """The keys of `{ a, b: c }` with the names that they get."""
    for each in pattern.named_children:
        if each.type == "shorthand_property_identifier_pattern":
            yield text_of(each), text_of(each)
        elif each.type == "pair_pattern":
            yield text_of(field_of(each, "key")), text_of(field_of(each, "value"))
        elif each.type == "object_assignment_pattern":
            yield text_of(field_of(each, "left")), text_of(field_of(each, "left"))


def is_parameter(statement: ast.stmt) -> bool:
    """Whether a statement of a constructor only keeps a parameter: `self.page = page`."""
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"))], value=ast.Name()):
            return True
    return False


def placed(node: Any, at: Node) -> Any:
    """The node with the line of the source."""
    line = at.start_point.row + 1
    for each in ast.walk(node):
        if not hasattr(each, "lineno") and isinstance(each, ast.stmt | ast.expr | ast.ExceptHandler):
            each.lineno, each.col_offset = line, 0
    return node
