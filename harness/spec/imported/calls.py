"""Calls in a test's source: functions, methods, classes, and the step groups that they may become."""

from __future__ import annotations

import ast
from collections.abc import Generator, Mapping
from typing import Any, cast

from harness.spec.imported.expressions import Expressions
from harness.spec.imported.following import ReturnedError
from harness.spec.imported.script import LineSpan, TestScript, steps_of
from harness.spec.imported.values import (
    Class,
    Frame,
    Instance,
    LibraryName,
    Method,
    Native,
    Opaque,
    Quiet,
    Ref,
    SourceFunction,
    Unknown,
    named,
    said,
)
from harness.spec.recorded.locators import UnwritableError

_DEEPEST = 25


class Calls(Expressions):
    """Follows calls."""

    def _of_call(self, node: ast.Call, frame: Frame) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return self._super(frame)
        callee = self.value(node.func, frame)
        if isinstance(callee, Quiet):
            return callee
        args, kwargs = self._arguments(node, frame)
        return self.call(callee, args, kwargs)

    def _super(self, frame: Frame) -> Any:
        around: Frame | None = frame
        while around is not None and (around.function is None or around.function.owner is None):
            around = around.around
        if around is None or around.function is None:
            raise UnwritableError("`super()` outside of a method")
        return Opaque("super", data=(around.function.owner, around.function.receiver))

    def _arguments(self, node: ast.Call, frame: Frame) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        for each in node.args:
            if isinstance(each, ast.Starred):
                args += self.items(self.value(each.value, frame))
            else:
                args.append(self.value(each, frame))
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, frame)
            kwargs |= {keyword.arg: value} if keyword.arg is not None else value
        return args, kwargs

    def call(self, callee: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a call gives. Raises UnwritableError."""
        if isinstance(callee, Quiet) or (isinstance(callee, Unknown) and not callee.acts):
            return callee
        if isinstance(callee, Instance) and isinstance(found := callee.kind.find("__call__"), SourceFunction):
            callee = found.bound(callee)
        match callee:
            case SourceFunction():
                return self._grouped(callee, args, kwargs)
            case Class():
                return self.made(callee, args, kwargs)
            case Native():
                return callee.call(*args, **kwargs)
            case Method() | LibraryName():
                return self._beyond(callee, args, kwargs)
        raise UnwritableError(callee.why if isinstance(callee, Unknown) else f"{named(callee)} is called")

    def _beyond(self, callee: Method | LibraryName, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if isinstance(callee, LibraryName):
            return self.world.library(callee.name, args, kwargs)
        return self.world.invoke(callee.owner, callee.name, args, kwargs)

    def made(self, kind: Class, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """An object of a class."""
        made = Instance(kind)
        if isinstance(found := kind.find("__init__"), SourceFunction):
            self.call(found.bound(made), args, kwargs)
        elif kind.derives_from("Enum", "StrEnum"):
            return Instance(kind, {"value": args[0]})
        else:
            names = [name for each in reversed(list(kind.lineage())) if isinstance(each, Class) for name in each.fields]
            made.names.update(zip(names, args, strict=False))
            made.names.update(kwargs)
            for name in names:
                default = kind.find(name)
                if name not in made.names and isinstance(default, Opaque) and default.kind == "field":
                    made.names[name] = self._default(default.data)
            if isinstance(found := kind.find("__post_init__"), SourceFunction):
                self.call(found.bound(made), [], {})
        return made

    def _default(self, given: Mapping[str, Any]) -> Any:
        if "default_factory" in given:
            return self.call(given["default_factory"], [], {})
        return given.get("default", Unknown("a field without a default"))

    def _grouped(self, function: SourceFunction, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The value of a call. If it makes several steps, they may become a step group."""
        if self.plain_calls or isinstance(function.node, ast.Lambda):
            return self.plainly(function, args, kwargs)
        before, trial = len(self.script.lines), self.script.trial()
        value = self.plainly(function, args, kwargs)
        lines = self.script.lines[before:]
        if len(steps_of(lines)) > 1 and any(line.acts for line in lines) and not any(_is_gap(line) for line in lines):
            name, doc = function.shown, ast.get_docstring(function.node) or ""
            span = LineSpan(name, lines, description=doc.strip().partition("\n")[0])
            try:
                self._template(span, trial, function, self.bound_names(function, args, kwargs))
            except (UnwritableError, ValueError, TypeError, AttributeError, LookupError):
                return value  # without a template the steps stay where they are
            self.script.spans.append(span)
        return value

    def _template(self, span: LineSpan, trial: TestScript, function: SourceFunction, given: dict[str, Any]) -> None:
        """Follow the call once more, with parameters in place of texts."""
        parameters = {
            name: value for name, value in given.items() if isinstance(value, str | Ref) and name.isidentifier()
        }
        receiver = function.receiver
        if isinstance(receiver, Instance):
            receiver = Instance(receiver.kind, dict(receiver.names))
        names = {**given, **{name: Ref(f"${{with.{name}}}") for name in parameters}}
        script, self.script, self.plain_calls = self.script, trial, True
        try:
            for _ in self._followed(function.bound(receiver), names):
                pass
        finally:
            self.script, self.plain_calls = script, False
        if not trial.missing:
            span.template = steps_of(trial.lines)
            span.values = {name: said(value) for name, value in parameters.items()}

    def plainly(self, function: SourceFunction, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The value that a function returns."""
        if isinstance(function.node, ast.Lambda):
            return self.value(function.node.body, self._frame(function, self.bound_names(function, args, kwargs)))
        for _ in (running := self._followed(function, self.bound_names(function, args, kwargs))):
            pass
        return self._returned if running else None

    def generator(self, function: SourceFunction, args: list[Any], kwargs: dict[str, Any]) -> Generator[Any]:
        """A function whose `yield` is waited for."""
        return self._followed(function, self.bound_names(function, args, kwargs))

    _returned: Any = None

    def _followed(self, function: SourceFunction, names: dict[str, Any]) -> Generator[Any]:
        frame = self._frame(function, names)
        self.depth += 1
        if self.depth > _DEEPEST:
            self.depth -= 1
            raise UnwritableError("functions call each other too deeply to be followed")
        returned: Any = None
        try:
            yield from self.run(cast("ast.FunctionDef", function.node).body, frame)
        except ReturnedError as found:
            returned = found.value
        finally:
            self.depth -= 1
            self._returned = returned

    def _frame(self, function: SourceFunction, names: dict[str, Any]) -> Frame:
        return Frame(function.module, names, function.around, function)

    def bound_names(self, function: SourceFunction, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The parameters of a function with their values. Raises UnwritableError."""
        spec = function.node.args
        positional = [each.arg for each in (*spec.posonlyargs, *spec.args)]
        given = [*([function.receiver] if function.receiver is not None else ()), *args]
        if function.receiver is not None and not positional and spec.vararg is None:
            given = args
        names: dict[str, Any] = dict(zip(positional, given, strict=False))
        if spec.vararg is not None:
            names[spec.vararg.arg] = tuple(given[len(positional) :])
        elif len(given) > len(positional) and function.module.file.suffix == ".py":
            raise UnwritableError(f"`{function.shown}` is called with too many arguments")
        keywords = {*positional, *(each.arg for each in spec.kwonlyargs)}
        names |= {name: value for name, value in kwargs.items() if name in keywords}
        rest = {name: value for name, value in kwargs.items() if name not in keywords}
        if spec.kwarg is not None:
            names[spec.kwarg.arg] = rest
        elif rest:
            raise UnwritableError(f"`{function.shown}` has no parameter `{next(iter(rest))}`")
        self._defaults(function, positional, names)
        return names

    def _defaults(self, function: SourceFunction, positional: list[str], names: dict[str, Any]) -> None:
        spec = function.node.args
        defaults = dict(zip(reversed(positional), reversed(spec.defaults), strict=False))
        defaults |= {
            each.arg: default for each, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default
        }
        for name in (*positional, *(each.arg for each in spec.kwonlyargs)):
            if name not in names and name in defaults:
                names[name] = self.value(defaults[name], Frame(function.module, {}, function.around))
            elif name not in names and function.module.file.suffix != ".py":
                names[name] = None
            elif name not in names:
                raise UnwritableError(f"`{function.shown}` is called without `{name}`")


def _is_gap(line: Any) -> bool:
    return not line.keys and bool(line.notes)
