"""Judges one comparison or yes-or-no function, and describes the result in a sentence."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from difflib import unified_diff
from itertools import islice, product
from typing import Protocol

from msgspec import Struct

from harness.criteria.paths import Wildcard, follow, lookup, memory_lookup, segments
from harness.criteria.patterns import Patience
from harness.criteria.syntax import (
    PAGE_FUNCTIONS,
    SHOWN_TEXTS,
    Compare,
    Json,
    Length,
    ListOf,
    Literal,
    ObjectOf,
    PageQuery,
    Part,
    Read,
    Test,
    Value,
    constant,
    oriented,
)
from harness.criteria.texts import fold, look_alike, with_escapes
from harness.criteria.values import moment_in, order_problem, satisfied
from harness.values import replace

_EXPECTED = {"==": "", "!=": "anything but ", "includes": "to include ", "matches": "to match "}


async def check(condition: Compare | Test, reads: Pass) -> Finding:
    """Read what the condition needs, and judge it once."""
    if isinstance(condition, Test):
        return await _question(condition, reads)
    operator, subject, wanted = oriented(condition)
    left, right = await read(subject, reads), await read(wanted, reads)
    holds, note = judge(operator, *_folded(operator, left, right), reads.patience)
    if not holds:
        left, right = _told_apart(operator, left, right)
    fact = _fact(subject, left)
    explained = bool(note) or not (left.matches and right.matches)
    if not holds:
        fact += f", expected {_EXPECTED.get(operator, operator + ' ')}{_expectation(wanted, right)}"
        fact += f" ({note})" if note and note not in fact else ""
    return Finding(holds, condition.source, right.json, left.json, fact, operator == "==", plain=not explained)


def _fact(subject: Value, operand: Operand) -> str:
    if operand.matches:
        return f"{subject.source} is {in_sentence(operand.json)}"
    return f"{subject.source} is missing" + (f" ({operand.note})" if operand.note else "")


def _expectation(wanted: Value, operand: Operand) -> str:
    if constant(wanted):
        return in_sentence(operand.json)
    if not operand.matches:
        return f"{wanted.source}, which is missing" + (f" ({operand.note})" if operand.note else "")
    return f"{in_sentence(operand.json)} (from {wanted.source})"


def _folded(operator: str, left: Operand, right: Operand) -> tuple[Operand, Operand]:
    """Both sides as they are compared: if one is a text that people read, both are folded as Playwright folds them.

    A regular expression sees the text with its lines.
    """
    if operator == "matches" or not (left.shown or right.shown):
        return left, right
    folded = replace(left, matches=tuple(fold(each) if isinstance(each, str) else each for each in left.matches))
    keep = operator == "includes"  # nothing but white space is a part of few texts, and nothing at all of each
    wanted = (fold(each) or (each if keep else "") if isinstance(each, str) else each for each in right.matches)
    return folded, replace(right, matches=tuple(wanted))


def _told_apart(operator: str, left: Operand, right: Operand) -> tuple[Operand, Operand]:
    """Both sides, with escapes for the characters in which two texts differ that look the same."""
    actual, expected = left.json, right.json
    if operator != "==" or not isinstance(actual, str) or not isinstance(expected, str):
        return left, right
    if not look_alike(expected, actual):
        return left, right
    expected, actual = with_escapes(expected, actual)
    return replace(left, matches=(actual,)), replace(right, matches=(expected,))


async def _question(condition: Test, reads: Pass) -> Finding:
    answer = await read(condition.read, reads)
    holds = True in answer.matches
    selector, frame = condition.read.arguments[0], condition.read.frame
    place = "" if frame is None else f" in the frame {frame!r}"
    visibly = "visible " if condition.read.function == "visible" else ""
    message = (
        f"{'an' if holds and not visibly else 'a' if holds else 'no'} {visibly}element matches {selector!r}{place}"
    )
    return Finding(holds, condition.source, expected=True, actual=holds, message=message)


# The difference of two values as a short text.

SHORT = 60
WIDTH = 80
MOST_LINES = 400
SHOWN_LINES = 40
_ADDRESS = re.compile(r"://|[?#&][^\s=]{1,80}=")
"""Matches text that looks like an address, and hardly any other text."""


def difference(expected: Json, actual: Json) -> str:
    """Two lines for short scalars, a bounded unified diff for long or multi-line texts, lists and objects."""
    left, right = _lines(expected), _lines(actual)
    if len(left) == len(right) == 1:
        return "" if left == right else f"- {left[0]}\n+ {right[0]}"
    lines = unified_diff(left[:MOST_LINES], right[:MOST_LINES], "expected", "actual", lineterm="", n=2)
    shown = list(islice(lines, SHOWN_LINES + 1))
    return "\n".join([*shown[:SHOWN_LINES], "..."] if len(shown) > SHOWN_LINES else shown)


def _lines(value: Json) -> list[str]:
    if isinstance(value, list | dict):
        return _wrap_lines(written(value, indent=1))
    if not isinstance(value, str):
        return [written(value)]
    return [value] if "\n" not in value and len(value) <= SHORT else _wrap_lines(value)


def _wrap_lines(text: str) -> list[str]:
    head = text[: WIDTH * MOST_LINES]
    return [piece for line in head.splitlines() for piece in _pieces(line) or [""]]


def _pieces(line: str) -> list[str]:
    """Pieces of at most WIDTH letters. An address stays whole: a broken one can be neither copied nor redacted."""
    breaks = not _ADDRESS.search(line)
    return textwrap.wrap(line, WIDTH, drop_whitespace=False, break_long_words=breaks, break_on_hyphens=breaks)


# The operands of a comparison, and its result.

MOST_PAIRS = 100_000


class Operand(Struct, frozen=True):
    """All matches of a value: usually one, none if it is missing (then `note` says why), many with `*`."""

    matches: tuple[Json, ...]
    note: str = ""
    many: bool = False
    shown: bool = False
    """Whether it is a text that people read on the page."""

    @property
    def json(self) -> Json:
        """The value for reports and memory: null if missing, a list if there may be many."""
        if self.many:
            return list(self.matches)
        return self.matches[0] if self.matches else None


def judge(operator: str, left: Operand, right: Operand, patience: Patience) -> tuple[bool, str]:
    """Return whether any pair of matches satisfies the operator, and if none does, a note about the reason or "".

    A missing side equals a null that is present or written, and satisfies nothing else: two missing sides are not
    equal, so that two mistyped keys never make a green test.
    """
    if not left.matches or not right.matches:
        nulls = any(match is None for match in left.matches + right.matches)
        return operator == "==" and nulls, left.note or right.note
    pairs = product(left.matches, right.matches)
    least = max(MOST_PAIRS, len(left.matches), len(right.matches))
    try:
        if any(satisfied(operator, a, b, patience.seconds) for a, b in islice(pairs, least)):
            return True, ""
    except TimeoutError:
        note = f"the regular expression took more than {patience.seconds:g} s"
        patience.shorten()
        return False, note
    if next(pairs, None):
        return False, f"only the first {least} of {len(left.matches)} times {len(right.matches)} pairs were compared"
    ordering = operator in ("<", "<=", ">", ">=")
    return False, order_problem(left.matches[0], right.matches[0]) if ordering else ""


# Evaluates a value of the syntax tree, in one pass over the sources.


async def read(value: Value, reads: Pass) -> Operand:
    """Read what the value needs. Errors of the sources pass through."""
    match value:
        case Literal(value=constant):
            return Operand((constant,))
        case ListOf(items=items):
            return Operand(([(await read(item, reads)).json for item in items],))
        case ObjectOf(entries=entries):
            return Operand(({key: (await read(item, reads)).json for key, item in entries},))
        case Part() | Length():
            return await _derived(value, reads)
        case Read():
            return await _call(value, reads)
        case Compare():
            operator, left, right = oriented(value)
            sides = _folded(operator, await read(left, reads), await read(right, reads))
            return Operand((judge(operator, *sides, reads.patience)[0],))


async def _call(call: Read, reads: Pass) -> Operand:
    function, arguments = call.function, call.arguments
    if function in PAGE_FUNCTIONS:
        return await _page(call.query, reads)
    if function == "requests":
        return Operand((await reads.requests(arguments[0]),))
    if function == "dialogs":
        return Operand(([each["message"] for each in await reads.dialogs()],))
    if function == "result":
        return await _result(arguments[0], reads)
    if function == "json":
        return await _json(arguments[0], arguments[1], reads)
    entries = await reads.memory()
    return _memory(arguments[0], entries) if function == "mem" else _time(function, arguments[0], entries, reads)


async def _page(query: PageQuery, reads: Pass) -> Operand:
    found, shown = await reads.page(query), query.function in SHOWN_TEXTS
    if found is not None:
        return Operand((found,), shown=shown)
    return Operand((), await _missing(query, reads), shown=shown)


async def _missing(query: PageQuery, reads: Pass) -> str:
    """Why the page has no such value."""
    if query.selector is None:
        return f"the page has no {query.function}"
    if query.function == "text" and (count := await reads.page(query._replace(function="count"))):
        return f"{count} {'element matches' if count == 1 else 'elements match'}, none is shown"
    place = "" if query.frame is None else f" in the frame {query.frame!r}"
    what = f"no element matches {query.selector!r}{place}"
    return what + (f", or it has no {query.name!r}" if query.name is not None else "")


async def _json(name: str, path: str, reads: Pass) -> Operand:
    matches = tuple(lookup(await reads.channel(name), path))
    return Operand(matches, "" if matches else f"nothing is at {path!r} in channel {name!r}", _has_wildcard(path))


async def _result(path: str, reads: Pass) -> Operand:
    matches = tuple(lookup(await reads.result(), path))
    return Operand(matches, "" if matches else f"the tool's answer has nothing at {path!r}", _has_wildcard(path))


def _memory(key: str, entries: Mapping[str, Json]) -> Operand:
    matches = tuple(memory_lookup(entries, key))
    return Operand(matches, "" if matches else f"memory has no {key!r}", key not in entries and _has_wildcard(key))


def _has_wildcard(path: str) -> bool:
    return any(isinstance(segment, Wildcard) for segment in segments(path))


def _time(function: str, key: str, entries: Mapping[str, Json], reads: Pass) -> Operand:
    """Seconds between now and the time that a memory entry holds."""
    entry = _memory(key, entries)
    moments = [moment for match in entry.matches if (moment := moment_in(match)) is not None]
    if entry.matches and not moments:
        return Operand((), f"memory {key!r} holds no ISO time", entry.many)
    sign = 1 if function == "time_since" else -1
    seconds = tuple(sign * (reads.now() - moment).total_seconds() for moment in moments)
    return Operand(seconds, entry.note, entry.many)


async def _derived(value: Part | Length, reads: Pass) -> Operand:
    """An item or a part of `requests(...)` or `dialogs()`, or a length."""
    of = value.of
    if isinstance(value, Length):
        return _length(await read(of, reads), of.source)
    if isinstance(of, Read) and of.function == "dialogs":  # its items are the dialogs themselves, not only their texts
        return _part(Operand(([*await reads.dialogs()],)), value.segment, "no dialog has opened")
    return _part(await read(of, reads), value.segment, "no request matches")


def _part(of: Operand, segment: str | int, none: str) -> Operand:
    """An item or a value of each match; a key made of digits is no index here."""
    matches = tuple(follow(of.json, (segment,))) if of.matches else ()
    note = of.note
    if of.matches and not matches:
        empty = of.json == []
        note = none if empty else f"it has no {segment!r}"
    return Operand(matches, note)


def _length(of: Operand, source: str) -> Operand:
    lengths = tuple(len(match) for match in of.matches if isinstance(match, str | list | dict))
    note = of.note if lengths or not of.matches else f"{source} is not a text, list or object, so it has no length"
    return Operand(lengths, note, of.many)


# The sources of values, and one pass of reading them.


class LateError(Exception):
    """The page did not answer in time: there was no look, so nothing is known. `cause` is the error that says so."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


class Sources(Protocol):
    """What a criterion may read. Errors of these pass through evaluation: unreadable does not mean false."""

    async def page(self, query: PageQuery, until: float) -> Json:
        """exists, visible: bool; count: int; text, text_content, value, attr: text, or None; url, title.

        `text` is that of the first match that is displayed. Raises LateError if the page has not answered at `until`
        (monotonic seconds; infinite: as long as the source itself can wait).
        """
        ...

    async def memory(self) -> Mapping[str, Json]:
        """The exact keys and their values."""
        ...

    async def channel(self, name: str) -> Json:
        """The whole document of an environment channel."""
        ...

    async def requests(self, pattern: str) -> list[Json]:
        """The requests of the pages that match, such as `POST **/api/orders`: method, url, status, json, body."""
        ...

    async def dialogs(self) -> list[dict[str, Json]]:
        """The dialogs of the pages: type, message, answer, text, step."""
        ...

    async def result(self) -> Json:
        """The answer of the tool that the step has called."""
        ...

    def now(self) -> datetime:
        """The world's time, timezone-aware."""
        ...


class Pass:
    """One pass over the sources: nothing is read before it is needed, and nothing is read twice."""

    def __init__(self, sources: Sources, patience: Patience) -> None:
        self._sources = sources
        self.patience = patience
        self.limit = math.inf
        """The end of the present look, in monotonic seconds: a page that is busy until then was not looked at."""
        self._pages: dict[PageQuery, Json] = {}
        self._channels: dict[str, Json] = {}
        self._requests: dict[str, list[Json]] = {}
        self._dialogs: list[dict[str, Json]] | None = None
        self._memory: Mapping[str, Json] | None = None
        self._results: list[Json] = []
        self._now: datetime | None = None

    @contextmanager
    def limited(self, limit: float) -> Iterator[None]:
        """Look no longer than until `limit`, or until an earlier limit that holds already."""
        before, self.limit = self.limit, min(self.limit, limit)
        try:
            yield
        finally:
            self.limit = before

    async def page(self, query: PageQuery) -> Json:
        if query not in self._pages:
            self._pages[query] = await self._sources.page(query, self.limit)
        return self._pages[query]

    async def channel(self, name: str) -> Json:
        if name not in self._channels:
            self._channels[name] = await self._sources.channel(name)
        return self._channels[name]

    async def requests(self, pattern: str) -> list[Json]:
        if pattern not in self._requests:
            self._requests[pattern] = await self._sources.requests(pattern)
        return self._requests[pattern]

    async def dialogs(self) -> list[dict[str, Json]]:
        if self._dialogs is None:
            self._dialogs = await self._sources.dialogs()
        return self._dialogs

    async def memory(self) -> Mapping[str, Json]:
        if self._memory is None:
            self._memory = await self._sources.memory()
        return self._memory

    async def result(self) -> Json:
        if not self._results:
            self._results.append(await self._sources.result())
        return self._results[0]

    def now(self) -> datetime:
        if self._now is None:
            self._now = self._sources.now()
        return self._now


# Judges a criterion, with the reason if it does not hold.

SHOWN = 200


class Explanation(Struct, frozen=True):
    """The smallest failing part: its text, what was expected, what was there, and one sentence about it."""

    expression: str
    expected: Json
    actual: Json
    diff: str
    message: str
    plain: bool = False
    """Whether `expected` and `actual` say all that `message` says."""


class Verdict(Struct, frozen=True):
    """The result of a criterion; `explanation` is set if it does not hold."""

    holds: bool
    explanation: Explanation | None = None
    waited: bool = False
    """Whether it was evaluated more than once."""


class Finding(Struct, frozen=True):
    """The judgement of one part. `message` says what is wrong, or, if the part holds, what is the case."""

    holds: bool
    expression: str
    expected: Json
    actual: Json
    message: str
    differs: bool = False
    plain: bool = False
    """Whether `expected` and `actual` say all that `message` says."""


def written(value: Json, indent: int | None = None) -> str:
    """A value as JSON for reading; a description if its nesting or a number is too long for Python to write."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=indent is not None, default=str)
    except (RecursionError, ValueError):
        return "a value too deep or too long to be shown"


def in_sentence(value: Json) -> str:
    """A value inside a sentence: several lines are folded into one, and a long text is cut."""
    folded = " ".join(value.split()) if isinstance(value, str) and "\n" in value else value
    text = repr(folded) if isinstance(value, str) else written(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"
