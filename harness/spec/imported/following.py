"""What a test's source is followed with: the world beyond the language, and what all kinds of nodes need."""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterable
from typing import Any, Protocol

from harness.spec.imported.script import TestScript, steps_of
from harness.spec.imported.values import (
    Class,
    Frame,
    Instance,
    Module,
    Native,
    NeedsValueError,
    PageCheck,
    PageRead,
    Quiet,
    Ref,
    Unknown,
    UnknownValueError,
)
from harness.spec.recorded.locators import UnwritableError


class ReturnedError(Exception):
    """A `return` of a function."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class LoopBrokenError(Exception):
    """A `break`."""


class ContinuedError(Exception):
    """A `continue`."""


class RaisedError(UnwritableError):
    """A `raise` of the source."""


class Beyond(Protocol):
    """What lies beyond the language: Playwright, the library, and the files of the project."""

    def attribute(self, owner: Any, name: str) -> Any:
        """An attribute of a symbol."""

    def invoke(self, owner: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a method of a symbol gives; it may add steps."""

    def library(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a function of a library gives."""

    def builtin(self, name: str) -> Any:
        """A builtin function; None for an unknown one."""

    def imported(self, statement: ast.Import | ast.ImportFrom, module: Module) -> Iterable[tuple[str, Any]]:
        """The names that an import makes."""

    def compared(self, sign: str, left: Any, right: Any) -> Any:
        """The comparison of two values of which one is a symbol."""

    def entered(self, manager: Any) -> Any:
        """What a context manager of Playwright gives."""

    def left(self, manager: Any, before: int) -> None:
        """The end of such a block, which began with the line of this number."""

    def item(self, owner: Any, key: Any) -> Any:
        """An item of a symbol."""

    def put(self, owner: Any, key: Any, value: Any) -> None:
        """An item of a symbol is set."""

    def text_method(self, text: str, name: str) -> Native:
        """A method of a text."""

    def awaited(self, value: Any) -> Any:
        """What is waited for."""

    def arithmetic(self, sign: str, left: Any, right: Any) -> Any:
        """The sum or difference of two values of which one is a symbol."""


class Core:
    """What following a source needs everywhere."""

    def __init__(self, world: Beyond, script: TestScript) -> None:
        self.world = world
        self.script = script
        self.depth = 0
        self.done = 0
        self.plain_calls = False
        """Whether calls make no step groups: inside of a trial."""
        self.asks = False
        """Whether the values of references can be had from elsewhere: then NeedsValueError is raised."""

    def run(self, body: list[ast.stmt], frame: Frame) -> Generator[Any]:
        """Follow statements; yields what they `yield`."""
        raise NotImplementedError

    def value(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an expression. Raises UnwritableError."""
        raise NotImplementedError

    def bind(self, target: ast.expr, value: Any, frame: Frame) -> None:
        """Give a value to a target of an assignment. Raises UnwritableError."""
        raise NotImplementedError

    def call(self, callee: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a call gives. Raises UnwritableError."""
        raise NotImplementedError

    def softly(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an expression that does nothing to the page if it is not known."""
        before = len(self.script.lines)
        try:
            return self.value(node, frame)
        except UnknownValueError as error:
            if self.wants_values(error) or steps_of(self.script.lines[before:]):
                raise
            return Unknown(str(error), acts=False)

    def wants_values(self, error: UnwritableError) -> bool:
        return isinstance(error, NeedsValueError) and "${env:" not in str(error) and (self.asks or self.plain_calls)

    def quietly(self, node: ast.expr, frame: Frame) -> Any:
        try:
            return self.value(node, frame)
        except (UnwritableError, ValueError, TypeError, AttributeError, LookupError) as error:
            return Unknown(str(error))

    def truth(self, value: Any) -> bool:
        """Whether a value is true for Python. Raises UnwritableError if the source does not say it."""
        if isinstance(value, Unknown | Quiet):
            raise UnknownValueError(value.why if isinstance(value, Unknown) else "this is not in the source")
        if isinstance(value, Ref):
            if "${param." not in value.text and "${with." not in value.text:
                return True  # a task refuses a variable that is not set
            raise NeedsValueError(f"whether `{value.text}` is empty is known only when the task runs")
        if isinstance(value, PageRead | PageCheck):
            raise UnwritableError("it depends on what the page shows")
        return bool(value)

    def items(self, value: Any) -> list[Any]:
        """The items of a list that is in the source. Raises UnwritableError."""
        if isinstance(value, Class) and value.derives_from("Enum", "StrEnum"):
            return [Instance(value, {"name": name, "value": each}) for name, each in value.names.items()]
        if isinstance(value, Unknown | Quiet):
            raise UnknownValueError(value.why if isinstance(value, Unknown) else "this list is not in the source")
        if isinstance(value, Ref):
            raise NeedsValueError("the items of a value that is known only when the task runs")
        if isinstance(value, _SEVERAL) or hasattr(value, "__next__"):
            return list(value)
        raise UnwritableError("how many rounds it does depends on what the page shows")


_SEVERAL: tuple[type, ...] = (list, tuple, dict, str, set, range, type({}.items()), type({}.keys()), type({}.values()))
