"""Follows the source of a test with symbolic values: its statements."""

from __future__ import annotations

import ast
from collections.abc import Generator
from typing import Any

from harness.spec.imported.calls import Calls
from harness.spec.imported.following import ContinuedError, LoopBrokenError, RaisedError, ReturnedError
from harness.spec.imported.script import LineSpan, steps_of
from harness.spec.imported.values import (
    Choice,
    Class,
    Frame,
    Instance,
    LibraryName,
    NeedsValueError,
    Opaque,
    PageCheck,
    PageRead,
    Quiet,
    SourceFunction,
    Unknown,
    named,
)
from harness.spec.recorded.journey import literal
from harness.spec.recorded.locators import UnwritableError

_MOST_ROUNDS = 100
_MOST_STATEMENTS = 20_000
_TRANSPARENT = ("staticmethod", "classmethod", "property", "cached_property", "abstractmethod", "override", "wraps")
_DECORATING = ("pytest", "pytest_asyncio", "pytest_check", "pytest_bdd", "hypothesis")


class Interpreter(Calls):
    """Follows functions. What cannot be carried over becomes a comment in the script."""

    def run(self, body: list[ast.stmt], frame: Frame) -> Generator[Any]:
        """Follow statements; yields what they `yield`."""
        for number, each in enumerate(body):
            statement = _with_next(each, body[number + 1 : number + 2])
            place = self.script.place
            self.done += 1
            if self.done > _MOST_STATEMENTS:
                raise UnwritableError("the test does too much to be followed")
            self.script.place = f"{frame.module.file.name}:{getattr(statement, 'lineno', 0)}"
            try:
                yield from self._statement(statement, frame)
            except RaisedError:
                raise
            except NeedsValueError as error:
                if self.wants_values(error):
                    raise
                self._omit(statement, str(error), frame)
            except UnwritableError as error:
                self._omit(statement, str(error), frame)
            except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
                self._omit(statement, f"it cannot be followed: {error}", frame)
            finally:
                self.script.place = place

    def _omit(self, statement: ast.stmt, why: str, frame: Frame) -> None:
        """Leave a comment, and forget what the statement would have set."""
        body = isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Try)
        self.script.omit(ast.unparse(statement).partition("\n")[0 if body else 2] or ast.unparse(statement), why)
        self._forget(statement, why, frame)
        defining = isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if not defining and any(isinstance(each, ast.Return) for each in ast.walk(statement)):
            raise ReturnedError(Unknown(why))

    def _forget(self, statement: ast.stmt, why: str, frame: Frame) -> None:
        """What a statement sets is not known."""
        for each in ast.walk(statement):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                frame.names[each.id] = Unknown(why)
            elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                owner = self.quietly(each.value, frame)
                if isinstance(owner, Instance | Class):
                    owner.names[each.attr] = Unknown(why)

    def _statement(self, statement: ast.stmt, frame: Frame) -> Generator[Any]:
        method = getattr(self, f"_{type(statement).__name__.lower()}", None)
        if method is None:
            raise UnwritableError(f"a task has no `{type(statement).__name__.lower()}`")
        result = method(statement, frame)
        if isinstance(result, Generator):
            yield from result

    def _pass(self, statement: ast.Pass, frame: Frame) -> None:
        """Nothing."""

    _global = _nonlocal = _delete = _pass

    def _break(self, statement: ast.Break, frame: Frame) -> None:
        raise LoopBrokenError

    def _continue(self, statement: ast.Continue, frame: Frame) -> None:
        raise ContinuedError

    def _return(self, statement: ast.Return, frame: Frame) -> None:
        raise ReturnedError(None if statement.value is None else self.softly(statement.value, frame))

    def _raise(self, statement: ast.Raise, frame: Frame) -> None:
        raise RaisedError("the test raises an error here")

    def _import(self, statement: ast.Import | ast.ImportFrom, frame: Frame) -> None:
        frame.names.update(self.world.imported(statement, frame.module))

    _importfrom = _import

    def _functiondef(self, statement: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
        around = frame if frame.function is not None else None
        frame.names[statement.name] = self._decorated(statement, SourceFunction(statement, frame.module, around), frame)

    _asyncfunctiondef = _functiondef

    def _decorated(self, node: ast.FunctionDef | ast.AsyncFunctionDef, function: SourceFunction, frame: Frame) -> Any:
        for decorator in node.decorator_list:
            name = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
            root, last = name.partition(".")[0], name.rpartition(".")[2]
            if root not in ("allure", "pytest", "pytest_asyncio") and last not in (*_TRANSPARENT, "setter", "step"):
                found = frame.find(root)[1]
                known = isinstance(found, LibraryName) and found.name.partition(".")[0] in _DECORATING
                if not known and not isinstance(found, Quiet):
                    return Unknown(f"what the decorator `{name}` does is not carried over")
        return function

    def _classdef(self, statement: ast.ClassDef, frame: Frame) -> None:
        bases = tuple(self.quietly(base, frame) for base in statement.bases)
        marked = frozenset(ast.unparse(getattr(each, "func", each)) for each in statement.decorator_list)
        fields = tuple(
            each.target.id
            for each in statement.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        )
        made = Class(statement.name, frame.module, bases, {}, fields, marked)
        inner = Frame(frame.module, made.names, frame)
        for each in statement.body:
            if not isinstance(each, ast.Expr):
                for _ in self.run([each], inner):
                    pass
        for value in made.names.values():
            if isinstance(value, SourceFunction) and value.owner is None:
                value.owner = made
                value.around = frame if frame.function is not None else None
        frame.names[statement.name] = made

    def _expr(self, statement: ast.Expr, frame: Frame) -> Generator[Any]:
        value = statement.value
        if isinstance(value, ast.Yield):
            yield None if value.value is None else self.value(value.value, frame)
        elif isinstance(value, ast.YieldFrom) and isinstance(value.value, ast.Call):
            function = self.value(value.value.func, frame)
            if not isinstance(function, SourceFunction):
                raise UnwritableError("a task has no `yield from`")
            yield from self.generator(function, *self._arguments(value.value, frame))
        elif not isinstance(value, ast.Constant):
            self.value(value, frame)

    def _assign(self, statement: ast.Assign, frame: Frame) -> Generator[Any]:
        if isinstance(statement.value, ast.Yield):
            yield from self._expr(ast.Expr(statement.value), frame)
            return
        value = self.softly(statement.value, frame)
        for target in statement.targets:
            self.bind(target, value, frame)

    def _annassign(self, statement: ast.AnnAssign, frame: Frame) -> None:
        if statement.value is not None:
            self.bind(statement.target, self.softly(statement.value, frame), frame)

    def _augassign(self, statement: ast.AugAssign, frame: Frame) -> None:
        read = ast.parse(ast.unparse(statement.target), mode="eval").body
        self.bind(statement.target, self.value(ast.BinOp(read, statement.op, statement.value), frame), frame)

    def bind(self, target: ast.expr, value: Any, frame: Frame) -> None:
        """Give a value to a target of an assignment. Raises UnwritableError."""
        match target:
            case ast.Name(id=name):
                frame.holder(name)[name] = value
            case ast.Attribute(value=owner, attr=name):
                self._set(self.value(owner, frame), name, value)
            case ast.Subscript(value=owner, slice=key):
                holder = self.value(owner, frame)
                if isinstance(holder, dict | list):
                    holder[self.value(key, frame)] = value
                elif not isinstance(holder, Quiet | Unknown):
                    self.world.put(holder, self.value(key, frame), value)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                self._unpack(targets, value, frame)

    def _unpack(self, targets: list[ast.expr], value: Any, frame: Frame) -> None:
        values = [Unknown(value.why)] * len(targets) if isinstance(value, Unknown) else self.items(value)
        if frame.module.file.suffix != ".py":
            values = [*values, *([None] * len(targets))][: len(targets)]
        if any(isinstance(each, ast.Starred) for each in targets) or len(values) != len(targets):
            raise UnwritableError("the values of this assignment are not in the source")
        for each, one in zip(targets, values, strict=True):
            self.bind(each, one, frame)

    def _set(self, owner: Any, name: str, value: Any) -> None:
        if isinstance(owner, Quiet | Opaque | Unknown):
            return
        if not isinstance(owner, Instance | Class):
            raise UnwritableError(f"{named(owner)} gets an attribute")
        if isinstance(owner, Instance) and isinstance(found := owner.kind.find(f"{name}.setter"), SourceFunction):
            self.call(found.bound(owner), [value], {})
        else:
            owner.names[name] = value

    # Statements with a body.

    def _if(self, statement: ast.If, frame: Frame) -> Generator[Any]:
        test = self.softly(statement.test, frame)
        if isinstance(test, Unknown | Quiet):
            yield from self._aside(statement, test, frame)
            return
        if not isinstance(test, PageCheck | PageRead):
            yield from self.run(statement.body if self.truth(test) else statement.orelse, frame)
            return
        check = test if isinstance(test, PageCheck) else self.world.compared("truth", test, None)
        answers = [_constant_of(part) for part in (statement.body, statement.orelse)]
        if answers in ([True, False], [False, True]):
            raise ReturnedError(
                check if answers[0] else PageCheck(f"NOT[{check.text}]", check.line, check.page, check.api)
            )
        if isinstance(choice := self._choice(check, statement, frame), Choice):
            raise ReturnedError(choice)
        if not statement.orelse:
            yield from self._guarded(statement.body, check.text, frame)
            return
        before = len(self.script.lines)
        yes, no = self._remembered(check)
        yield from self._guarded(statement.body, yes, frame)
        yield from self._guarded(statement.orelse, no, frame)
        if not steps_of(self.script.lines[before:]):
            check.line.keys = {}  # nobody asks for it

    def _remembered(self, check: PageCheck) -> tuple[str, str]:
        """A condition and its opposite, as they are before both branches of an `else`. Raises UnwritableError."""
        if "[" in check.text.partition("(")[0] or check.page != self.script.state.page:
            raise UnwritableError("a task asks for a condition anew for `else`, when it may have changed")
        self.script.remembered += 1
        key = f"if_{self.script.remembered}"
        check.line.keys = {"act": "assert", "expr": "url() != ''", "remember": {key: check.text}}
        return f"mem('{key}') == true", f"mem('{key}') == false"

    def _aside(self, statement: ast.If, test: Any, frame: Frame) -> Generator[Any]:
        """An `if` that nobody can decide: it may stay away if it does nothing to the page."""
        why = test.why if isinstance(test, Unknown) else "its condition is known only when the test runs"
        for body in (statement.body, statement.orelse):
            if not self._is_harmless(body, frame):
                raise UnwritableError(why)
        if any(isinstance(each, ast.Return | ast.Break | ast.Continue) for each in ast.walk(statement)):
            self._returning(statement, why)
        if any(isinstance(each, ast.Yield) for each in ast.walk(statement)):
            yield None
        self._forget(statement, why, frame)

    def _returning(self, statement: ast.If, why: str) -> None:
        if not isinstance(statement.body[-1], ast.Raise):
            raise UnwritableError(why)

    def _is_harmless(self, body: list[ast.stmt], frame: Frame) -> bool:
        """Whether statements do nothing to the page."""
        script, self.script = self.script, self.script.trial()
        inner = Frame(frame.module, dict(frame.names), frame.around, frame.function)
        try:
            for _ in self.run(body, inner):
                pass
        except (ReturnedError, RaisedError, LoopBrokenError, ContinuedError):
            pass
        except NeedsValueError:
            return False
        finally:
            trial, self.script = self.script, script
        return not trial.missing and not steps_of(trial.lines)

    def _guarded(self, body: list[ast.stmt], when: str, frame: Frame) -> Generator[Any]:
        """Statements that are done only if a condition of the page holds."""
        names, state = dict(frame.names), (self.script.state.page, self.script.state.pages)
        function = frame.function.shown if frame.function is not None else "steps"
        with self.script.span(f"{function}-if", when) as span:
            try:
                yield from self.run(body, frame)
            except (ReturnedError, LoopBrokenError, ContinuedError):
                raise UnwritableError("what follows depends on what the page shows") from None
            except RaisedError as error:
                self._unless(when, error)
                return
        if state != (self.script.state.page, self.script.state.pages):
            raise UnwritableError("a page is opened only under a condition")
        for name, value in frame.names.items():
            if names.get(name) is not value:
                frame.names[name] = Unknown(f"whether `{name}` is set depends on what the page shows")
        self._under(span, when)

    def _under(self, span: LineSpan, when: str) -> None:
        """Put the condition at the step, or around several."""
        lines = [line for line in span.lines if line.keys]
        for line in lines:
            line.criterion = ""
        if len(lines) == 1 and "when" not in lines[0].keys:
            lines[0].keys["when"] = when
        elif lines:
            self.script.spans.append(span)

    def _unless(self, when: str, error: RaisedError) -> None:
        """`if CONDITION: raise` says that the condition does not hold."""
        if steps_of(self.script.lines[-1:]) and self.script.lines[-1].acts:
            raise UnwritableError(str(error))
        self.script.check(self.script.checking(f"NOT[{when}]", self.script.state.page))

    def _for(self, statement: ast.For, frame: Frame) -> Generator[Any]:
        given = self.softly(statement.iter, frame)
        if isinstance(given, Unknown | Quiet) and self._is_harmless(statement.body, frame):
            self._forget(statement, "how many rounds there are is not in the source", frame)
            return
        values = self.items(given)
        if len(values) > _MOST_ROUNDS:
            raise UnwritableError(
                f"it does {len(values)} rounds; a task that is written out has at most {_MOST_ROUNDS}"
            )
        for value in values:
            self.bind(statement.target, value, frame)
            try:
                yield from self.run(statement.body, frame)
            except LoopBrokenError:
                return
            except ContinuedError:
                continue
        yield from self.run(statement.orelse, frame)

    _asyncfor = _for

    def _while(self, statement: ast.While, frame: Frame) -> Generator[Any]:
        for _ in range(_MOST_ROUNDS):
            test = self.value(statement.test, frame)
            if isinstance(test, PageCheck | PageRead):
                raise UnwritableError("write the loop with `until` at its step")
            if not self.truth(test):
                return
            try:
                yield from self.run(statement.body, frame)
            except LoopBrokenError:
                return
            except ContinuedError:
                continue
        raise UnwritableError("its end is not in the source")

    def _try(self, statement: ast.Try, frame: Frame) -> Generator[Any]:
        before = len(self.script.lines)
        swallows = not all(map(_fails, statement.handlers))
        try:
            try:
                yield from self.run(statement.body, frame)
            except ReturnedError as found:
                raise ReturnedError(self._tried(statement, before, found.value) if swallows else found.value) from None
            except RaisedError:
                if not swallows or steps_of(self.script.lines[before:]):
                    raise
                yield from self.run(statement.handlers[0].body, frame)
                return
            if swallows:
                self._tried(statement, before, None)
            yield from self.run(statement.orelse, frame)
        finally:
            yield from self.run(statement.finalbody, frame)

    def _tried(self, statement: ast.Try, before: int, value: Any) -> Any:
        """Steps that may fail: one that waits for its element, or is a question. Raises UnwritableError."""
        lines = self.script.lines[before:]
        acting = [line for line in lines if line.keys]
        if not acting:
            return value
        keys = acting[0].keys
        if all(line.keys["act"] == "wait" and ("state" in line.keys or "value" in line.keys) for line in acting):
            for line in acting:
                line.keys = {}  # pauses that may also be shorter
            return value
        if any(line.criterion or "when" in line.keys for line in acting):
            raise UnwritableError("the test goes on when these checks fail: write what must hold")
        if keys.get("selector") and _is_quiet(statement.handlers):
            limit = keys.pop("timeout", 30)
            frame = f", frame={literal(keys['frame'])}" if "frame" in keys else ""
            appears = f"WITHIN({limit:g}, visible({literal(keys['selector'])}{frame}))"
            answers = [_constant_of(handler.body) for handler in statement.handlers]
            if len(acting) == 1 and keys["act"] == "wait" and value is True and set(answers) == {False}:
                acting[0].keys = {}
                return PageCheck(appears, acting[0], acting[0].page)
            if value is None and keys["act"] in ("click", "check", "wait", "press", "scroll", "hover"):
                self._under(LineSpan("if-there", lines, when=appears), appears)
                return value
        raise UnwritableError("the test goes on when these steps fail: write `when` at what may be missing")

    def _with(self, statement: ast.With | ast.AsyncWith, frame: Frame) -> Generator[Any]:
        yield from self._within(list(statement.items), statement.body, frame)

    _asyncwith = _with

    def _within(self, items: list[ast.withitem], body: list[ast.stmt], frame: Frame) -> Generator[Any]:
        if not items:
            yield from self.run(body, frame)
            return
        first, before = items[0], len(self.script.lines)
        generator, value = self._entered(first.context_expr, frame)
        if first.optional_vars is not None:
            self.bind(first.optional_vars, value, frame)
        yield from self._within(items[1:], body, frame)
        if generator is not None:
            for _ in generator:
                pass
        else:
            self.world.left(value, before)

    def _entered(self, node: ast.expr, frame: Frame) -> tuple[Generator[Any] | None, Any]:
        """What a `with` gives, and the rest of a function of the source that gives it."""
        bare = node.value if isinstance(node, ast.Await) else node
        if isinstance(bare, ast.Call) and isinstance(function := self.quietly(bare.func, frame), SourceFunction):
            generator = self.generator(function, *self._arguments(bare, frame))
            return generator, next(generator, None)
        value = self.value(node, frame)
        if isinstance(value, Instance) and isinstance(enter := value.kind.find("__enter__"), SourceFunction):
            return self._exiting(value), self.call(enter.bound(value), [], {})
        return None, self.world.entered(value)

    def _exiting(self, value: Instance) -> Generator[Any]:
        if isinstance(leave := value.kind.find("__exit__"), SourceFunction):
            self.call(leave.bound(value), [None, None, None], {})
        yield

    def _assert(self, statement: ast.Assert, frame: Frame) -> None:
        found = self.value(statement.test, frame)
        if isinstance(found, PageRead):
            found = self.world.compared("truth", found, None)
        if isinstance(found, PageCheck):
            self.script.check(found)
        elif not self.truth(found):
            raise UnwritableError("the assertion is false already in the source")


def _with_next(statement: ast.stmt, following: list[ast.stmt]) -> ast.stmt:
    """`if a: return b` and the `return c` behind it as one statement."""
    match statement:
        case ast.If(body=[ast.Return()], orelse=[]) if following and isinstance(following[0], ast.Return):
            return ast.copy_location(ast.If(statement.test, statement.body, following), statement)
    return statement


def _constant_of(body: list[ast.stmt]) -> bool | None:
    """Whether the body only returns True or False; None for anything else."""
    last = body[-1] if body else None
    if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Constant):
        return None
    return last.value.value if isinstance(last.value.value, bool) and len(body) == 1 else None


def _is_quiet(handlers: list[ast.ExceptHandler]) -> bool:
    """Whether an `except` does nothing but tell, or return."""
    return all(
        isinstance(each, ast.Pass | ast.Return | ast.Continue)
        or "print" in (text := ast.unparse(each))
        or "log" in text
        for handler in handlers
        for each in handler.body
    )


def _fails(handler: ast.ExceptHandler) -> bool:
    """Whether an `except` ends with a failure."""
    last = handler.body[-1] if handler.body else None
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return ast.unparse(last.value.func) in ("pytest.fail", "self.fail")
    if isinstance(last, ast.Assert):
        return isinstance(last.test, ast.Constant) and not last.test.value
    return isinstance(last, ast.Raise)
