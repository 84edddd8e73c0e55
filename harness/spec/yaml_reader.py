"""YAML as JSON reads: no timestamps, sexagesimals, octals, yes/no, merge keys, tags or duplicate keys (findings, 4)."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from harness.spec.problems import Way
from harness.spec.text import MAX_DEPTH, MAX_DIGITS, MAX_NODES, Flaw, Span, UnreadableError
from harness.spec.yaml_slips import comment_in_brackets, too_deep

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONSTANTS = {"": None, "~": None} | {
    form: value
    for word, value in {"null": None, "true": True, "false": False}.items()
    for form in (word, word.capitalize(), word.upper())
}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_TEXT_TAGS = ("!", "tag:yaml.org,2002:str")


def read_yaml(text: str, spans: dict[Way, Span] | None = None) -> Any:
    """The data of the one document in the text; where everything stands goes into `spans`. Raises UnreadableError."""
    return _Reader(text, spans).document()


class _Reader:
    """Builds data from parser events, so that depth and size are bounded before they hurt."""

    def __init__(self, text: str, spans: dict[Way, Span] | None) -> None:
        self._text = text
        self._spans = spans
        self._flaws: list[Flaw] = []
        self._anchors: dict[str, tuple[Any, int, int]] = {}
        self._nodes = 0
        self._deepest = 0

    def document(self) -> Any:
        try:
            self._loader = _LOADER(self._text)
            try:
                return self._read()
            finally:
                self._loader.dispose()
        except yaml.MarkedYAMLError as error:
            raise UnreadableError([*self._flaws, _syntax(error, self._text)]) from None
        except yaml.reader.ReaderError as error:
            raise UnreadableError([Flaw(_reader_offset(self._text), f"not valid YAML: {error.reason}")]) from None

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

    def _node(self, event: Any, path: Way, key: int | None, depth: int) -> Any:
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

    def _collection(self, event: Any, path: Way, depth: int) -> Any:
        if event.tag is not None:
            self._flaw(event, f"the tag `{_short(event.tag)}` is not allowed", "task files hold plain data only")
        before, outer, self._deepest = self._nodes - 1, self._deepest, depth
        mapping = isinstance(event, yaml.MappingStartEvent)
        value = self._mapping(path, depth) if mapping else self._sequence(path, depth)
        self._anchor(event, value, before, depth, self._deepest)
        self._deepest = max(outer, self._deepest)
        return value

    def _mapping(self, path: Way, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := self._loader.get_event(), yaml.MappingEndEvent):
            key = self._key(event)
            if key in found:
                self._flaw(event, f"the key `{_short(key)}` stands here twice", "keep one of the two")
            found[key] = self._node(self._loader.get_event(), (*path, key), event.start_mark.index, depth + 1)
        return found

    def _sequence(self, path: Way, depth: int) -> list[Any]:
        found: list[Any] = []
        while not isinstance(event := self._loader.get_event(), yaml.SequenceEndEvent):
            found.append(self._node(event, (*path, len(found)), None, depth + 1))
        return found

    def _key(self, event: Any) -> str:
        """Keys are texts, as in JSON: `on:` is "on" and `2025:` is "2025"."""
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
        """A number only where JSON has one: `010`, `12:30` and `+49` stay texts."""
        text: str = event.value
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        number = _NUMBER.fullmatch(text)
        if number is None:
            return text
        value = math.inf if len(text) > MAX_DIGITS else int(text) if number.lastindex is None else float(text)
        if value in (math.inf, -math.inf):
            self._flaw(event, "the number is too large", "put it in quotes if it is a text")
        return value

    def _anchor(self, event: Any, value: Any, before: int, depth: int, deepest: int) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._nodes - before, deepest - depth)

    def _alias(self, event: Any, depth: int) -> Any:
        """An alias counts as often as what it stands for, so ten small lines cannot become a billion values."""
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
        if self._nodes > MAX_NODES:
            hint = "look for aliases (`*name`) that multiply"
            raise UnreadableError([*self._flaws, Flaw(offset, f"more than {MAX_NODES} values", hint)])

    def _flaw(self, event: Any, message: str, hint: str = "") -> None:
        self._flaws.append(Flaw(event.start_mark.index, message, hint))


def _syntax(error: yaml.MarkedYAMLError, text: str) -> Flaw:
    mark: Any = error.problem_mark or error.context_mark
    offset: int = mark.index if mark else 0
    words = ", ".join(part for part in (error.context, error.problem) if part)
    comment = comment_in_brackets(text, offset)
    if comment is not None:
        return Flaw(comment, f"not valid YAML: {words}", "in YAML ` #` begins a comment: put the text in quotes")
    return Flaw(offset, f"not valid YAML: {words}", _advice(words, text, offset))


def _advice(words: str, text: str, offset: int) -> str:
    if text[offset : offset + 1] == "\t":
        return "indent with spaces, not with tabs"
    if "mapping values are not allowed" in words and (hint := too_deep(text, offset)):
        return hint
    if "cannot start any token" in words or "mapping values are not allowed" in words:
        return "put the value in quotes"
    if "did not find expected" in words:
        return "look at indentation, quotes and brackets here and in the lines above"
    return ""


def _reader_offset(text: str) -> int:
    """The first character that YAML does not allow."""
    found = yaml.reader.Reader.NON_PRINTABLE.search(text)
    return found.start() if found else 0


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
