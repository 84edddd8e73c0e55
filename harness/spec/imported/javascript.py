"""Playwright Test in TypeScript and JavaScript as the same tree that tests in Python have.

The parser is tree-sitter. `test(...)` becomes a function, a hook the beginning of its tests, a fixture of `test.extend`
a fixture of pytest, and `getByRole` the word that Playwright has in Python.
"""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import tree_sitter_typescript
from tree_sitter import Language, Node, Parser

from harness.spec.imported.javascript_nodes import (
    bare,
    call_of,
    class_node,
    field_of,
    function_node,
    import_from,
    is_function,
    is_parameter,
    member,
    name_of,
    no_arguments,
    pairs_of_pattern,
    parsed,
    placed,
    store,
    stored,
    string,
    text_of,
    word,
)
from harness.spec.imported.javascript_values import OPERATORS, JavaScriptValues

_HOOKS = ("beforeEach", "beforeAll", "afterEach", "afterAll")
_WORDS = {"request": "api_request", "baseURL": "base_url", "browserName": "browser_name", "this": "self"}


@cache
def _parser(tsx: bool) -> Parser:
    language = tree_sitter_typescript.language_tsx() if tsx else tree_sitter_typescript.language_typescript()
    return Parser(Language(language))


def python_of(source: str, file: Path) -> ast.Module:
    """The tree of a file. Raises SyntaxError for one that cannot be parsed."""
    data = source.encode()
    root = _parser(file.suffix not in (".ts", ".mts", ".cts")).parse(data).root_node
    if root.has_error and not root.named_children:
        raise SyntaxError(f"{file}: this is neither TypeScript nor JavaScript")
    translation = _Translation(file)
    body = [*ast.parse("import json\nimport os\nimport re\nimport pytest").body, *translation.block(root)]
    body += translation.tests
    return ast.fix_missing_locations(ast.Module(body, []))


class _Describe:
    """What a `describe` and those around it give to each of its tests."""

    def __init__(self, around: _Describe | None = None, marks: list[ast.expr] | None = None) -> None:
        self.before: list[ast.stmt] = [*around.before] if around else []
        self.after: list[ast.stmt] = [*around.after] if around else []
        self.parameters: list[str] = [*around.parameters] if around else []
        self.marks: list[ast.expr] = [*(around.marks if around else ()), *(marks or ())]


class _Translation(JavaScriptValues):
    """Translates one file."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.tests: list[ast.stmt] = []
        self._describe = _Describe()

    def block(self, node: Node) -> list[ast.stmt]:
        """The statements of a block."""
        found: list[ast.stmt] = []
        for child in node.named_children:
            found += self.statement(child)
        return found

    def statement(self, node: Node) -> list[ast.stmt]:
        """A statement, after the functions that it needs."""
        method = getattr(self, f"_s_{node.type}", None)
        outer, self.hoisted = self.hoisted, []
        try:
            if method is not None:
                found = method(node)
            elif node.type.endswith(("_declaration", "comment", "_signature")) and node.type != "comment":
                found = []
            else:
                found = [] if node.type in ("comment", "hash_bang_line", "empty_statement") else [self._unsaid(node)]
            hoisted = self.hoisted
        finally:
            self.hoisted = outer
        return [placed(each, node) for each in (*hoisted, *found)]

    def _unsaid(self, node: Node) -> ast.stmt:
        """Something that has no counterpart: it is told of when it is reached."""
        return ast.Expr(call_of(name_of("__unsaid__"), ast.Constant(node.type.replace("_", " "))))

    def _s_statement_block(self, node: Node) -> list[ast.stmt]:
        return self.block(node)

    def _s_expression_statement(self, node: Node) -> list[ast.stmt]:
        inner = bare(node.named_children[0])
        if inner.type == "call_expression" and (found := self._of_test(inner)) is not None:
            return found
        if inner.type in ("assignment_expression", "augmented_assignment_expression"):
            return self._assignment(inner)
        if inner.type == "update_expression":
            return [self._update(inner)]
        return [ast.Expr(self.value(node.named_children[0]))]

    def _update(self, node: Node) -> ast.stmt:
        target = self.value(field_of(node, "argument"))
        sign = ast.Add() if b"++" in (node.text or b"") else ast.Sub()
        return ast.AugAssign(stored(target), sign, ast.Constant(1))

    def _assignment(self, node: Node) -> list[ast.stmt]:
        left, right = field_of(node, "left"), field_of(node, "right")
        name = text_of(left)
        if name == "module.exports":
            return [ast.Assign([store("default")], self.value(right))] if right.type != "object" else []
        if name.startswith(("exports.", "module.exports.")):
            return [ast.Assign([store(name.rpartition(".")[2])], self.value(right))]
        target = self._target(left)
        if node.type == "augmented_assignment_expression":
            sign = text_of(field_of(node, "operator")).rstrip("=")
            return [ast.AugAssign(target, OPERATORS.get(sign, ast.Add)(), self.value(right))]
        return [ast.Assign([target], self.value(right))]

    def _target(self, node: Node) -> Any:
        if node.type in ("array_pattern", "array"):
            return ast.Tuple([self._target(each) for each in node.named_children], ast.Store())
        return stored(self.value(node))

    def _s_lexical_declaration(self, node: Node) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for each in node.named_children:
            if each.type == "variable_declarator":
                found += self._declared(each)
        return found

    _s_variable_declaration = _s_lexical_declaration

    def _declared(self, node: Node) -> list[ast.stmt]:
        name, value = field_of(node, "name"), node.child_by_field_name("value")
        if value is None:
            return [ast.Assign([store(word(name))], ast.Constant(None))] if name.type == "identifier" else []
        inner = bare(value)
        if (fixtures := self._fixtures(inner)) is not None:
            return fixtures
        if (imported := self._required(name, inner)) is not None:
            return imported
        if inner.type in ("arrow_function", "function_expression", "function") and name.type == "identifier":
            return [self.function(inner, word(name))]
        if name.type == "object_pattern":
            return self.unpacked(name, self.value(value))
        if name.type == "array_pattern":
            return [
                ast.Assign(
                    [ast.Tuple([store(word(each)) for each in name.named_children], ast.Store())], self.value(value)
                )
            ]
        return [ast.Assign([store(word(name))], self.value(value))]

    def _required(self, name: Node, value: Node) -> list[ast.stmt] | None:
        """`const { A } = require("./a")`."""
        if value.type != "call_expression" or text_of(field_of(value, "function")) != "require":
            return None
        path = string(field_of(value, "arguments").named_children[0])
        if path.endswith(".json"):
            return [self._json(word(name), path)]
        if name.type == "object_pattern":
            return [import_from(path, [(key, word) for key, word in pairs_of_pattern(name)])]
        return [import_from(path, [("default", word(name))])]

    def _json(self, name: str, path: str) -> ast.stmt:
        file = (self.file.parent / path).resolve()
        return ast.Assign([store(name)], ast.parse(f"json.load(open({json.dumps(str(file))}))", mode="eval").body)

    def _s_import_statement(self, node: Node) -> list[ast.stmt]:
        path = string(field_of(node, "source"))
        clause = next((each for each in node.named_children if each.type == "import_clause"), None)
        names: list[tuple[str, str]] = []
        for each in clause.named_children if clause is not None else ():
            if each.type == "identifier":
                if path.endswith(".json"):
                    return [self._json(text_of(each), path)]
                names.append(("default", text_of(each)))
            elif each.type == "named_imports":
                for one in each.named_children:
                    if one.type == "import_specifier":
                        key = text_of(field_of(one, "name"))
                        alias = one.child_by_field_name("alias")
                        names.append((key, text_of(alias) if alias is not None else key))
            elif each.type == "namespace_import":
                return [import_from(path, [("*", "*")])]
        return [import_from(path, names)] if names else []

    def _s_export_statement(self, node: Node) -> list[ast.stmt]:
        declaration = node.child_by_field_name("declaration")
        if declaration is not None:
            found = self.statement(declaration)
            named = declaration.child_by_field_name("name")
            if any(each.type == "default" for each in node.children) and named is not None:
                found.append(ast.Assign([store("default")], name_of(text_of(named))))
            return found
        if (value := node.child_by_field_name("value")) is not None:
            return [ast.Assign([store("default")], self.value(value))]
        source = node.child_by_field_name("source")
        clause = next((each for each in node.named_children if each.type == "export_clause"), None)
        if source is not None and clause is not None:
            return [
                import_from(
                    string(source),
                    [(name, name) for each in clause.named_children if (name := text_of(field_of(each, "name")))],
                )
            ]
        return [import_from(string(source), [("*", "*")])] if source is not None else []

    def _s_function_declaration(self, node: Node) -> list[ast.stmt]:
        return [self.function(node, text_of(field_of(node, "name")))]

    def _s_return_statement(self, node: Node) -> list[ast.stmt]:
        inner = [each for each in node.named_children if each.type != "comment"]
        return [ast.Return(self.value(inner[0]) if inner else None)]

    def _s_throw_statement(self, node: Node) -> list[ast.stmt]:
        return [ast.Raise()]

    def _s_break_statement(self, node: Node) -> list[ast.stmt]:
        return [ast.Break()]

    def _s_continue_statement(self, node: Node) -> list[ast.stmt]:
        return [ast.Continue()]

    def _s_if_statement(self, node: Node) -> list[ast.stmt]:
        other = node.child_by_field_name("alternative")
        orelse = self.statement(other.named_children[0]) if other is not None else []
        body = self.statement(field_of(node, "consequence")) or [ast.Pass()]
        return [ast.If(self.value(field_of(node, "condition")), body, orelse)]

    def _s_while_statement(self, node: Node) -> list[ast.stmt]:
        return [
            ast.While(
                self.value(field_of(node, "condition")), self.statement(field_of(node, "body")) or [ast.Pass()], []
            )
        ]

    def _s_for_in_statement(self, node: Node) -> list[ast.stmt]:
        left, right = field_of(node, "left"), field_of(node, "right")
        before, self.tests = self.tests, []
        body = self.statement(field_of(node, "body"))
        made, self.tests = self.tests, before
        if made and left.type == "identifier":
            mark = call_of(
                ast.parse("pytest.mark.parametrize", mode="eval").body, ast.Constant(text_of(left)), self.value(right)
            )
            for test in made:
                if isinstance(test, ast.FunctionDef):
                    test.decorator_list.append(mark)
                    test.args.args.append(ast.arg(text_of(left)))
            self.tests += made
            return []
        target = self._pattern(left)
        return [ast.For(target, self.value(right), body or [ast.Pass()], [])]

    def _pattern(self, node: Node) -> ast.expr:
        if node.type == "array_pattern":
            return ast.Tuple([store(word(each)) for each in node.named_children], ast.Store())
        return store(word(node))

    def _s_for_statement(self, node: Node) -> list[ast.stmt]:
        """`for (let i = 0; i < n; i++)` as a `while`."""
        start, test, step = (node.child_by_field_name(name) for name in ("initializer", "condition", "increment"))
        body = self.statement(field_of(node, "body"))
        if test is None or step is None:
            return [self._unsaid(node)]
        found = bare(test)
        if (
            found.type == "binary_expression"
            and text_of(field_of(found, "operator")) in ("<", "<=")
            and start is not None
        ):
            return self._counted(start, found, step, body)
        return [self._unsaid(node)]

    def _counted(self, start: Node, test: Node, step: Node, body: list[ast.stmt]) -> list[ast.stmt]:
        if text_of(step).replace(" ", "") not in (
            f"{text_of(field_of(test, 'left'))}++",
            f"++{text_of(field_of(test, 'left'))}",
        ):
            return [self._unsaid(step)]
        declared = [each for each in start.named_children if each.type == "variable_declarator"]
        if len(declared) != 1:
            return [self._unsaid(start)]
        low, high = self.value(field_of(declared[0], "value")), self.value(field_of(test, "right"))
        if text_of(field_of(test, "operator")) == "<=":
            high = ast.BinOp(high, ast.Add(), ast.Constant(1))
        return [
            ast.For(
                store(word(field_of(declared[0], "name"))),
                call_of(name_of("range"), low, high),
                body or [ast.Pass()],
                [],
            )
        ]

    def _s_try_statement(self, node: Node) -> list[ast.stmt]:
        handler, final = node.child_by_field_name("handler"), node.child_by_field_name("finalizer")
        handlers = (
            [ast.ExceptHandler(None, None, self.statement(field_of(handler, "body")) or [ast.Pass()])]
            if handler
            else []
        )
        finalbody = self.block(field_of(final, "body")) if final is not None else []
        return [ast.Try(self.statement(field_of(node, "body")) or [ast.Pass()], handlers, [], finalbody)]

    def _s_class_declaration(self, node: Node) -> list[ast.stmt]:
        heritage = next((each for each in node.named_children if each.type == "class_heritage"), None)
        bases = []
        if heritage is not None:
            clause = heritage.named_children[0]
            base = clause.child_by_field_name("value") or (clause if clause.type == "identifier" else None)
            bases = [self.value(base)] if base is not None else []
        body, fields, made = list[ast.stmt](), list[ast.stmt](), None
        for each in field_of(node, "body").named_children:
            if each.type == "method_definition":
                method = self._method(each)
                if method.name == "__init__":
                    made = method
                body.append(method)
            elif each.type in ("public_field_definition", "field_definition"):
                self._class_field(each, body, fields)
        if fields:
            made = self._with_fields(made, fields, bool(bases), body)
        return [class_node(text_of(field_of(node, "name")), bases, body or [ast.Pass()])]

    _s_abstract_class_declaration = _s_class_declaration

    def _method(self, node: Node) -> ast.FunctionDef:
        name = member(text_of(field_of(node, "name")))
        kinds = {each.type for each in node.children}
        if name == "constructor":
            return self.function(node, "__init__", receiver="self")
        marks = [name_of("staticmethod")] if "static" in kinds else [name_of("property")] if "get" in kinds else []
        return self.function(node, name, receiver="" if "static" in kinds else "self", marks=list[ast.expr](marks))

    def _class_field(self, node: Node, body: list[ast.stmt], fields: list[ast.stmt]) -> None:
        value, name = (
            node.child_by_field_name("value"),
            node.child_by_field_name("name") or node.child_by_field_name("property"),
        )
        if value is None or name is None:
            return
        outer, self.hoisted = self.hoisted, []
        found = self.value(value)
        hoisted, self.hoisted = self.hoisted, outer
        if any(each.type == "static" for each in node.children):
            body += [*hoisted, placed(ast.Assign([store(member(text_of(name)))], found), node)]
        else:
            target = ast.Attribute(name_of("self"), member(text_of(name)), ast.Store())
            fields += [*hoisted, placed(ast.Assign([target], found), node)]

    def _with_fields(
        self, made: ast.FunctionDef | None, fields: list[ast.stmt], derived: bool, body: list[ast.stmt]
    ) -> ast.FunctionDef:
        """The constructor with the values of fields, which come after that of the base class."""
        if made is None:
            made = ast.parse("def __init__(self, *given):\n    pass").body[0]  # type: ignore[assignment]
            assert isinstance(made, ast.FunctionDef)
            made.body = list(ast.parse("super().__init__(*given)").body) if derived else []
            body.append(made)
        number = next((place + 1 for place, each in enumerate(made.body) if "super()" in ast.unparse(each)), 0)
        unpacked = [each for each in made.body[: number or None] if is_parameter(each)]
        number = max(number, len(unpacked))
        made.body[number:number] = fields
        return made

    # Tests, hooks and fixtures.

    def _of_test(self, node: Node) -> list[ast.stmt] | None:
        """A call that declares a test, a hook or a group; None for any other."""
        callee = text_of(field_of(node, "function"))
        given = [each for each in field_of(node, "arguments").named_children if each.type != "comment"]
        root, _, rest = callee.partition(".")
        if root not in ("test", "it", "setup", "describe") or not given:
            return self._each(node, given) if callee.endswith(".forEach") else None
        last = rest.rpartition(".")[2]
        if last in _HOOKS and is_function(given[-1]):
            return self._hook(last, given[-1])
        if "describe" in callee and is_function(given[-1]):
            return self._group(rest, given)
        if rest == "step" and is_function(given[-1]):
            return (
                self.block(field_of(given[-1], "body"))
                if field_of(given[-1], "body").type == "statement_block"
                else None
            )
        if rest == "use":
            use = ast.Expr(call_of(name_of("__use__"), self.value(given[0])))
            self._describe.before.append(placed(use, node))
            return []
        if rest in ("", "only", "skip", "fixme", "fail", "slow") and len(given) > 1 and is_function(given[-1]):
            return self._test(rest, given)
        return [] if rest in ("setTimeout", "slow", "describe.configure", "info", "only") else None

    def _each(self, node: Node, given: list[Node]) -> list[ast.stmt] | None:
        """`data.forEach((one) => { test(...) })` at the top."""
        handler = given[0] if given and is_function(given[0]) else None
        parameters = self.parameters(handler)[0].args if handler is not None else []
        if handler is None or not parameters or field_of(handler, "body").type != "statement_block":
            return None
        target, owner = parameters[0].arg, field_of(field_of(node, "function"), "object")
        before, self.tests = self.tests, []
        body = self.block(field_of(handler, "body"))
        made, self.tests = self.tests, before
        if not made:
            return [ast.For(store(target), self.value(owner), body or [ast.Pass()], [])]
        mark = call_of(ast.parse("pytest.mark.parametrize", mode="eval").body, ast.Constant(target), self.value(owner))
        for test in made:
            if isinstance(test, ast.FunctionDef):
                test.decorator_list.append(mark)
                test.args.args.append(ast.arg(target))
        self.tests += made
        return []

    def _hook(self, kind: str, function: Node) -> list[ast.stmt]:
        parameters, body = self._fixtures_of(function)
        self._describe.parameters += [name for name in parameters if name not in self._describe.parameters]
        if kind.startswith("before"):
            self._describe.before += body
        else:
            self._describe.after = [*body, *self._describe.after]
        return []

    def _group(self, rest: str, given: list[Node]) -> list[ast.stmt]:
        outer = self._describe
        kind = _MARKS.get(rest.rpartition(".")[2])
        marks = [call_of(parsed(f"pytest.mark.{kind}"))] if kind else []
        self._describe = _Describe(outer, [*marks, *self._tags(given)])
        body = field_of(given[-1], "body")
        for each in body.named_children:
            self._describe.before += self.statement(each)
        self._describe = outer
        return []

    def _tags(self, given: list[Node]) -> list[ast.expr]:
        options = next((each for each in given[1:-1] if each.type == "object"), None)
        words = re.findall(r"@([A-Za-z][\w-]*)", text_of(options) if options is not None else "")
        return [
            ast.Attribute(ast.parse("pytest.mark", mode="eval").body, word.replace("-", "_"), ast.Load())
            for word in words
        ]

    def _test(self, rest: str, given: list[Node]) -> list[ast.stmt]:
        title = self._title(given[0])
        parameters, body = self._fixtures_of(given[-1])
        around = self._describe
        names = list(dict.fromkeys([*around.parameters, *parameters]))
        marks = [*around.marks, *self._tags(given)]
        if rest in _MARKS:
            marks.append(call_of(ast.parse(f"pytest.mark.{_MARKS[rest]}", mode="eval").body))
        slug = re.sub(r"\W+", "_", title).strip("_").lower()[:80] or "test"
        arguments = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
        docstring = ast.Expr(ast.Constant(title))
        whole = [docstring, *around.before, *body, *around.after]
        self.tests.append(
            placed(function_node(f"test_{slug}", arguments, whole, list(marks)), given[0].parent or given[0])
        )
        return []

    def _title(self, node: Node) -> str:
        return re.sub(r"\$\{([^}]*)\}", r"\1", text_of(node)[1:-1]).strip()

    def _fixtures_of(self, function: Node) -> tuple[list[str], list[ast.stmt]]:
        """The fixtures that a test destructures, and its body."""
        listed = function.child_by_field_name("parameters")
        patterns = [each for each in (listed.named_children if listed is not None else []) if each.type != "comment"]
        names = list[str]()
        before = list[ast.stmt]()
        for number, each in enumerate(patterns):
            inner = each.child_by_field_name("pattern") or each
            if inner.type == "object_pattern" and number == 0:
                for key, name in pairs_of_pattern(inner):
                    names.append(_WORDS.get(key, key))
                    if name != names[-1]:
                        before.append(ast.Assign([store(name)], name_of(names[-1])))
            elif inner.type == "identifier" and number:
                before.append(ast.Assign([store(text_of(inner))], name_of("print")))
        body = field_of(function, "body")
        return names, [*before, *(self.block(body) if body.type == "statement_block" else [ast.Expr(self.value(body))])]

    def _fixtures(self, node: Node) -> list[ast.stmt] | None:
        """The fixtures of `base.extend({...})`; None for another value."""
        if node.type != "call_expression" or not text_of(field_of(node, "function")).partition("<")[0].endswith(
            ".extend"
        ):
            return None
        given = next((each for each in field_of(node, "arguments").named_children if each.type == "object"), None)
        found: list[ast.stmt] = []
        for each in given.named_children if given is not None else ():
            if each.type == "pair":
                found += self._fixture(text_of(field_of(each, "key")).strip("'\""), field_of(each, "value"))
            elif each.type == "method_definition":
                found += self._fixture(text_of(field_of(each, "name")), each)
        return found

    def _fixture(self, name: str, value: Node) -> list[ast.stmt]:
        mark = "pytest.fixture"
        if value.type == "array":
            mark = "pytest.fixture(autouse=True)" if "auto: true" in text_of(value) else mark
            value = value.named_children[0]
        if not is_function(value) and value.type != "method_definition":
            return [placed(function_node(name, no_arguments(), [ast.Return(self.value(value))], [parsed(mark)]), value)]
        listed = value.child_by_field_name("parameters")
        patterns = (
            [each.child_by_field_name("pattern") or each for each in listed.named_children]
            if listed is not None
            else []
        )
        names = [_WORDS.get(key, key) for key, _ in pairs_of_pattern(patterns[0])] if patterns else []
        use = text_of(patterns[1]) if len(patterns) > 1 else "use"
        body_node = field_of(value, "body")
        whole = self.block(body_node) if body_node.type == "statement_block" else [ast.Expr(self.value(body_node))]
        body: list[ast.stmt] = [_Yielding(use).visit(each) for each in whole]
        arguments = ast.arguments([], [ast.arg(each) for each in names], None, [], [], None, [])
        return [placed(function_node(name, arguments, body or [ast.Pass()], [parsed(mark)]), value)]

    # Expressions.


_MARKS = {"skip": "skip", "fixme": "skip", "fail": "xfail"}
"""Methods whose object is data."""


class _Yielding(ast.NodeTransformer):
    """`await use(value)` as `yield value`."""

    def __init__(self, use: str) -> None:
        self._use = use

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        inner = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == self._use:
            value = inner.args[0] if inner.args else ast.Constant(None)
            return ast.copy_location(ast.Expr(ast.Yield(value)), node)
        return node
