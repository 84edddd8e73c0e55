"""JSON with duplicate keys refused, and where every value stands."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from harness.spec.problems import Way
from harness.spec.text import MAX_DEPTH, MAX_DIGITS, MAX_NODES, Flaw, Span, UnreadableError

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
_LONG_NUMBER = re.compile(rf"-?[0-9]{{{MAX_DIGITS},}}")
_ADVICE = {
    "Expecting property name enclosed in double quotes": "keys stand in double quotes; no comma before `}`",
    "Expecting value": "texts stand in double quotes; no comma before `]`; JSON has no comments",
    "Illegal trailing comma": "drop the comma",
    "Extra data": "the file holds more than one JSON value",
    "Invalid control character at": r"line ends and tabs inside a text are written \n and \t",
    "Invalid \\escape": r"a backslash in a text is written \\",
}


def read_json(text: str) -> Any:
    """The data. Raises UnreadableError."""
    twice: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            twice.append("")
        return found

    try:
        data = json.loads(text, object_pairs_hook=pairs, parse_constant=_refuse, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise UnreadableError([_syntax(text, error)]) from None
    except RecursionError:
        json_spans(text)
        raise
    except _NotJsonError as error:
        place = re.search(rf"(?<![\w.\"]){re.escape(error.word)}", text)
        raise UnreadableError([Flaw(place.start() if place else 0, error.problem)]) from None
    except ValueError:  # Python refuses to read a whole number of thousands of digits
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
    """Cheap: most files have fewer brackets than levels are allowed."""
    opened = text.count("{") + text.count("[")
    return opened > MAX_DEPTH or opened + text.count(",") > MAX_NODES // 2


def _syntax(text: str, error: json.JSONDecodeError) -> Flaw:
    if text[error.pos : error.pos + 2] in ("//", "/*"):
        return Flaw(error.pos, "not valid JSON: JSON has no comments", "drop it, or write the task as YAML")
    return Flaw(error.pos, f"not valid JSON: {error.msg}", _ADVICE.get(error.msg, ""))


def json_spans(text: str) -> dict[Way, Span]:
    """Where every value stands. Raises UnreadableError for duplicate keys, and for what is too deep or too large."""
    return _Scanner(text).scan()


class _Scanner:
    """Goes over the tokens of a text that `json` has already accepted."""

    def __init__(self, text: str) -> None:
        self._tokens: Iterator[re.Match[str]] = _TOKEN.finditer(text)
        self._spans: dict[Way, Span] = {}
        self._flaws: list[Flaw] = []
        self._nodes = 0

    def scan(self) -> dict[Way, Span]:
        self._value(next(self._tokens), (), None, 1)
        if self._flaws:
            raise UnreadableError(self._flaws)
        return self._spans

    def _value(self, token: re.Match[str], path: Way, key: int | None, depth: int) -> None:
        self._nodes += 1
        if depth > MAX_DEPTH:
            raise UnreadableError([*self._flaws, Flaw(token.start(), f"nested more than {MAX_DEPTH} levels deep")])
        if self._nodes > MAX_NODES:
            raise UnreadableError([*self._flaws, Flaw(token.start(), f"more than {MAX_NODES} values")])
        end = token.end()
        if token[0] == "{":
            end = self._object(path, depth)
        elif token[0] == "[":
            end = self._array(path, depth)
        self._spans[path] = Span(token.start(), end, key)

    def _object(self, path: Way, depth: int) -> int:
        seen: set[str] = set()
        while (token := next(self._tokens))[0] != "}":
            if token[0] == ",":
                continue
            key: str = json.loads(token[0], strict=False)
            if key in seen:
                message = f"the key `{key[:60]}` stands here twice"
                self._flaws.append(Flaw(token.start(), message, "keep one of the two"))
            seen.add(key)
            next(self._tokens)
            self._value(next(self._tokens), (*path, key), token.start(), depth + 1)
        return token.end()

    def _array(self, path: Way, depth: int) -> int:
        index = 0
        while (token := next(self._tokens))[0] != "]":
            if token[0] != ",":
                self._value(token, (*path, index), None, depth + 1)
                index += 1
        return token.end()
