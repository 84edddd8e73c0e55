"""Reads YAML and JSON as task files use them: with one meaning for both, bounded, and the place of every value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import yaml
from msgspec import Struct

from harness.spec.problems import JsonPath

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 50
_MAX_NODES = 100_000
_MAX_DIGITS = 400

_SINGLE = re.compile(r"''|.", re.DOTALL)
_DOUBLE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|.)|.", re.DOTALL)


class Span(Struct, frozen=True):
    """The position of a value in the text, and of the key before it. Offsets count characters."""

    start: int
    end: int
    key: int | None = None


class Flaw(Struct, frozen=True):
    """A part of the text that the format, or this loader, does not allow."""

    offset: int
    message: str
    hint: str = ""


class UnreadableError(ValueError):
    """A text that cannot be parsed into data."""

    def __init__(self, flaws: Iterable[Flaw]) -> None:
        self.flaws = tuple(flaws)
        super().__init__(self.flaws)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, as editors count them."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def offset_in_string(text: str, span: Span, value: str, offset: int) -> int:
    """The offset in the file of the character `offset` of a string value; the string's start if that is uncertain."""
    raw = text[span.start : span.end]
    if raw[:1] == "|":
        return _in_block(raw, span.start, value, offset)
    if "\n" in raw or not raw:
        return span.start
    if raw[0] not in "'\"":
        return span.start + offset
    units = _SINGLE if raw[0] == "'" else _DOUBLE
    starts = [match.start() for match in units.finditer(raw[1:-1])]
    return span.start + 1 + (starts[offset] if offset < len(starts) else len(raw) - 2)


def _in_block(raw: str, start: int, value: str, offset: int) -> int:
    """The same for a literal block (`|`), which has one indented line for each line of the value."""
    number = value.count("\n", 0, offset)
    first = value.rfind("\n", 0, offset) + 1
    wanted = value[first:].partition("\n")[0]
    lines = raw.splitlines(keepends=True)
    if number + 1 >= len(lines):
        return start
    return start + sum(map(len, lines[: number + 1])) + max(lines[number + 1].find(wanted), 0) + offset - first


# JSON without duplicate keys, and the place of every value.

_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
_LONG_NUMBER = re.compile(rf"-?[0-9]{{{_MAX_DIGITS},}}")
# How a message of Python begins -> what to do. 3.13 has a message of its own for trailing commas, with their place.
_ADVICE = {
    "Expecting property name enclosed in double quotes": "write keys in double quotes, and no comma before `}`",
    "Expecting value": "write texts in double quotes, no comma before `]`, and no comments",
    "Illegal trailing comma": "drop the comma",
    "Extra data": "the file holds more than one JSON value",
    "Invalid control character at": r"write line ends and tabs inside a text as \n and \t",
    "Invalid \\escape": r"write a backslash in a text as \\",
}


def read_json(text: str) -> Any:
    """Parse a JSON text. Raises UnreadableError."""
    twice: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            twice.append("")
        return found

    try:
        data = json.loads(text, object_pairs_hook=pairs, parse_constant=_refuse, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise UnreadableError([_json_syntax(text, error)]) from None
    except RecursionError:
        json_spans(text)
        raise
    except _NotJsonError as error:
        place = re.search(rf"(?<![\w.\"]){re.escape(error.word)}", text)
        raise UnreadableError([Flaw(place.start() if place else 0, error.problem)]) from None
    except ValueError:  # Python refuses to read an integer of thousands of digits
        place = _LONG_NUMBER.search(text)
        raise UnreadableError([Flaw(place.start() if place else 0, "the number is too large")]) from None
    if twice or _may_be_large(text):
        json_spans(text)
    return data


class _NotJsonError(Exception):
    def __init__(self, word: str, problem: str) -> None:
        super().__init__(word, problem)
        self.word = word
        self.problem = problem


def _refuse(word: str) -> NoReturn:
    raise _NotJsonError(word, f"`{word}` is not JSON")


def _finite(word: str) -> float:
    value = float(word)
    if math.isinf(value):
        raise _NotJsonError(word, "the number is too large")
    return value


def _may_be_large(text: str) -> bool:
    """Return whether a text may exceed the limits. It is fast: most files have fewer brackets than levels."""
    opened = text.count("{") + text.count("[")
    return opened > MAX_DEPTH or opened + text.count(",") > _MAX_NODES // 2


def _json_syntax(text: str, error: json.JSONDecodeError) -> Flaw:
    if text[error.pos : error.pos + 2] in ("//", "/*"):
        return Flaw(error.pos, "not valid JSON: JSON has no comments", "drop it, or write the task as YAML")
    advice = (advice for message, advice in _ADVICE.items() if error.msg.startswith(message))
    return Flaw(error.pos, f"not valid JSON: {error.msg}", next(advice, ""))


def json_spans(text: str) -> dict[JsonPath, Span]:
    """The position of every value. Raises UnreadableError for duplicate keys and for data too deep or too large."""
    return _Scanner(text).scan()


class _Scanner:
    """Goes through the tokens of a text that `json` has already accepted."""

    def __init__(self, text: str) -> None:
        self._tokens: Iterator[re.Match[str]] = _JSON_TOKEN.finditer(text)
        self._spans: dict[JsonPath, Span] = {}
        self._flaws: list[Flaw] = []
        self._nodes = 0

    def scan(self) -> dict[JsonPath, Span]:
        self._value(next(self._tokens), (), None, 1)
        if self._flaws:
            raise UnreadableError(self._flaws)
        return self._spans

    def _value(self, token: re.Match[str], path: JsonPath, key: int | None, depth: int) -> None:
        self._nodes += 1
        if depth > MAX_DEPTH:
            raise UnreadableError([*self._flaws, Flaw(token.start(), f"nested more than {MAX_DEPTH} levels deep")])
        if self._nodes > _MAX_NODES:
            raise UnreadableError([*self._flaws, Flaw(token.start(), f"more than {_MAX_NODES} values")])
        end = token.end()
        if token[0] == "{":
            end = self._object(path, depth)
        elif token[0] == "[":
            end = self._array(path, depth)
        self._spans[path] = Span(token.start(), end, key)

    def _object(self, path: JsonPath, depth: int) -> int:
        seen: set[str] = set()
        while (token := next(self._tokens))[0] != "}":
            if token[0] == ",":
                continue
            key: str = json.loads(token[0], strict=False)
            if key in seen:
                message = f"the key `{key[:60]}` appears twice"
                self._flaws.append(Flaw(token.start(), message, "keep one of the two"))
            seen.add(key)
            next(self._tokens)
            self._value(next(self._tokens), (*path, key), token.start(), depth + 1)
        return token.end()

    def _array(self, path: JsonPath, depth: int) -> int:
        index = 0
        while (token := next(self._tokens))[0] != "]":
            if token[0] != ",":
                self._value(token, (*path, index), None, depth + 1)
                index += 1
        return token.end()


# YAML as JSON reads: no timestamps, sexagesimals, octals, yes/no, merge keys, tags or duplicate keys.

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's parser in C if it was built, else the slow one in Python."""
_CONSTANTS = {"": None, "~": None} | {
    form: value
    for word, value in {"null": None, "true": True, "false": False}.items()
    for form in (word, word.capitalize(), word.upper())
}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_TEXT_TAGS = ("!", "tag:yaml.org,2002:str")


def read_yaml(text: str, spans: dict[JsonPath, Span] | None = None) -> Any:
    """Parse the single document of a text; `spans` receives all positions. Raises UnreadableError."""
    return _Reader(text, spans).document()


class _Reader:
    """Builds data from parser events, so that depth and size are limited while the data is read."""

    def __init__(self, text: str, spans: dict[JsonPath, Span] | None) -> None:
        self._text = text
        self._spans = spans
        self._flaws: list[Flaw] = []
        self._anchors: dict[str, tuple[Any, int, int]] = {}
        self._nodes = 0
        self._deepest = 0

    def document(self) -> Any:
        try:
            self._loader = LOADER(self._text)
            try:
                return self._read()
            finally:
                self._loader.dispose()
        except yaml.MarkedYAMLError as error:
            raise UnreadableError([*self._flaws, _yaml_syntax(error, self._text)]) from None
        except yaml.reader.ReaderError as error:
            forbidden = yaml.reader.Reader.NON_PRINTABLE.search(self._text)
            place = forbidden.start() if forbidden else 0
            raise UnreadableError([Flaw(place, f"not valid YAML: {error.reason}")]) from None

    def _read(self) -> Any:
        self._loader.get_event()
        if isinstance(self._loader.get_event(), yaml.StreamEndEvent):
            return None
        value = self._node(self._loader.get_event(), (), None, 1)
        self._loader.get_event()
        event: Any = self._loader.get_event()
        if isinstance(event, yaml.DocumentStartEvent):
            self._flaw(event, "the file holds several YAML documents", "split it into several files at `---`")
        if self._flaws:
            raise UnreadableError(self._flaws)
        return value

    def _node(self, event: Any, path: JsonPath, key: int | None, depth: int) -> Any:
        start = event.start_mark.index
        if self._spans is not None:
            self._spans[path] = Span(start, event.end_mark.index, key)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        self._count(1, depth, start)
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
            self._anchor(event, value, self._nodes - 1, depth, depth)
            return value
        return self._collection(event, path, depth)

    def _collection(self, event: Any, path: JsonPath, depth: int) -> Any:
        if event.tag is not None:
            self._flaw(event, f"the tag `{_short(event.tag)}` is not allowed", "task files hold plain data only")
        before, outer, self._deepest = self._nodes - 1, self._deepest, depth
        mapping = isinstance(event, yaml.MappingStartEvent)
        value = self._mapping(path, depth) if mapping else self._sequence(path, depth)
        self._anchor(event, value, before, depth, self._deepest)
        self._deepest = max(outer, self._deepest)
        return value

    def _mapping(self, path: JsonPath, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := self._loader.get_event(), yaml.MappingEndEvent):
            key = self._key(event)
            if key in found:
                self._flaw(event, f"the key `{_short(key)}` appears twice", "keep one of the two")
            found[key] = self._node(self._loader.get_event(), (*path, key), event.start_mark.index, depth + 1)
        return found

    def _sequence(self, path: JsonPath, depth: int) -> list[Any]:
        found: list[Any] = []
        while not isinstance(event := self._loader.get_event(), yaml.SequenceEndEvent):
            found.append(self._node(event, (*path, len(found)), None, depth + 1))
        return found

    def _key(self, event: Any) -> str:
        """Read a key. Keys are texts, as in JSON: `on:` is "on" and `2025:` is "2025"."""
        if not isinstance(event, yaml.ScalarEvent):
            flaw = Flaw(event.start_mark.index, "a key must be a text", "put values that begin with { or [ in quotes")
            raise UnreadableError([*self._flaws, flaw])
        if event.value == "<<" and event.implicit[0]:
            self._flaw(event, "merge keys (`<<`) are not supported", "write the keys out")
        if event.anchor is not None or event.tag not in (None, *_TEXT_TAGS):
            self._flaw(event, "a key takes neither an anchor nor a tag", "task files hold plain data only")
        return str(event.value)

    def _scalar(self, event: Any) -> Any:
        if event.tag is not None:
            if event.tag not in _TEXT_TAGS:
                self._flaw(event, f"the tag `{_short(event.tag)}` is not allowed", "task files hold plain data only")
            return event.value
        return self._plain(event) if event.implicit[0] else event.value

    def _plain(self, event: Any) -> Any:
        """Read an unquoted scalar. Only JSON numbers are numbers: `010`, `12:30` and `+49` stay texts."""
        text: str = event.value
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        number = _NUMBER.fullmatch(text)
        if number is None:
            return text
        value = math.inf if len(text) > _MAX_DIGITS else int(text) if number.lastindex is None else float(text)
        if value in (math.inf, -math.inf):
            self._flaw(event, "the number is too large", "put it in quotes if it is a text")
        return value

    def _anchor(self, event: Any, value: Any, before: int, depth: int, deepest: int) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._nodes - before, deepest - depth)

    def _alias(self, event: Any, depth: int) -> Any:
        """Read an alias. It counts as often as its value, so that ten small lines cannot become a billion values."""
        if event.anchor not in self._anchors:
            flaw = Flaw(event.start_mark.index, f"`*{_short(event.anchor)}` names no anchor above it")
            raise UnreadableError([*self._flaws, flaw])
        value, nodes, height = self._anchors[event.anchor]
        self._count(nodes, depth + height, event.start_mark.index)
        return value

    def _count(self, nodes: int, depth: int, offset: int) -> None:
        self._nodes += nodes
        self._deepest = max(self._deepest, depth)
        if depth > MAX_DEPTH:
            raise UnreadableError([*self._flaws, Flaw(offset, f"nested more than {MAX_DEPTH} levels deep")])
        if self._nodes > _MAX_NODES:
            hint = "look for aliases (`*name`) that multiply"
            raise UnreadableError([*self._flaws, Flaw(offset, f"more than {_MAX_NODES} values", hint)])

    def _flaw(self, event: Any, message: str, hint: str = "") -> None:
        self._flaws.append(Flaw(event.start_mark.index, message, hint))


def _yaml_syntax(error: yaml.MarkedYAMLError, text: str) -> Flaw:
    mark: Any = error.problem_mark or error.context_mark
    offset: int = mark.index if mark else 0
    words = ", ".join(part for part in (error.context, error.problem) if part)
    comment = _comment_in_brackets(text, offset)
    if comment is not None:
        return Flaw(comment, f"not valid YAML: {words}", "in YAML ` #` begins a comment: put the text in quotes")
    if (value := _reference_in_brackets(text, offset)) is not None:
        hint = f'inside of {{ }} and [ ] a text with `${{...}}` needs quotes: write "{value.group().strip()}"'
        return Flaw(value.start(), f"not valid YAML: {words}", hint)
    return Flaw(offset, f"not valid YAML: {words}", _advice(words, text, offset))


def _advice(words: str, text: str, offset: int) -> str:
    if text[offset : offset + 1] == "\t":
        return "indent with spaces, not with tabs"
    if "mapping values are not allowed" in words and (hint := _too_deep(text, offset)):
        return hint
    if "cannot start any token" in words or "mapping values are not allowed" in words:
        return "put the value in quotes"
    if "did not find expected" in words:
        return "check indentation, quotes and brackets here and in the lines above"
    return ""


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


# Frequent YAML mistakes that its parser reports at another place, or in unclear words.

_LOOKED_AT = 50
"""The number of lines above the error that are examined."""
_TOKEN = re.compile(
    r"""(?<![^\s\[{,:])(?:'(?:[^']|'')*'|"(?:[^"\\]|\\.)*")  # a quoted text
        |(?P<hash>(?:(?<=\s)|^)\#[^\n]*)|(?P<open>[\[{])|(?P<close>[]}])""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_KEY = re.compile(r"(?P<indent> *(?:- +)*)(?P<key>[^\s:#'\"\[{&*!|>][^:#]*):(?=\s|$)(?P<value>[^\n]*)")


_PLAIN = r"(?:[^,:\[\]{}\"'\n$]|:(?=\S)|\$(?!\{))*"
_WITH_REFERENCE = re.compile(rf"(?=\S){_PLAIN}(?:\$\{{[^{{}}\n]*\}}{_PLAIN})+")


def _reference_in_brackets(text: str, offset: int) -> re.Match[str] | None:
    """The text without quotes whose `${` YAML takes for a mapping, at the error."""
    if text[offset - 1 : offset + 1] != "${":
        return None
    found = _WITH_REFERENCE.finditer(text, text.rfind("\n", 0, offset) + 1)
    return next((each for each in found if each.start() < offset < each.end()), None)


def _comment_in_brackets(text: str, offset: int) -> int | None:
    """The offset of a `#` that hides the end of a `{` or `[` still open at the error; None if there is none."""
    start = text.rfind("\n", 0, offset) + 1
    for _ in range(_LOOKED_AT):
        if (found := _hidden_comment(text, start, offset)) is not None or start == 0:
            return found
        start = text.rfind("\n", 0, start - 1) + 1
    return None


def _hidden_comment(text: str, start: int, end: int) -> int | None:
    depth, found = 0, None
    for token in _TOKEN.finditer(text, start, end):
        if token["hash"] and depth and found is None:
            found = token.start("hash")
        depth = max(depth + bool(token["open"]) - bool(token["close"]), 0)
        if not depth:
            found = None
    return found


def _too_deep(text: str, offset: int) -> str:
    """A hint for a key, with its colon at the offset, that is indented deeper than the key above; else empty."""
    lines = text[:offset].split("\n")
    above = next((line for line in reversed(lines[:-1]) if line.strip() and not line.lstrip().startswith("#")), "")
    key, neighbour = _KEY.match(lines[-1] + ":"), _KEY.match(above)
    if key is None or neighbour is None or not neighbour["value"].strip():
        return ""
    column = len(neighbour["indent"])
    if len(key["indent"]) <= column:
        return ""
    one, other = key["key"].rstrip(), neighbour["key"].rstrip()
    return f"`{one}` is indented deeper than `{other}` above it: begin both in column {column + 1}"
