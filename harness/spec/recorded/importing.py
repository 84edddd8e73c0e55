"""Tests for pytest-playwright, and what `playwright codegen` writes, as tasks. Nothing is executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from harness.spec.recorded.actions import Action, GivenAnswer
from harness.spec.recorded.journey import Omission, journey_of
from harness.spec.recorded.locators import UnwritableError
from harness.spec.recorded.python_calls import action_of_assert, action_of_call, action_of_expect, statuses_of_assert
from harness.spec.recorded.python_values import Names, PlaceInTest, Places
from harness.spec.recorded.text import TaskText
from harness.values import replace

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_KNOWN_FIXTURES = frozenset({"self", "page", "base_url", "playwright", "p"})
_SETTING_UP = re.compile(
    r"(.*\.)?(launch|new_context|new_page|connect_over_cdp)\(.*\)|expect\.set_options\(.*\)", re.DOTALL
)
_WAITING = frozenset({"expect_navigation", "expect_popup", "expect_download"})
_NOTHING_CHECKED = ("The test expects nothing at its end. Say here what must be true at the end of the task,",)
_EXAMPLE = "for example  \"text('#order-status') == 'confirmed'\""


class ImportedTest(Struct, frozen=True):
    """One test of a file, as far as it could be read."""

    name: str
    goal: str
    actions: tuple[Action, ...]
    keys: Mapping[str, Any]
    """`tags` and `parametrize` of the task."""
    statements: int
    """The number of its statements."""


def _constants(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def _functions(body: list[ast.stmt]) -> Iterator[_Function]:
    for statement in body:
        if isinstance(statement, ast.ClassDef) and statement.name.startswith("Test"):
            yield from _functions(statement.body)
        elif isinstance(statement, _Function) and (statement.name.startswith("test") or _is_codegen(statement)):
            yield statement


def _is_codegen(function: _Function) -> bool:
    """Return whether it is the function that `playwright codegen` writes: `run(playwright)`."""
    return function.name == "run" and [each.arg for each in function.args.args] == ["playwright"]


class _Reading:
    """Reads one test, statement by statement."""

    def __init__(self, file: str, names: Names) -> None:
        self._file = file
        self._names = names
        self._places = Places(names)
        self._actions: list[Action] = []
        self._dialogs: tuple[GivenAnswer, ...] = ()
        self._pages = 1
        self._handles: dict[str, int] = {}
        """Names of `expect_popup` blocks -> the page that was opened."""
        self._responses: dict[str, int] = {}
        """Names of what `goto` returned -> the place of its action."""
        self._statements = 0

    def test(self, function: _Function) -> ImportedTest:
        keys = dict(self._decorated(function))
        cases = keys.get("parametrize", {})
        parameters = frozenset(cases if isinstance(cases, Mapping) else cases[0])
        self._names = self._names.inside(parameters)
        self._places = Places(self._names, {"page": PlaceInTest(0)})
        known = _KNOWN_FIXTURES | parameters
        for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
            if each.arg not in known:
                self._missing(each, f"what the fixture `{each.arg}` does is not carried over")
        self._body(function.body)
        goal = (ast.get_docstring(function) or "").strip().partition("\n")[0] or _in_words(function.name)
        return ImportedTest(function.name, goal, tuple(self._actions), keys, self._statements)

    def _missing(self, node: ast.AST, why: str) -> None:
        line = getattr(node, "lineno", 0)
        self._actions.append(Action(name="missing", text=ast.unparse(node), why=why, place=f"{self._file}:{line}"))

    def _body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue  # the docstring
            self._statements += 1
            try:
                self._statement(statement)
            except UnwritableError as error:
                self._missing(statement, str(error))
            except (ValueError, TypeError) as error:
                self._missing(statement, f"an argument has an unexpected value ({error})")

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Expr(value=value):
                self._expression(value)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._assign(name, value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._assign(name, value)
            case ast.With(items=[item], body=body) | ast.AsyncWith(items=[item], body=body):
                self._with(item, body)
            case ast.Assert(test=test):
                self._assert(statement, test)
            case ast.Pass() | ast.Return(value=None) | ast.Import() | ast.ImportFrom():
                pass
            case _:
                raise UnwritableError(f"a task has no `{type(statement).__name__.lower()}`")

    def _assert(self, statement: ast.Assert, test: ast.expr) -> None:
        found = statuses_of_assert(test, self._responses, self._names)
        if found is None:
            self._add(statement, action_of_assert(test, self._places))
        elif found[1]:
            self._actions[found[0]] = replace(self._actions[found[0]], statuses=found[1])

    def _add(self, node: ast.AST, action: Action) -> None:
        """Add an action, which a task must be able to say. Raises UnwritableError."""
        if action.locator and action.name != "missing":
            action.target  # noqa: B018 - it raises for a locator that has no form
        line = getattr(node, "lineno", 0)
        newest = self._pages > 1 and action.page == self._pages - 1
        given = () if action.asserts or action.name == "navigate" else self._dialogs
        if given:
            self._dialogs = ()
        self._actions.append(replace(action, place=f"{self._file}:{line}", newest=newest, dialogs=given))

    def _expression(self, value: ast.expr) -> None:
        inner = value.value if isinstance(value, ast.Await) else value
        if not isinstance(inner, ast.Call):
            raise UnwritableError("this expression does nothing that a task could do")
        if _SETTING_UP.fullmatch(ast.unparse(inner)) or ast.unparse(inner.func) in ("context.close", "browser.close"):
            self._check_set_up(inner)
            return
        if _DISMISSING.fullmatch(ast.unparse(inner)) is not None:  # what a task does with any question
            return
        if (answer := _dialog_answer(inner, self._names)) is not None:
            self._dialogs = (answer,)
            return
        action = action_of_expect(inner, self._places) or action_of_call(inner, self._places)
        if action is not None:
            self._add(value, action)

    def _check_set_up(self, call: ast.Call) -> None:
        """Refuse options of a browser or context: they are keys of a task, or settings. Raises UnwritableError."""
        given = [each.arg or "**" for each in call.keywords if each.arg not in ("headless", "slow_mo")]
        if given:
            raise UnwritableError(f"write the options {', '.join(given)} under `browser:` in the task")

    def _assign(self, name: str, value: ast.expr) -> None:
        inner = value.value if isinstance(value, ast.Await) else value
        if isinstance(inner, ast.Call) and _SETTING_UP.fullmatch(ast.unparse(inner)):
            if name == "page" or ast.unparse(inner.func).endswith("new_page"):
                self._open_page(name)
            self._check_set_up(inner)
        elif isinstance(inner, ast.Attribute) and inner.attr == "value" and isinstance(inner.value, ast.Name):
            if inner.value.id in self._handles:
                self._places.known[name] = PlaceInTest(self._handles[inner.value.id])
        elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "goto":
            self._expression(value)
            self._responses[name] = len(self._actions) - 1
        elif (place := self._places.of(inner)) is not None:
            self._places.known[name] = place
        else:
            self._names.text(inner)  # a constant, or it raises
            self._names.texts[name] = inner

    def _open_page(self, name: str) -> None:
        """Bind the first page; a task opens no other one by itself. Raises UnwritableError."""
        if self._actions:
            raise UnwritableError("a task opens no second page by itself, only by a click")
        self._places.known[name] = PlaceInTest(0)

    def _with(self, item: ast.withitem, body: list[ast.stmt]) -> None:
        call = item.context_expr
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            raise UnwritableError("a task has no `with`")
        kind, name = call.func.attr, item.optional_vars.id if isinstance(item.optional_vars, ast.Name) else ""
        if kind not in _WAITING or self._places.of(call.func.value) is None:
            raise UnwritableError(f"a task has no act for `{ast.unparse(call.func)}`")
        before = len(self._actions)
        self._body(body)
        done = next(
            (n for n in range(len(self._actions) - 1, before - 1, -1) if self._actions[n].name != "missing"), None
        )
        if kind == "expect_popup":
            self._handles[name] = self._pages
            self._pages += 1
        elif kind == "expect_download":
            if done is None or self._actions[done].name != "click":
                raise UnwritableError("only a click can start a download in a task")
            self._actions[done] = replace(self._actions[done], download="")

    # The marks of a test.

    def _decorated(self, function: _Function) -> Iterator[tuple[str, Any]]:
        tags, cases = list[str](), list[tuple[tuple[str, ...], list[Any]]]()
        for decorator in function.decorator_list:
            mark = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
            name = mark.removeprefix("pytest.mark.")
            try:
                if name == "parametrize" and isinstance(decorator, ast.Call):
                    cases.append(self._cases(decorator))
                elif name == mark or isinstance(decorator, ast.Call) or name in ("skip", "xfail", "asyncio"):
                    raise UnwritableError(f"the mark `{mark}` is not carried over")
                else:
                    tags.append(name)
            except UnwritableError as error:
                if name != "asyncio":
                    self._missing(decorator, str(error))
        if tags:
            yield "tags", tags[::-1]
        if cases:
            yield "parametrize", _parametrize(cases)

    def _cases(self, call: ast.Call) -> tuple[tuple[str, ...], list[Any]]:
        """The names and the values of a `parametrize`. Raises UnwritableError."""
        if len(call.args) != 2:
            raise UnwritableError("`parametrize` needs names and values")
        given, values = self._names.plain(call.args[0]), self._names.plain(call.args[1])
        names = tuple(each.strip() for each in given.split(",")) if isinstance(given, str) else tuple(given)
        return names, [value if len(names) > 1 else (value,) for value in values]


def _parametrize(cases: list[tuple[tuple[str, ...], list[Any]]]) -> Any:
    """The cases as a task declares them: all combinations, or a list of them."""
    if all(len(names) == 1 for names, _ in cases):
        return {names[0]: [value for (value,) in rows] for names, rows in cases}
    rows: list[dict[str, Any]] = [{}]
    for names, values in cases:
        rows = [{**row, **dict(zip(names, each, strict=True))} for row in rows for each in values]
    return rows


_DISMISSING = re.compile(r"\w+\.on\('dialog', lambda (\w+): \1\.dismiss\(\)\)")


def _dialog_answer(call: ast.Call, names: Names) -> GivenAnswer | None:
    """The answer of `page.once("dialog", lambda dialog: dialog.accept())`; None for another call.

    Raises UnwritableError for other functions.
    """
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("once", "on"):
        return None
    match call.args:
        case [ast.Constant(value="dialog"), ast.Lambda(body=ast.Call(func=ast.Attribute(attr=answer), args=given))]:
            if call.func.attr == "once" and answer in ("accept", "dismiss"):
                return GivenAnswer(answer == "accept", names.text(given[0]) if given else None)
            raise UnwritableError("write a `dialog` step before each step that opens a dialog")
    raise UnwritableError("a task cannot listen to events; a `dialog` step answers the next dialog")


def _in_words(name: str) -> str:
    words = re.sub(r"^test_?", "", name).replace("_", " ").strip() or name
    return words[0].upper() + words[1:]


# The tasks that they become.


class ImportedTask(Struct, frozen=True):
    """A test as a task."""

    task_id: str
    text: str
    steps: int
    statements: int
    missing: tuple[Omission, ...]


def imported_tasks(source: str, file: str, taken: Iterable[str] = ()) -> list[ImportedTask]:
    """The tasks of a file with tests; their ids are unlike those in `taken`. Raises SyntaxError."""
    known = {name.casefold() for name in taken}
    found = []
    module = ast.parse(source, file)
    names = Names(dict(_constants(module.body)))
    for test in [_Reading(file, names).test(function) for function in _functions(module.body)]:
        task_id = _id(test.name, file, known)
        known.add(task_id.casefold())
        found.append(_task(test, task_id, file))
    return found


def _id(name: str, file: str, taken: set[str]) -> str:
    stem = re.sub(r"^test_|_test$", "", file.rpartition("/")[2].removesuffix(".py"))
    bare = re.sub(r"^test_?", "", name) if name != "run" else stem
    bare = (bare or stem).replace("_", "-")
    wanted = (bare, f"{stem}-{bare}".replace("_", "-"), *(f"{bare}-{number}" for number in range(2, 10_000)))
    return next(each for each in wanted if each.casefold() not in taken)


def _task(test: ImportedTest, task_id: str, file: str) -> ImportedTask:
    journey = journey_of(test.actions)
    missing = len(journey.missing)
    unfinished = f"It is not complete: {missing} parts of the test are missing; each has a comment `MISSING` below."
    checks = any(step.keys.get("act") in ("assert", "wait") for step in journey.steps)
    notes = () if journey.criteria or checks else (*_NOTHING_CHECKED, _EXAMPLE)
    text = TaskText(
        head=(f"Imported from {file.rpartition('/')[2]}: {test.name}.", *((unfinished,) if missing else ())),
        keys={"task_id": task_id, "goal": test.goal, **test.keys, "expect_timeout": 5},
        steps=journey.steps,
        criteria=journey.criteria,
        criteria_notes=notes,
    )
    steps = len([step for step in journey.steps if step.keys])
    return ImportedTask(task_id, str(text), steps, test.statements, journey.missing)
