"""One file of a task: its text, its data, and the position of every value."""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from harness.spec.problems import JsonPath, Problem, Severity, SpecError, describe_value, dotted_path
from harness.spec.readers import (
    MAX_BYTES,
    Flaw,
    Span,
    UnreadableError,
    json_spans,
    line_and_column,
    offset_in_string,
    read_json,
    read_yaml,
)

_NOT_SHOWN = object()
_WIDE = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class Source:
    """A file that was read. Positions are computed when the first one is needed: most files have no problems."""

    file: str
    """The path as shown to people."""
    text: str
    data: Any
    is_json: bool

    @cached_property
    def spans(self) -> Mapping[JsonPath, Span]:
        if self.is_json:
            return json_spans(self.text)
        spans: dict[JsonPath, Span] = {}
        read_yaml(self.text, spans)
        return spans

    def place(self, path: JsonPath, key: bool = False, within: tuple[str, int] | None = None) -> tuple[int, int]:
        """Line and column of a value, of its key, or of a character in it; for an absent value, of the nearest parent.

        `within` is a string value and an offset in it.
        """
        spans = self.spans
        there = path
        while there not in spans:
            there = there[:-1]
        span = spans[there]
        offset = span.start
        if key and there == path and span.key is not None:
            offset = span.key
        elif within is not None and there == path:
            offset = self.offset_within(span, *within)
        return line_and_column(self.text, offset)

    def offset_within(self, span: Span, value: str, offset: int) -> int:
        """The offset in the file of the character `offset` of a string value."""
        return offset_in_string(self.text, span, value, offset)


def place_only(file: str, line: int, column: int) -> Source:
    """A source of one value at a place, for a file that is not YAML: all problems in it are told there."""
    return Source(file, "\n" * (line - 1) + " " * (column - 1) + "x", "x", is_json=False)


def file_label(path: Path) -> str:
    """A path as shown to people: relative if it is below the working directory."""
    return str(path).removeprefix(f"{Path.cwd()}{os.sep}")


def read_source(path: Path) -> Source:
    """Read a JSON file, or a YAML file under any other name. Raises SpecError."""
    file = file_label(path)
    text = read_text(path, file)
    is_json = path.suffix.lower() == ".json"
    if not text.strip():
        raise _bad(file, "the file is empty")
    try:
        data = read_json(text) if is_json else read_yaml(text)
        if "\\ud" in text.lower():
            _check_characters(data)
    except UnreadableError as error:
        raise SpecError(_problem(file, text, flaw) for flaw in error.flaws) from None
    if data is None:
        raise _bad(file, "the file is empty")
    return Source(file, text, data, is_json)


def read_mapping(path: Path) -> Source:
    """Like `read_source`, for a file whose top level must be a mapping."""
    source = read_source(path)
    if not isinstance(source.data, dict):
        raise _bad(source.file, "not a mapping", "keys and values, such as `task_id: ...`", describe_value(source.data))
    return source


def read_text(path: Path, file: str) -> str:
    """The text of a file, which is UTF-8, with `\\n` between its lines. Raises SpecError.

    `file` is the path as shown to people.
    """
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise _bad(file, f"the file cannot be read: {error.strerror or error}") from None
    if len(raw) > MAX_BYTES:
        raise _bad(file, "the file is too large", f"at most {MAX_BYTES // 1024} KiB")
    if raw.startswith(_WIDE):
        raise _bad(file, "the file is not UTF-8", "UTF-8", "UTF-16 or UTF-32", "save it as UTF-8")
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", "replace")
        line, column = line_and_column(before, len(before))
        found = f"the byte 0x{raw[error.start]:02x}"
        problem = Problem(file, line, column, "", "the file is not UTF-8", "UTF-8", found, "save it as UTF-8")
        raise SpecError([problem]) from None


def _check_characters(data: Any) -> None:
    """Refuse half of a surrogate pair (`"\\ud800"`): it is no character and cannot be written to any report."""
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnreadableError([Flaw(0, r"a text holds half of a surrogate pair (\ud800 to \udfff)")]) from None


def _problem(file: str, text: str, flaw: Flaw) -> Problem:
    line, column = line_and_column(text, min(flaw.offset, len(text)))
    return Problem(file, line, column, "", flaw.message, hint=flaw.hint)


def _bad(file: str, message: str, expected: str = "", found: str = "", hint: str = "") -> SpecError:
    return SpecError([Problem(file, 1, 1, "", message, expected, found, hint)])


class Place(Struct, frozen=True):
    """The place of a step that is not where its number says: in a step group, or after one."""

    source: Source | None
    path: JsonPath
    used: tuple[str, ...] = ()
    """File and line of each `use` that leads to it, the nearest first."""
    keys: Mapping[str, JsonPath] = MappingProxyType({})
    """Key of the step -> the path of its value below `path`, where the file has a short form."""
    number: str = ""
    """`4.2`: the second of the steps that stand for one of the file, of which the first is step 4."""

    def at(self, path: JsonPath) -> JsonPath:
        """The path in the file of a value of the step."""
        inner = self.keys.get(str(path[0]), path[:1]) if path else ()
        return (*self.path, *inner, *path[1:])

    @property
    def shown(self) -> str:
        """File and line."""
        return f"{self.source.file}:{self.source.place(self.path)[0]}" if self.source else ""

    def told(self, message: str) -> str:
        """The message, with the places that use this one."""
        return f"{message} (used in {', in '.join(self.used)})" if self.used else message

    def problem(self, path: JsonPath, message: str, **more: Any) -> Problem:
        """Make a problem at a value of the step; `more` is what `Origin.problem` takes."""
        return Origin("", self.source).problem(self.at(path), self.told(message), **more)


class Origin(Struct, frozen=True):
    """The files of one task. Without any (a task made in Python) problems have no place."""

    file: str
    main: Source | None = None
    parts: Mapping[str, tuple[Source, JsonPath]] = field(default_factory=dict)
    """Top-level key -> the other file that it came from, and its path there."""
    places: Mapping[JsonPath, Place] = field(default_factory=dict)
    """Path of a step -> its place, for steps that a `use` has brought or moved."""

    def problem(
        self,
        path: JsonPath,
        message: str,
        *,
        expected: str = "",
        found: str = "",
        hint: str = "",
        key: bool = False,
        within: tuple[str, int] | None = None,
        severity: Severity = "error",
        value: Any = _NOT_SHOWN,
    ) -> Problem:
        """Make a problem at a value, at its key, or at a character of it (`within`: the string and an offset).

        `value`: what was found, if it is shown as JSON has it.
        """
        found = found if value is _NOT_SHOWN else describe_value(value)
        source, there = self.locate(path)
        place = self.place_at(path)
        if place is not None and place.used:
            within, message = None, place.told(message)  # a parameter may have changed the text
        line, column = source.place(there, key, within) if source else (None, None)
        file = source.file if source else self.file
        return Problem(file, line, column, dotted_path(path), message, expected, found, hint, severity)

    def place(self, path: JsonPath) -> str:
        """File and line of a value, as shown to people; only the file if there is no line.

        For a step of a group also those of its `use`.
        """
        source, there = self.locate(path)
        shown = f"{source.file}:{source.place(there)[0]}" if source else self.file
        found = self.place_at(path)
        return found.told(shown) if found else shown

    def file_of(self, key: str) -> str:
        """The file that has a top-level key of the task, as shown to people."""
        source, _ = self.locate((key,))
        return source.file if source else self.file

    def place_at(self, path: JsonPath) -> Place | None:
        """The place of the step that a path leads to or into, if a `use` has brought or moved it."""
        return (self.places.get(path[:2]) or self.places.get(path[:4])) if self.places else None

    def locate(self, path: JsonPath) -> tuple[Source | None, JsonPath]:
        """The file that has the value, and its path there."""
        if found := self.place_at(path):
            return found.source, found.at(path[2 if path[:2] in self.places else 4 :])
        if path and str(path[0]) in self.parts:
            source, above = self.parts[str(path[0])]
            return source, (*above, *path[1:])
        return self.main, path

    def mentions(self, text: str) -> bool:
        """Return whether one of the files contains the text; true without files."""
        sources = (self.main, *(source for source, _ in self.parts.values()), *(p.source for p in self.places.values()))
        return any(source is None or text in source.text for source in sources)
