"""The tests of a file: their fixtures, marks and cases, and what following each of them gives."""

from __future__ import annotations

import ast
import re
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from harness.spec.imported.acts import context_options
from harness.spec.imported.following import RaisedError, ReturnedError
from harness.spec.imported.interpreter import Interpreter
from harness.spec.imported.project import SuiteProject
from harness.spec.imported.script import TestScript
from harness.spec.imported.values import (
    Class,
    Frame,
    FunctionNode,
    Instance,
    LibraryName,
    Module,
    NeedsValueError,
    Opaque,
    Quiet,
    Ref,
    SourceFunction,
    SourcePage,
    Unknown,
    data_of,
    plain,
)
from harness.spec.recorded.locators import UnwritableError

_MOST_CASES = 1000
_Node = ast.FunctionDef | ast.AsyncFunctionDef
_QUIET = [
    "tmp_path",
    "tmp_path_factory",
    "tmpdir",
    "caplog",
    "capsys",
    "monkeypatch",
    "event_loop",
    "db",
    "transactional_db",
    "django_db_setup",
    "record_property",
    "recwarn",
    "extra",
    "extras",
    "metadata",
    "delete_output_dir",
    "output_path",
    "pytestconfig",
    "browser_type_launch_args",
    "is_chromium",
    "is_webkit",
    "is_firefox",
    "connect_options",
    "launch_browser",
    "_pw_artifacts_recorder",
]
_BUILTIN: Mapping[str, Any] = {
    "page": SourcePage(0),
    "context": Opaque("context"),
    "browser": Opaque("browser"),
    "playwright": Opaque("playwright"),
    "browser_type": Opaque("browser_type"),
    "base_url": "",
    "browser_name": "chromium",
    "browser_channel": None,
    "live_server": Opaque("live_server"),
    "faker": LibraryName("faker.it"),
    "api_request": Opaque("api"),
    **dict.fromkeys(_QUIET, Quiet()),
}
_IDLE_MARKS: tuple[str, ...] = (
    "asyncio",
    "usefixtures",
    "filterwarnings",
    "flaky",
    "timeout",
    "order",
    "django_db",
    "run",
)
_IDLE_MARKS += ("dependency", "anyio", "xdist_group", "repeat", "parametrize_with_cases")


class FollowedTest(Struct):
    """A test, or one case of it, with what it does."""

    name: str
    goal: str
    script: TestScript
    keys: dict[str, Any] = field(default_factory=dict)
    """`tags`, `skip`, `parametrize` and the like."""
    case: str = ""
    """For one case of several: its id."""
    line: int = 0


class CaseOfTest(Struct):
    """The values of one case."""

    values: dict[str, Any]
    id: str = ""
    indirect: dict[str, Any] = field(default_factory=dict)
    """Values for fixtures of these names, which read them as `request.param`."""


class Found(Struct):
    """A test function where it stands."""

    node: _Node
    module: Module
    classes: tuple[Class, ...] = ()


def tests_of(project: SuiteProject, file: Path) -> list[FollowedTest]:
    """All tests of a file. Raises OSError, SyntaxError, UnicodeDecodeError for a file that cannot be read."""
    module = project.module(file.resolve())
    chain = [module, *project.above(file)]
    found: list[FollowedTest] = []
    for test in _functions(module, module.tree.body, ()):
        try:
            found += _Following(project, chain, test).tests()
        except Exception as error:  # noqa: BLE001 - whatever it is, the other tests are followed
            script = TestScript(place=f"{file.name}:{test.node.lineno}")
            script.omit(test.node.name, f"it cannot be followed: {type(error).__name__}: {error}")
            found.append(FollowedTest(test.node.name, _in_words(test.node.name), script, line=test.node.lineno))
    return found


def _functions(module: Module, body: list[ast.stmt], classes: tuple[Class, ...]) -> Iterator[Found]:
    for statement in body:
        if isinstance(statement, ast.ClassDef) and statement.name.startswith("Test"):
            holder = classes[-1].names if classes else module.names
            if isinstance(kind := holder.get(statement.name), Class):
                yield from _functions(module, _with_inherited(statement, kind), (*classes, kind))
        elif isinstance(statement, _Node) and _fixture_mark(statement) is None and _is_test(statement):
            yield Found(statement, module, classes)


def _with_inherited(statement: ast.ClassDef, kind: Class) -> list[ast.stmt]:
    """The body of a class and the tests that it inherits."""
    own = {each.name for each in statement.body if isinstance(each, _Node)}
    inherited = [
        value.node
        for base in list(kind.lineage())[1:]
        if isinstance(base, Class)
        for name, value in base.names.items()
        if name.startswith("test")
        and name not in own
        and isinstance(value, SourceFunction)
        and isinstance(value.node, _Node)
    ]
    return [*statement.body, *inherited]


def _is_test(statement: _Node) -> bool:
    return statement.name.startswith("test") or _is_codegen(statement)


def _is_codegen(function: _Node) -> bool:
    """Return whether it is the function that `playwright codegen` writes: `run(playwright)`."""
    return function.name == "run" and [each.arg for each in function.args.args] == ["playwright"]


class _Following:
    """Follows one test."""

    def __init__(self, project: SuiteProject, chain: list[Module], test: Found) -> None:
        self._project = project
        self._chain = chain
        self._test = test

    def tests(self) -> list[FollowedTest]:
        """The test; or its cases, if what it does depends on them."""
        marks = _Marks(self._project, self._test)
        cases, params = marks.cases(), self._params()
        references = all(_is_simple(each.values) and not each.indirect for each in cases) and not params
        if references or not cases:
            try:
                values = {name: Ref(f"${{param.{name}}}") for name in (cases[0].values if cases else ())}
                followed = self._follow(values, {}, asks=bool(cases))
                keys = {**marks.keys(), **({"parametrize": _declared(cases)} if cases else {})}
                if not params:
                    return [self._made(followed, keys)]
            except NeedsValueError:
                pass
        found: list[FollowedTest] = []
        for case in cases or [CaseOfTest({})]:
            for name, choice in params or [("", None)]:
                given = {**case.indirect, **({name: choice} if name else {})}
                followed = self._follow(case.values, given, asks=False)
                shown = "-".join(filter(None, (case.id, str(choice) if isinstance(choice, str | int) else "")))
                found.append(self._made(followed, marks.keys(), shown or str(len(found) + 1)))
        return found

    def _made(self, script: TestScript, keys: dict[str, Any], case: str = "") -> FollowedTest:
        node = self._test.node
        goal = (ast.get_docstring(node) or "").strip().partition("\n")[0] or _title(node) or _in_words(node.name)
        return FollowedTest(node.name, goal, script, keys, case, node.lineno)

    def _params(self) -> list[tuple[str, Any]]:
        """The values of a fixture that the test requests, if it has several."""
        for name in _parameters(self._test.node):
            node = self._fixture_node(name)
            for decorator in node.decorator_list if node is not None else ():
                if isinstance(decorator, ast.Call):
                    for keyword in decorator.keywords:
                        if keyword.arg == "params":
                            return [(name, each) for each in self._literal(keyword.value)]
        return []

    def _literal(self, node: ast.expr) -> list[Any]:
        interpreter = self._project.interpreter(TestScript())
        return interpreter.items(interpreter.value(node, Frame(self._test.module)))[:_MOST_CASES]

    def _fixture_node(self, name: str) -> _Node | None:
        found = (function.node for module in self._chain for each, function in _fixtures(module) if each == name)
        return next((node for node in found if isinstance(node, _Node)), None)

    def _follow(self, values: dict[str, Any], params: dict[str, Any], *, asks: bool) -> TestScript:
        file = self._test.module.file
        script = TestScript(made_up=dict(self._project.made_up), keys=self._project.keys_of(file))
        script.place = f"{self._test.module.file.name}:{self._test.node.lineno}"
        interpreter = self._project.interpreter(script)
        interpreter.asks = asks
        setting = Setting(self._project, self._chain, self._test, interpreter, {**params}, values)
        try:
            setting.start()
            function = SourceFunction(self._test.node, self._test.module, owner=setting.owner)
            given = {name: setting.value(name) for name in _parameters(self._test.node) if name != "self"}
            names = {**({"self": setting.receiver} if setting.receiver else {}), **given}
            frame = Frame(self._test.module, names, None, function.bound(setting.receiver))
            script.statements = len(self._test.node.body)
            for _ in interpreter.run(self._test.node.body, frame):
                pass
        except NeedsValueError:
            raise
        except RaisedError as error:
            script.omit("raise", str(error))
        except (UnwritableError, RecursionError) as error:
            script.omit(self._test.node.name, str(error))
        except ReturnedError:
            pass
        setting.end()
        return script


def _parameters(node: FunctionNode) -> list[str]:
    spec = node.args
    optional = len(spec.defaults)
    positional = [each.arg for each in (*spec.posonlyargs, *spec.args)]
    return [*positional[: len(positional) - optional if optional else None], *(each.arg for each in spec.kwonlyargs)]


def _fixtures(module: Module) -> Iterator[tuple[str, SourceFunction]]:
    """The fixtures of a module, also those that it imports."""
    for name, value in list(module.names.items()):
        if isinstance(value, SourceFunction) and isinstance(value.node, _Node) and (mark := _fixture_mark(value.node)):
            given = [word.value for word in getattr(mark, "keywords", ()) if word.arg == "name"]
            yield (str(given[0].value) if given and isinstance(given[0], ast.Constant) else name), value


def _fixture_mark(node: ast.AST) -> ast.expr | None:
    for each in getattr(node, "decorator_list", ()):
        if isinstance(each, ast.expr) and ast.unparse(each.func if isinstance(each, ast.Call) else each) in _FIXTURE:
            return each
    return None


_FIXTURE = ("pytest.fixture", "fixture", "pytest_asyncio.fixture", "pytest.yield_fixture", "playwright.fixture")


def _is_autouse(mark: ast.expr) -> bool:
    return any(
        word.arg == "autouse" and isinstance(word.value, ast.Constant) and bool(word.value.value)
        for word in getattr(mark, "keywords", ())
    )


class Setting:
    """The fixtures of one test."""

    def __init__(
        self,
        project: SuiteProject,
        chain: list[Module],
        test: Found,
        interpreter: Interpreter,
        params: dict[str, Any],
        values: dict[str, Any],
    ) -> None:
        self._given = project.given
        self._chain = chain
        self._test = test
        self._interpreter = interpreter
        self._params = params
        self._known = dict(values)
        self._open: list[Generator[Any]] = []
        self._making: list[tuple[str, int]] = []
        self.owner = test.classes[-1] if test.classes else None
        self.receiver = Instance(self.owner) if self.owner is not None else None

    def start(self) -> None:
        """Set up what every test has: autouse fixtures, marks `usefixtures`, and the methods of a class."""
        for name in self._automatic():
            self.value(name)
        for name, function in self._of_classes():
            if (mark := _fixture_mark(function.node)) is not None and _is_autouse(mark):
                self.value(name)
            elif name in ("setup_method", "setup", "setup_class", "setUp", "asyncSetUp") and mark is None:
                self._set_up(function)
        for name in self._used():
            self.value(name)
        if (name := "browser_context_args") in {each for module in self._chain for each, _ in _fixtures(module)}:
            self._with_context(self.value(name))

    def _automatic(self) -> list[str]:
        """The names of the autouse fixtures of files."""
        found = [each for module in reversed(self._chain) for each in _fixtures(module)]
        return [name for name, function in found if (mark := _fixture_mark(function.node)) and _is_autouse(mark)]

    def _with_context(self, options: Any) -> None:
        if isinstance(options, dict):
            context_options(self._interpreter.script, options)

    def _used(self) -> Iterator[str]:
        decorated = [*self._test.node.decorator_list]
        for each in ast.walk(self._test.module.tree):
            if isinstance(each, ast.ClassDef) and any(each.name == kind.name for kind in self._test.classes):
                decorated += each.decorator_list
        for decorator in decorated:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("usefixtures"):
                yield from (str(each.value) for each in decorator.args if isinstance(each, ast.Constant))

    def _of_classes(self) -> Iterator[tuple[str, SourceFunction]]:
        for kind in self._test.classes:
            for base in reversed(list(kind.lineage())):
                for name, value in list(base.names.items()) if isinstance(base, Class) else ():
                    if isinstance(value, SourceFunction) and isinstance(value.node, _Node):
                        yield name, value

    def _set_up(self, function: SourceFunction) -> None:
        given = {name: self.value(name) for name in _parameters(function.node)[1:] if name not in ("method", "cls")}
        self._interpreter.call(function.bound(self.receiver), [], given)

    def end(self) -> None:
        """Tear down what was set up."""
        for each in reversed(self._open):
            try:
                for _ in each:
                    pass
            except UnwritableError as error:
                self._interpreter.script.omit("the end of a fixture", str(error))

    def value(self, name: str) -> Any:
        """The value of a fixture."""
        inside = [level for each, level in self._making if each == name]
        if not inside and name in self._known:
            return self._known[name]
        if name in self._given:
            return self._given[name]
        if name == "request":
            return self._request()
        found = self._find(name, max(inside, default=-1) + 1)
        if found is None:
            value = self._of_plugin(name)
        else:
            self._making.append((name, found[0]))
            try:
                value = self._made(name, found[1])
            finally:
                self._making.pop()
        if not inside:
            self._known[name] = value
        return value

    def _request(self) -> Opaque:
        name = self._making[-1][0] if self._making else ""
        data: dict[str, Any] = {"name": self._test.node.name, "fixture": self.value, "file": self._test.module.file}
        if self.receiver is not None:
            data["cls"] = self.receiver
        if name in self._params:
            data["param"] = self._params[name]
        return Opaque("request_of_pytest", data=data)

    def _find(self, name: str, least: int) -> tuple[int, SourceFunction] | None:
        """The nearest definition of a fixture; one that overrides another asks for those from `least` on."""
        own = [function.bound(self.receiver) for each, function in self._of_classes() if each == name]
        places = [each for each in reversed(own) if _fixture_mark(each.node)]
        places += [function for module in self._chain for each, function in _fixtures(module) if each == name]
        return next(((level, each) for level, each in enumerate(places) if level >= least), None)

    def _of_plugin(self, name: str) -> Any:
        if (dotted := {key: value for key, value in self._given.items() if key.startswith(f"{name}.")}) != {}:
            kind = Class(name, self._test.module, ())
            return Instance(kind, {key.partition(".")[2]: value for key, value in dotted.items()})
        if name == "browser_context_args":
            return {}
        if name in ("page", "new_page"):
            self._interpreter.script.state.opened = True
        if name in _BUILTIN:
            return _BUILTIN[name]
        why = f"what the fixture `{name}` does is not carried over: `--value {name}=...` says its value"
        self._interpreter.script.omit(name, why)
        return Unknown(why)

    def _made(self, name: str, function: SourceFunction) -> Any:
        node = function.node
        parameters = _parameters(node)[1 if function.receiver is not None else 0 :]
        given = {each: self.value(each) for each in parameters}
        try:
            if not any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(node)):
                return self._interpreter.call(function, [], given)
            generator = self._interpreter.generator(function, [], given)
            value = next(generator, None)
        except NeedsValueError:
            raise
        except (UnwritableError, ValueError, TypeError, LookupError, AttributeError) as error:
            self._interpreter.script.omit(name, f"the fixture `{name}`: {error}")
            return Unknown(f"the fixture `{name}` is not carried over")
        self._open.append(generator)
        return value


# Marks.


class _Marks:
    """The marks of a test, of its class and of its module."""

    def __init__(self, project: SuiteProject, test: Found) -> None:
        self._interpreter = project.interpreter(TestScript())
        self._frame = Frame(test.module)
        nodes = [*test.node.decorator_list]
        for each in ast.walk(test.module.tree):
            if isinstance(each, ast.ClassDef) and any(each.name == kind.name for kind in test.classes):
                nodes += each.decorator_list
        for statement in test.module.tree.body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark":
                value = statement.value
                nodes += value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
        self._nodes = [(ast.unparse(getattr(each, "func", each)), each) for each in nodes]

    def keys(self) -> dict[str, Any]:
        """`tags`, `skip` and `expected_failure`."""
        keys: dict[str, Any] = {}
        tags: list[str] = []
        for dotted, node in self._nodes:
            name = dotted.removeprefix("pytest.mark.")
            if name == dotted or name in ("parametrize", *_IDLE_MARKS):
                continue
            if name == "browser_context_args":
                keys.setdefault("missing", []).append(
                    (ast.unparse(node), "write the options of this mark under `browser:`")
                )
            elif name in ("only_browser", "skip_browser"):
                named = [each.value for each in getattr(node, "args", []) if isinstance(each, ast.Constant)]
                if ("chromium" in named) != (name == "only_browser"):
                    keys["skip"] = f"it is not for Chromium: {name}({', '.join(map(str, named))})"
            elif name in ("skip", "skipif", "xfail"):
                self._of_running(name, node, keys)
            elif re.fullmatch(r"[A-Za-z][\w-]*", name) and name not in tags:
                tags.append(name)
        return {**({"tags": tags[::-1]} if tags else {}), **keys}

    def _of_running(self, name: str, node: ast.expr, keys: dict[str, Any]) -> None:
        args, words = getattr(node, "args", []), {each.arg: each.value for each in getattr(node, "keywords", [])}
        conditions = args if name != "skip" else []
        said = words.get("reason") or (args[0] if args and name == "skip" else None)
        reason = self._text(said) or f"the test is marked `{name}`"
        if conditions or "condition" in words:
            keys.setdefault("missing", []).append((ast.unparse(node), f"write the condition of `{name}` as `skip_if`"))
        elif name == "xfail":
            strict = words.get("strict")
            if not (isinstance(strict, ast.Constant) and strict.value):
                keys["note"] = "Its mark `xfail` was not strict: here a pass is a failure."
            keys["expected_failure"] = reason
        else:
            keys["skip"] = reason

    def _text(self, node: ast.expr | None) -> str:
        try:
            value = None if node is None else self._interpreter.value(node, self._frame)
        except UnwritableError:
            return ""
        return value if isinstance(value, str) and "${" not in value else ""

    def cases(self) -> list[CaseOfTest]:
        """All combinations of the cases of `parametrize`; none without one."""
        rows = [CaseOfTest({})]
        found = False
        for dotted, node in self._nodes:
            if dotted.removeprefix("pytest.mark.") == "parametrize" and isinstance(node, ast.Call):
                found = True
                more = self._cases(node)
                rows = [
                    CaseOfTest(
                        {**row.values, **each.values},
                        "-".join(filter(None, (row.id, each.id))),
                        {**row.indirect, **each.indirect},
                    )
                    for row in rows
                    for each in more
                ]
        return rows[:_MOST_CASES] if found else []

    def _cases(self, call: ast.Call) -> list[CaseOfTest]:
        words = {each.arg: each.value for each in call.keywords}
        nodes = [*call.args, *(words[name] for name in ("argnames", "argvalues") if name in words)]
        try:
            given = self._interpreter.value(nodes[0], self._frame)
            values = self._interpreter.items(self._interpreter.value(nodes[1], self._frame))
            ids = self._interpreter.items(self._interpreter.value(words["ids"], self._frame)) if "ids" in words else []
        except (UnwritableError, IndexError, LookupError, TypeError, ValueError, AttributeError) as error:
            names = str(getattr(nodes[0], "value", "value")).split(",") if nodes else ["value"]
            return [CaseOfTest({name.strip(): Unknown(f"the cases are not in the source: {error}") for name in names})]
        names = [each.strip() for each in given.split(",")] if isinstance(given, str) else list(given)
        found = []
        for number, value in enumerate(values):
            row = value if len(names) > 1 and isinstance(value, list | tuple) else [value]
            name = ids[number] if number < len(ids) and isinstance(ids[number], str) else ""
            if len(row) == len(names):
                found.append(self._case(dict(zip(names, row, strict=True)), name, words.get("indirect")))
        return found

    def _case(self, values: dict[str, Any], name: str, indirect: ast.expr | None) -> CaseOfTest:
        if indirect is None:
            return CaseOfTest(values, name)
        chosen = self._interpreter.value(indirect, self._frame)
        through = set(values) if chosen is True else set(chosen or ())
        own = {key: value for key, value in values.items() if key not in through}
        return CaseOfTest(own, name, {key: values[key] for key in values if key in through})


def _is_simple(values: Mapping[str, Any]) -> bool:
    return all(isinstance(each, str | int | float) and not isinstance(each, bool) for each in values.values())


def _declared(cases: list[CaseOfTest]) -> Any:
    """The cases as a task declares them."""
    if all(len(case.values) == 1 and not case.id for case in cases):
        name = next(iter(cases[0].values))
        return {name: [data_of(plain(case.values[name])) for case in cases]}
    named = [case.id for case in cases]
    unique = len(set(named)) == len(named) and all(
        re.fullmatch(r"[\w+@=-](?:[\w .+@=-]*[\w+@=-])?", each) for each in named
    )
    return [{**({"id": case.id} if unique else {}), **data_of(case.values)} for case in cases]


def _title(node: _Node) -> str:
    for each in node.decorator_list:
        if (
            isinstance(each, ast.Call)
            and ast.unparse(each.func) == "allure.title"
            and isinstance(each.args[0], ast.Constant)
        ):
            return str(each.args[0].value)
    return ""


def _in_words(name: str) -> str:
    words = re.sub(r"^test_?", "", name).replace("_", " ").strip() or name
    return words[0].upper() + words[1:]
