"""Python's builtins and its library, as far as tests use them for values. What is not here is not in the source."""

from __future__ import annotations

import csv
import json
import math
import os.path
import re
import string
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.spec.imported import reading
from harness.spec.imported.acts import pause
from harness.spec.imported.locating import snake
from harness.spec.imported.values import (
    Choice,
    Class,
    Instance,
    LibraryName,
    MomentText,
    Native,
    NeedsValueError,
    Opaque,
    PageCheck,
    PageRead,
    PlaceInTest,
    Quiet,
    Ref,
    Regex,
    SourcePage,
    Unknown,
    UnknownValueError,
    joined,
    named,
    plain,
    said,
)
from harness.spec.readers import read_yaml
from harness.spec.recorded.locators import UnwritableError

_QUIET = frozenset(
    [
        "logging",
        "allure",
        "loguru",
        "logger",
        "structlog",
        "warnings",
        "print",
        "pprint",
        "rich",
        "typing",
        "typing_extensions",
        "dotenv",
        "abc",
        "os.makedirs",
        "os.remove",
        "os.mkdir",
        "os.listdir",
        "shutil",
        "tempfile",
        "base64",
        "glob",
        "io",
        "contextlib",
        "pytest_html",
        "pytest_asyncio",
        "sys",
        "traceback",
        "colorama",
        "termcolor",
        "tabulate",
        "inspect",
        "gc",
        "reportportal_client",
    ]
)
"""Libraries that do nothing to a page: what they give is quiet."""
_PURE = frozenset(
    [
        "datetime",
        "random",
        "string",
        "uuid",
        "math",
        "itertools",
        "collections",
        "os",
        "json",
        "yaml",
        "csv",
        "time",
        "faker",
        "re",
        "enum",
        "operator",
        "copy",
        "dataclasses",
        "functools",
        "hashlib",
        "secrets",
        "decimal",
        "urllib",
        "pytest",
        "platform",
        "calendar",
        "pydantic",
        "attr",
        "attrs",
        "textwrap",
        "types",
        "statistics",
        "asyncio",
        "openpyxl",
        "pandas",
        "pathlib",
    ]
)
"""Libraries whose values are not in the source, and do nothing to a page."""
_FLAGS = {"I": "i", "IGNORECASE": "i", "M": "m", "MULTILINE": "m", "S": "s", "DOTALL": "s"}
_UNITS = {"days": "d", "hours": "h", "minutes": "m", "seconds": "s", "weeks": "w"}


def _unique(world: Any) -> Ref:
    """A text that is unlike those of other runs, and of the same test."""
    count = world.script.made_up["unique"] = world.script.made_up.get("unique", 0) + 1
    return Ref(f"${{now | %Y%m%d%H%M%S}}{count if count > 1 else ''}", unique=True)


# Builtins.


def _length(value: Any) -> Any:
    if isinstance(value, PageRead):
        return reading.length_of(value)
    if isinstance(value, Ref):
        raise NeedsValueError(f"the length of `{value.text}` is known only when the task runs")
    if isinstance(value, Unknown | Quiet):
        raise UnknownValueError(f"the length of {named(value)} is known only when the task runs")
    return len(value)


def _number(kind: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def made(value: Any = 0, *rest: Any) -> Any:
        if isinstance(value, PageRead):
            return reading.number_of(value)
        if isinstance(value, Choice):
            return Choice(value.check, made(value.then), made(value.other))
        return value if isinstance(value, Ref | Unknown) else kind(value, *rest)

    return made


def _text(value: Any = "") -> Any:
    if isinstance(value, PageRead | Ref | Unknown):
        return value
    if isinstance(value, str | int | float | bool | None) or value is None:
        return str(value)
    return said(value) if isinstance(value, Instance) else Unknown(f"the text of {named(value)}")


def _any(join: str, decide: Callable[..., bool]) -> Callable[[Any], Any]:
    def made(values: Any) -> Any:
        found = [each for each in values if isinstance(each, PageCheck)]
        rest = [plain(each) for each in values if not isinstance(each, PageCheck)]
        if not found:
            return decide(rest)
        if decide([*rest]) == (join == "ANY") and rest:
            return join == "ANY"
        return PageCheck(f"{join}[{', '.join(each.text for each in found)}]", found[0].line, found[0].page)

    return made


def _is_instance(value: Any, kinds: Any) -> Any:
    """`isinstance`, as far as the kinds are known. Raises UnwritableError."""
    wanted = kinds if isinstance(kinds, tuple | list) else (kinds,)
    if isinstance(value, Instance):
        return any(isinstance(each, Class) and each in value.kind.lineage() for each in wanted)
    if isinstance(value, PageRead | Unknown | Quiet):
        raise UnknownValueError("the kind of a value that is known only when the task runs")
    names = {_name_of_kind(each) for each in wanted}
    own = _KINDS.get(type(value), type(value).__name__)
    return own in names or (own == "bool" and "int" in names)


_KINDS = {
    PlaceInTest: "Locator",
    SourcePage: "Page",
    Ref: "str",
    Regex: "Pattern",
    Path: "Path",
    MomentText: "datetime",
}
"""Symbol -> the name of the class that it stands for."""


def _name_of_kind(kind: Any) -> str:
    if isinstance(kind, Native):
        return next((name for name, each in _BUILTINS.items() if each is kind), "")
    if isinstance(kind, LibraryName):
        return kind.name.rpartition(".")[2]
    if isinstance(kind, Opaque) and kind.kind == "type":
        return str(kind.data)
    if isinstance(kind, Class):
        return f"class {kind.name}"
    raise UnknownValueError("the kind of this value is not in the source")


def _rounded(value: Any, digits: Any = None) -> Any:
    return value if isinstance(value, PageRead | Ref | Unknown) else round(value, digits)


def _concrete(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Python for plain values only. Raises UnwritableError for symbols."""

    def call(*args: Any, **kwargs: Any) -> Any:
        for each in args:
            if isinstance(each, PageRead | PageCheck):
                raise UnwritableError(
                    f"what `{function.__name__}` makes of what a page showed cannot be said in a task"
                )
            if isinstance(each, Ref):
                raise NeedsValueError(f"the value of `{each.text}` is known only when the task runs")
            if isinstance(each, Unknown):
                raise UnknownValueError(each.why)
        return function(*args, **kwargs)

    return call


def _open(path: Any, mode: Any = "r", *_: Any, **__: Any) -> Any:
    """A file of the suite that is read; one that is written is nothing to a page."""
    readable = isinstance(path, str | Path) and isinstance(mode, str) and "r" in mode and Path(path).is_file()
    return Opaque("file", data=Path(path)) if readable else Quiet()


def text_method(text: str, name: str) -> Native:
    """A method of a text. Raises AttributeError for one that texts do not have."""
    if name == "toString":
        return Native(lambda *_: text)
    plainly = _concrete(getattr(text, _IN_PYTHON.get(name, name)))

    def call(*args: Any, **kwargs: Any) -> Any:
        if name == "join" and (
            isinstance(args[0], Ref | Unknown) or not all(isinstance(each, str) for each in args[0])
        ):
            if isinstance(args[0], Ref | Unknown):
                return args[0]
            items = list(args[0])
            if items and all(isinstance(each, Ref) and each.unique for each in items):
                return items[0]
            return joined([part for each in items for part in (text, each)][1:])
        if name == "format" and any(isinstance(each, Ref | PageRead) for each in (*args, *kwargs.values())):
            shown = [Ref("\0" + str(number)) for number in range(len(args))]
            pieces = text.format(*(each.text for each in shown), **{key: f"\0{key}" for key in kwargs}).split("\0")
            if len(args) == 1 and not kwargs and len(pieces) == 2:
                return joined([pieces[0], args[0], pieces[1][1:]])
            raise UnwritableError("write the text with an f-string")
        return plainly(*args, **kwargs)

    return Native(call)


def _unsaid(what: str) -> Any:
    raise UnwritableError(f"a task has no `{what}`")


_IN_PYTHON = {
    "trim": "strip", "toLowerCase": "lower", "toUpperCase": "upper", "startsWith": "startswith", "endsWith": "endswith",
    "replaceAll": "replace",
}  # fmt: skip
"""Method of a text in JavaScript -> in Python."""


def _has_attribute(owner: Any, name: str) -> bool:
    if isinstance(owner, Opaque | SourcePage | PlaceInTest) and getattr(owner, "kind", "") != "config":
        return True
    if not isinstance(owner, Instance):
        raise UnknownValueError(f"whether {named(owner)} has `{name}`")
    return name in owner.names or owner.kind.find(name) is not None


_CLASSES = (
    "Exception", "AssertionError", "ValueError", "TimeoutError", "KeyError", "TypeError", "NotImplementedError", "type",
    "RuntimeError", "property", "staticmethod", "classmethod", "IndexError", "AttributeError", "FileNotFoundError",
    "bytes", "frozenset",
)  # fmt: skip
_BUILTINS: Mapping[str, Any] = {
    "print": Quiet(),
    "len": Native(_length),
    "str": Native(_text),
    "int": Native(_number(int)),
    "float": Native(_number(float)),
    "bool": Native(_concrete(bool)),
    "any": Native(_any("ANY", any)),
    "all": Native(_any("ALL", all)),
    "isinstance": Native(_is_instance),
    "hasattr": Native(_has_attribute),
    "open": Native(_open),
    "round": Native(_rounded),
    "__regex__": Native(Regex),
    "__unsaid__": Native(_unsaid),
    "expect": LibraryName("playwright.sync_api.expect"),
    "test": Quiet(),
    "console": Quiet(),
    "Number": Native(_number(float)),
    "parseFloat": Native(_number(float)),
    "parseInt": Native(_number(int)),
    "String": Native(_text),
    "Boolean": Native(lambda value: value),
    **{name: LibraryName(name) for name in ("Promise", "JSON", "Date", "Math", "Object", "Array")},
    "True": True,
    "False": False,
    "object": LibraryName("builtins.object"),
    "__name__": "tests",
    **{
        function.__name__: Native(_concrete(function))
        for function in (range, enumerate, zip, list, dict, set, tuple, sorted, sum, min, max, abs, reversed)
    },
    **{
        name: LibraryName(f"builtins.{name}")
        for name in _CLASSES
    },
}  # fmt: skip


def builtin(name: str) -> Any:
    """A builtin of Python; None for one that is not known."""
    return _BUILTINS.get(name)


# Functions of libraries.


def _environment(world: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """An environment variable: its value if the user said it, its default, or a reference."""
    name = plain(args[0])
    if name in world.given:
        return world.given[name]
    if name in _UNSET and len(args) == 1:
        return None
    default = args[1] if len(args) > 1 else kwargs.get("default")
    if default is not None and not isinstance(default, Unknown):
        note = f"The environment variable {name} is not read: what the tests take without it stands here."
        if note not in world.script.notes:
            world.script.notes.append(note)
        return default
    return Ref(f"${{env:{name}}}")


_UNSET = ("PYTEST_XDIST_WORKER", "CI", "GITHUB_ACTIONS", "PWDEBUG", "DEBUG", "HEADED")
"""Environment variables that are not set where a test is at home."""


def _compiled(world: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    body = args[0]
    if isinstance(body, LibraryName | Unknown):
        return body
    flags = args[1] if len(args) > 1 else kwargs.get("flags", "")
    return Regex(said(body), flags.name if isinstance(flags, _Flag) else "")


class _Flag:
    """Flags of a regular expression."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __or__(self, other: _Flag) -> _Flag:
        return _Flag(self.name + other.name)


def _matched(how: str) -> Callable[[Any, list[Any], dict[str, Any]], Any]:
    def matched(world: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        pattern, value = args[0], args[1]
        regex = pattern if isinstance(pattern, Regex) else Regex(said(pattern))
        if isinstance(value, PageRead):
            anchored = {"search": regex.body, "match": f"^(?:{regex.body})", "fullmatch": f"^(?:{regex.body})$"}[how]
            return world.invoke(Regex(anchored, regex.flags), "search", [value], {})
        return getattr(re, how)(regex.body, plain(value))

    return matched


def _sleep(world: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    if isinstance(args[0], Unknown):
        return  # a pause of a random length
    pause(world.script, args[0], world.script.state.page)


def _random_number(world: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    low, high = plain(args[0]), plain(args[1])
    return _unique(world) if high - low >= 100 else _fixed(world, low)


def _fixed(world: Any, value: Any) -> Any:
    """One value of those that chance may give."""
    shown = f"`{value}`" if isinstance(value, str | int | float) else "the first of its list"
    note = f"What the test leaves to chance is fixed here: {shown}."
    if note not in world.script.notes:
        world.script.notes.append(note)
    return value


def _chosen(world: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if isinstance(args[0], str):
        return _unique(world)
    if not isinstance(args[0], list | tuple | range) or not args[0]:
        raise UnknownValueError("a choice of what is known only when the test runs")
    return _fixed(world, args[0][0])


def _of_faker(world: Any, name: str) -> Ref:
    count = world.script.made_up[name] = world.script.made_up.get(name, 0) + 1
    return Ref(f"${{fake.{name}{f'#{count}' if count > 1 else ''}}}")


def _path(function: Callable[..., Any]) -> Callable[[Any, list[Any], dict[str, Any]], Any]:
    def made(world: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return function(*args) if all(isinstance(each, str | Path) for each in args) else Quiet()

    return made


def _loaded(read: Callable[[str], Any]) -> Callable[[Any, list[Any], dict[str, Any]], Any]:
    """Data of a text, or of a file of the suite."""

    def made(world: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if isinstance(args[0], str):
            return read(args[0])
        if isinstance(args[0], Opaque) and args[0].kind == "file" and args[0].data.stat().st_size < _MOST_DATA:
            return read(args[0].data.read_text("utf-8-sig"))
        return Unknown("the content of this file is not known")

    return made


_MOST_DATA = 1_000_000


def _delta(world: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    parts = {"days": args[0]} if args else kwargs
    if len(parts) != 1 or not (unit := _UNITS.get(next(iter(parts)))):
        return Unknown("a distance of several units")
    return f"{plain(next(iter(parts.values())))}{unit}"


def _floor(value: Any) -> Any:
    return value if isinstance(value, Ref | Unknown) else math.floor(plain(value))


def _dumped(world: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return json.dumps(plain(args[0]))


_FUNCTIONS: Mapping[str, Callable[[Any, list[Any], dict[str, Any]], Any]] = {
    **dict.fromkeys(("os.getenv", "os.environ.get", "environ.get", "getenv", "os.environ.setdefault"), _environment),
    **dict.fromkeys(("re.compile",), _compiled),
    "re.search": _matched("search"),
    "re.match": _matched("match"),
    "re.fullmatch": _matched("fullmatch"),
    "re.escape": lambda world, args, kwargs: re.escape(plain(args[0])),
    **dict.fromkeys(("time.sleep", "asyncio.sleep"), _sleep),
    **dict.fromkeys(("datetime.datetime.now", "datetime.now", "datetime.date.today", "datetime.datetime.today",
                     "datetime.datetime.utcnow"), lambda world, args, kwargs: MomentText()),
    "datetime.timedelta": _delta,
    **dict.fromkeys(("time.time", "time.time_ns", "uuid.uuid4", "uuid.uuid1", "secrets.token_hex", "time.strftime"),
                    lambda world, args, kwargs: _unique(world)),
    **dict.fromkeys(("random.randint", "random.randrange"), _random_number),
    "random.choice": _chosen,
    "random.choices": lambda world, args, kwargs: _unique(world) if isinstance(args[0], str) else Unknown("a choice"),
    **{f"os.path.{name}": _path(getattr(os.path, name))
       for name in ("join", "dirname", "abspath", "basename")},
    "pathlib.Path": _path(Path),
    **dict.fromkeys(("json.load", "json.loads"), _loaded(json.loads)),
    **dict.fromkeys(("yaml.safe_load", "yaml.load"), _loaded(read_yaml)),
    "csv.DictReader": _loaded(lambda text: list(csv.DictReader(text.splitlines()))),
    "csv.reader": _loaded(lambda text: list(csv.reader(text.splitlines()))),
    "json.dumps": _dumped,
    "urllib.parse.urljoin": lambda world, args, kwargs: _joined(args),
    "pytest.param": lambda world, args, kwargs: args[0] if len(args) == 1 else tuple(args),
    **dict.fromkeys(("dataclasses.field", "pydantic.Field"), lambda world, args, kwargs: Opaque("field", data={
        **({"default": args[0]} if args else {}), **kwargs})),
    "copy.deepcopy": lambda world, args, kwargs: args[0],
    "enum.auto": lambda world, args, kwargs: Opaque("auto"),
    "Date.now": lambda world, args, kwargs: _unique(world),
    "Date": lambda world, args, kwargs: MomentText() if not args else Unknown("a moment"),
    "Math.random": lambda world, args, kwargs: _unique(world),
    "Math.floor": lambda world, args, kwargs: _floor(args[0]),
    "JSON.stringify": lambda world, args, kwargs: json.dumps(plain(args[0])),
    "Object.keys": lambda world, args, kwargs: list(args[0]),
    "Object.values": lambda world, args, kwargs: list(args[0].values()),
    "Object.entries": lambda world, args, kwargs: [list(each) for each in args[0].items()],
    "copy.copy": lambda world, args, kwargs: args[0],
    "asyncio.run": lambda world, args, kwargs: args[0],
    "math.floor": lambda world, args, kwargs: math.floor(plain(args[0])),
    "math.ceil": lambda world, args, kwargs: math.ceil(plain(args[0])),
}  # fmt: skip


def _joined(args: list[Any]) -> Any:
    from urllib.parse import urljoin

    return urljoin(plain(args[0]), plain(args[1])) if plain(args[0]) else plain(args[1])


_SHAPED = ("sentence", "text", "paragraph", "password", "email", "name", "first_name", "last_name", "word", "user_name")
"""Providers of Faker whose arguments only shape the text."""


def _made_up(world: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What a provider of Faker gives, also one of JavaScript: `person.firstName`, `number.int({min, max})`."""
    if args and isinstance(args[0], dict) and not kwargs:
        args, kwargs = [], args[0]
    name = _FAKERS.get(name, snake(name))
    if name == "random_int" and {"min", "max"} <= kwargs.keys():
        return _random_number(world, [kwargs["min"], kwargs["max"]], {})
    if name in ("random_int", "random_number", "bothify", "numerify", "pystr", "uuid4", "random_digit"):
        return _unique(world)
    if (args or kwargs) and name not in _SHAPED:
        return Unknown(f"`{name}` of Faker with arguments")
    return _of_faker(world, name)


_FAKERS = {"fullName": "name", "zipCode": "postcode", "uuid": "uuid4", "int": "random_int", "alphanumeric": "pystr"}
"""Provider of Faker in JavaScript -> in Python."""
_SKIPS = "whether the test is skipped is decided while it runs: write `skip_if`"
_REFUSED = {
    **dict.fromkeys(("pytest.skip", "pytest.xfail", "pytest.importorskip"), _SKIPS),
    "pytest.fail": "the test fails here",
}


def call_library(world: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What a function of a library gives. Raises UnwritableError for one that may do something beyond the page."""
    root, last = name.partition(".")[0], name.rpartition(".")[2]
    if name in _FUNCTIONS:
        return _FUNCTIONS[name](world, args, kwargs)
    if name in ("faker.Faker", "faker"):
        return LibraryName("faker.it")
    if name.startswith(("faker.it.", "fake.")):
        return _made_up(world, last.removeprefix("unique."), args, kwargs)
    if name in _REFUSED:
        raise UnwritableError(_REFUSED[name])
    if root in _QUIET or name in _QUIET:
        return Quiet()
    if root in _PURE or root in ("builtins", "Math", "Date", "JSON", "Object", "Array"):
        return Unknown(f"what `{name}` gives is not in the source", acts=False)
    raise UnwritableError(f"what `{name}` does is not carried over")


def imported_name(name: str) -> Any:
    """What the name of a library stands for."""
    root, last = name.partition(".")[0], name.rpartition(".")[2]
    if root == "re" and last in _FLAGS:
        return _Flag(_FLAGS[last])
    if name == "sys.platform":
        return "linux"
    if name in ("string.ascii_letters", "string.digits", "string.ascii_lowercase", "string.ascii_uppercase"):
        return getattr(string, last)
    return Quiet() if root in _QUIET or name in _QUIET else LibraryName(name)


def moment_method(moment: MomentText, name: str, args: list[Any]) -> Any:
    """A moment as a text. Raises UnwritableError."""
    if name in ("strftime", "__format__") and args and args[0]:
        return Ref(f"${{{moment.text} | {said(args[0])}}}", unique="%f" in args[0] or "%S" in args[0])
    if name in ("isoformat", "__format__", "__str__"):
        return Ref(f"${{{moment.text}}}")
    if name in ("timestamp", "replace", "date", "total_seconds"):
        return Unknown(f"`{name}` of a moment")
    raise UnwritableError(f"`{name}` of a moment cannot be said in a task")
