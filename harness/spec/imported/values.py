"""What the names of a test stand for while its source is followed: plain values of Python, and the symbols below."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from harness.spec.recorded.locators import Locator, UnwritableError
from harness.spec.references import escape_references

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Unknown(Struct, frozen=True):
    """A value that is not in the source. Only what depends on it cannot be carried over."""

    why: str
    acts: bool = True
    """Whether a call of it may do something that the test needs: then it cannot be left out."""


class Ref(Struct, frozen=True):
    """A text with references, as a task has it: `${env:NAME}/login`."""

    text: str
    unique: bool = False
    """Whether it only has to be unlike those of other runs, so that a part of it does as well."""


class Regex(Struct, frozen=True):
    """A regular expression; `flags` are those of JavaScript."""

    body: str
    flags: str = ""


class SourcePage(Struct, frozen=True):
    """A page of the test, in the order of opening."""

    index: int = 0


class PlaceInTest(Struct, frozen=True):
    """Elements of a page, or a frame if the last part is one."""

    page: int
    parts: Locator = ()


class Opaque(Struct, frozen=True):
    """An object of Playwright or pytest of which there is one: `browser`, `context`, `playwright`, `request`, ..."""

    kind: str
    page: int = 0
    data: Any = None


class LibraryName(Struct, frozen=True):
    """Something of a library, by its dotted name. The table of the library says what a call of it gives."""

    name: str


class Quiet(Struct, frozen=True):
    """Something that does nothing to the page: a logger, a step of Allure."""


class MomentText(Struct, frozen=True):
    """A point in time as a reference has it: `now + 3d`."""

    text: str = "now"


class Module(Struct, eq=False):
    """A file of the project."""

    file: Path
    tree: ast.Module
    names: dict[str, Any] = field(default_factory=dict)


class Frame(Struct, eq=False):
    """The names of a call, and the frame around its function."""

    module: Module
    names: dict[str, Any] = field(default_factory=dict)
    around: Frame | None = None
    function: SourceFunction | None = None

    def find(self, name: str) -> tuple[bool, Any]:
        """Whether the name is known, and its value."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.names:
                return True, frame.names[name]
            frame = frame.around
        return name in self.module.names, self.module.names.get(name)

    def holder(self, name: str) -> dict[str, Any]:
        """The names to which an assignment belongs: in JavaScript those where the name was declared."""
        frame: Frame | None = self
        while self.module.file.suffix != ".py" and frame is not None:
            if name in frame.names:
                return frame.names
            frame = frame.around
        return self.names


class SourceFunction(Struct, eq=False):
    """A function, method or lambda of the source; bound if it has a receiver."""

    node: FunctionNode
    module: Module
    around: Frame | None = None
    owner: Class | None = None
    receiver: Any = None

    @property
    def name(self) -> str:
        return getattr(self.node, "name", "lambda")

    @property
    def shown(self) -> str:
        return f"{self.owner.name}.{self.name}" if self.owner is not None else self.name

    def bound(self, receiver: Any) -> SourceFunction:
        return SourceFunction(self.node, self.module, self.around, self.owner, receiver)


class Class(Struct, eq=False):
    """A class of the source."""

    name: str
    module: Module
    bases: tuple[Any, ...]
    names: dict[str, Any] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    """The names with annotations, in their order."""
    marked: frozenset[str] = frozenset()
    """The names of its decorators."""

    def lineage(self) -> Iterator[Any]:
        """The class and those from which it inherits, the nearest first."""
        yield self
        for base in self.bases:
            yield from base.lineage() if isinstance(base, Class) else (base,)

    def find(self, name: str, *, after: Class | None = None) -> Any:
        """What a name is in the class, or in those after `after`; None if there is none."""
        passed = after is None
        for each in self.lineage():
            if passed and isinstance(each, Class) and name in each.names:
                return each.names[name]
            passed = passed or each is after
        return None

    def derives_from(self, *names: str) -> bool:
        """Whether a base of a library has one of these names."""
        return any(isinstance(each, LibraryName) and each.name.rpartition(".")[2] in names for each in self.lineage())


class Instance(Struct, eq=False):
    """An object of a class of the source."""

    kind: Class
    names: dict[str, Any] = field(default_factory=dict)


class Native(Struct, frozen=True, eq=False):
    """A function that Python itself computes."""

    call: Callable[..., Any]


class Method(Struct, frozen=True):
    """A method of a symbol, not yet called."""

    owner: Any
    name: str


class LineOfTest(Struct, eq=False):
    """A step that the test has led to, or a place for one."""

    keys: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    page: int = 0
    criterion: str = ""
    """For an assertion: what it says. At the end of the test it becomes a success criterion."""
    place: str = ""

    @property
    def acts(self) -> bool:
        return bool(self.keys) and not self.criterion


class PageRead(Struct, eq=False):
    """A value that the test reads from a page, as an expression of a criterion."""

    text: str
    """The expression; `{0}` stands for a value that it is made from."""
    line: LineOfTest | None = None
    """Where it was read; None if it is made from others."""
    made_from: tuple[PageRead, ...] = ()
    kind: str = "text"
    page: int = 0
    ready: str = "url() != ''"
    """What must hold so that it can be read."""


class PageCheck(Struct, eq=False):
    """A condition about a page, as a criterion."""

    text: str
    line: LineOfTest
    page: int = 0
    api: LineOfTest | None = None
    """The `api` step about whose answer it is."""


class Choice(Struct, eq=False):
    """A value that depends on what the page shows."""

    check: PageCheck
    then: Any
    other: Any


class Expectation(Struct, frozen=True):
    """`expect(...)`, not yet with what is expected."""

    actual: Any
    soft: bool = False
    polled: bool = False


class Event(Struct):
    """What a `with page.expect_...()` gives: its `value` is known after the block."""

    kind: str
    page: int = 0
    data: Any = None
    value: Any = None
    before: int = 0
    """The number of lines before the block."""
    over: bool = False


class UnknownValueError(UnwritableError):
    """The source asks for a value that is not known; a name that would stand for it is then unknown too."""


class NeedsValueError(UnknownValueError):
    """The source asks for the value itself where only a reference is known."""


def said(value: Any) -> str:
    """A value as a text of a task, escaped. Raises UnwritableError for a value that is not known."""
    if isinstance(value, Unknown):
        raise UnwritableError(value.why)
    if isinstance(value, Instance) and "value" in value.names and value.kind.derives_from("Enum", "StrEnum"):
        return said(value.names["value"])
    if isinstance(value, PageRead) and (value.line is not None or value.made_from):
        raise UnwritableError("what a page showed is no text that a task could have")
    for kind, write in _WRITTEN.items():
        if isinstance(value, kind):
            return write(value)
    raise UnwritableError(f"{named(value)} is no text that a task could have")


_WRITTEN: Mapping[type, Callable[[Any], str]] = {
    str: lambda value: str(escape_references(value)),
    bool: lambda value: "true" if value else "false",
    int: str,
    float: "{:g}".format,
    Path: lambda value: str(escape_references(str(value))),
    Ref: lambda value: str(value.text),
    PageRead: lambda value: str(value.text),
    MomentText: lambda value: f"${{{value.text}}}",
}


def named(value: Any) -> str:
    """A value in words, for a message."""
    words: Mapping[type, str] = {
        PageRead: "what a page showed",
        PageCheck: "what was true of a page",
        SourcePage: "a page",
        PlaceInTest: "a locator",
        type(None): "`None`",
    }
    if isinstance(value, Instance):
        return f"an object of `{value.kind.name}`"
    return words.get(type(value), f"a value of the kind `{type(value).__name__.lower()}`")


def joined(values: list[Any]) -> Any:
    """Texts one after the other; what is not known remains unknown."""
    if unknown := next((each for each in values if isinstance(each, Unknown)), None):
        return unknown
    if all(isinstance(each, str) for each in values):
        return "".join(values)
    unique = any(isinstance(each, Ref) and each.unique for each in values)
    return Ref("".join(map(said, values)), unique)


def plain(value: Any) -> Any:
    """A value that has no symbol in it. Raises NeedsValueError, UnwritableError."""
    match value:
        case str() | bool() | int() | float() | None:
            return value
        case list() | tuple() | set():
            return [plain(each) for each in value]
        case dict():
            return {plain(key): plain(item) for key, item in value.items()}
        case Unknown():
            raise UnknownValueError(value.why)
        case Ref() | MomentText():
            raise NeedsValueError(f"the value of `{said(value)}` is known only when the task runs")
    raise UnwritableError(f"{named(value)} is no plain value")


def data_of(value: Any) -> Any:
    """A value as the data of a task: texts escaped, references as they are. Raises UnwritableError."""
    match value:
        case bool() | int() | float() | None:
            return value
        case list() | tuple():
            return [data_of(each) for each in value]
        case dict():
            return {said(key): data_of(item) for key, item in value.items()}
    return said(value)
