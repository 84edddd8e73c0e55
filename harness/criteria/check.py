"""Judges one comparison or yes-or-no function, and describes the result in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import islice, product

from msgspec import Struct

from harness.criteria.lists import CONTENT, NOTHING, spread
from harness.criteria.numbers import unread
from harness.criteria.paths import ambiguous, follow, list_root, lookup, memory_ambiguous, memory_lookup
from harness.criteria.patterns import first_group
from harness.criteria.sources import Pass
from harness.criteria.syntax import (
    ACCESSIBLE,
    HAPPENINGS,
    MIRRORED,
    PAGE_FUNCTIONS,
    SHOWN_TEXTS,
    STATES,
    Compare,
    Happened,
    Json,
    Length,
    ListOf,
    Literal,
    Number,
    ObjectOf,
    PageQuery,
    Part,
    Read,
    Sum,
    Test,
    Value,
    constant,
    oriented,
)
from harness.criteria.texts import fold, in_sentence, look_alike, plain, with_escapes
from harness.criteria.values import NumberReading, moment_in, null_and_empty, number_in, order_problem, satisfied
from harness.values import replace

_ONE_VALUE = "a list is compared with one value: write `ALL[...]`, `ANY[...]` or `includes`"
_EXPECTED = {"==": "", "!=": "anything but ", "includes": "to include ", "matches": "to match "}


async def check(condition: Compare | Test, reads: Pass) -> Finding:
    """Read what the condition needs, and judge it once."""
    if isinstance(condition, Test):
        return await _question(condition, reads)
    operator, subject, wanted = oriented(condition)
    left, right = await read(subject, reads), await read(wanted, reads)
    judgement = _judged(condition, left, right, reads)
    holds, note = judgement.holds, judgement.note
    if not holds:
        left, right = _told_apart(operator, left, right)
    fact = f"{subject.source} " + (_lack(left) if left.missing else f"is {in_sentence(left.json)}")
    explained = bool(note) or left.missing or right.missing or bool(condition.over)
    if not holds:
        fact += f", expected {_relation(operator, condition.over)}{_expectation(wanted, right)}"
        fact += f" ({note})" if note and note not in fact else ""
    differs = operator == "==" and not condition.over
    return Finding(
        holds, condition.source, right.json, left.json, fact, differs, plain=not explained, decided=judgement.decided
    )


def _judged(condition: Compare, left: Operand, right: Operand, reads: Pass) -> Judgement:
    operator, subject, wanted = oriented(condition)
    left, right = _folded(operator, left, right)
    apart = spread(operator, subject, wanted, (isinstance(left.json, list), isinstance(right.json, list)))
    if not condition.over:
        one = any(apart) and right.json is not None and left.json is not None
        return Judgement(False, _ONE_VALUE, decided=False) if one else _judge(operator, left, right, reads)
    if condition.over == "ALL" and (none := next((side for side in (left, right) if side.many and side.note), None)):
        return Judgement(False, none.note, decided=False)  # a mistyped selector makes no green test
    sides = [side.apart() if each else (side,) for side, each in zip((left, right), apart, strict=True)]
    return _judge_each(operator, sides[0], sides[1], reads, condition.over)


def _relation(operator: str, over: str) -> str:
    if over:
        return f"{'one' if over == 'ANY' else 'each'} of them {operator} "
    return _EXPECTED.get(operator, f"{operator} ")


def _expectation(wanted: Value, operand: Operand) -> str:
    if constant(wanted):
        return in_sentence(operand.json)
    if operand.missing:
        return f"{wanted.source}, which {_lack(operand)}"
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


def _lack(operand: Operand) -> str:
    what = "cannot be read" if operand.unread else "is missing"
    return what + (f" ({operand.note})" if operand.note else "")


async def _question(condition: Test, reads: Pass) -> Finding:
    answer = await read(condition.read, reads)
    holds = True in answer.matches
    selector, place = condition.read.arguments[0], _where(condition.read.query)
    if condition.read.function in STATES:
        state = condition.read.function.replace("_", " ").replace("in viewport", "in the viewport")
        message = f"{selector!r}{place} is {'' if holds else 'not '}{state}" if answer.matches else answer.note
        decided = bool(answer.matches)
        return Finding(holds, condition.source, expected=True, actual=holds, message=message, decided=decided)
    visibly = "visible " if condition.read.function == "visible" else ""
    how_many = "no" if not holds else "a" if visibly else "an"
    message = f"{how_many} {visibly}element matches {selector!r}{place}"
    return Finding(holds, condition.source, expected=True, actual=holds, message=message)


# The operands of a comparison, and its result.

_MOST_PAIRS = 20_000


class Operand(Struct, frozen=True):
    """What a value was read as: one match, or none if it is missing (then `note` says why), or a list with `*`."""

    matches: tuple[Json, ...]
    note: str = ""
    many: bool = False
    """It is the list of what a path with `*` has found, which may be empty."""
    shown: bool = False
    """Whether it is a text that people read on the page."""
    ownerless: bool = False
    """It is missing because nothing is there that could have it: no element, no request."""
    unread: bool = False
    """It is there, but cannot be read as what is wanted, such as a number."""
    reading: NumberReading = NumberReading()

    @property
    def missing(self) -> bool:
        return not self.many and not self.matches

    @property
    def json(self) -> Json:
        """The value for reports and memory: null if missing, a list with `*`."""
        if self.many:
            return list(self.matches)
        return self.matches[0] if self.matches else None

    def apart(self) -> tuple[Operand, ...]:
        """The values of a list, one by one."""
        if not self.many:
            return (self,)
        return tuple(Operand((each,), reading=self.reading) for each in self.matches)


class Judgement(Struct, frozen=True):
    """The result of a comparison."""

    holds: bool
    note: str = ""
    """The reason why it does not hold, unless the values say it all."""
    decided: bool = True
    """Whether it is known not to hold. If not, its opposite does not hold either."""


def _judge(operator: str, left: Operand, right: Operand, reads: Pass) -> Judgement:
    """Make a comparison of two operands; a list is one value here."""
    if left.unread or right.unread:
        return Judgement(False, left.note if left.unread else right.note, decided=False)
    if left.missing or right.missing:
        return _judge_missing(operator, left, right)
    a, b, patience = left.json, right.json, reads.patience
    readings = left.reading, right.reading
    try:
        holds = satisfied(operator, a, b, patience.seconds, readings)
    except TimeoutError:
        note = f"the regular expression took more than {patience.seconds:g} s"
        patience.shorten()
        return Judgement(False, note, decided=False)
    if operator in ("==", "!="):
        return Judgement(holds, decided=not null_and_empty(a, b))
    note = order_problem(a, b, readings) if operator in MIRRORED and not holds else ""
    return Judgement(holds, note, decided=not note)


def _judge_missing(operator: str, left: Operand, right: Operand) -> Judgement:
    """A missing side is null: it equals null, and differs from all other data.

    What asks more of it is not decided, and neither is its opposite, so that a mistyped name makes no green test:
    whether it is empty, whether it equals another missing value, whether it is less, whether it is in a list. Nor is
    anything but null decided about an element or a request that is not there.
    """
    note = left.note or right.note
    other = right if left.missing else left
    if operator in ("==", "!=") and not other.missing and other.json is None:
        return Judgement(operator == "==", note)
    decided = not (left.ownerless or right.ownerless or other.missing)
    if operator in ("==", "!="):
        decided = decided and other.json != ""
        return Judgement(decided and operator == "!=", note, decided)
    return Judgement(False, note, decided and operator not in MIRRORED and not right.missing)


def _judge_each(
    operator: str, lefts: Sequence[Operand], rights: Sequence[Operand], reads: Pass, over: str
) -> Judgement:
    """Compare each value of the one side with each of the other: one pair or all pairs must satisfy the operator."""
    most = max(len(lefts), len(rights)) if 1 in (len(lefts), len(rights)) else _MOST_PAIRS
    pairs, undecided = product(lefts, rights), None
    for left, right in islice(pairs, most):
        found = _judge(operator, left, right, reads)
        if found.holds and over == "ANY":
            return found
        if not found.holds and over == "ALL":
            return found if found.note else replace(found, note=f"{in_sentence(left.json)} is not")
        undecided = undecided or (None if found.decided else found)
    if next(pairs, None):
        note = f"only the first {most} of {len(lefts)} times {len(rights)} pairs were compared"
        return Judgement(False, note, decided=False)
    return undecided or Judgement(over == "ALL")


# Evaluates a value of the syntax tree, in one pass over the sources.


async def read(value: Value, reads: Pass) -> Operand:
    """Read what the value needs. Errors of the sources pass through."""
    match value:
        case Literal(value=constant):
            return Operand((constant,), reading=NumberReading(reads.locale, field=True))
        case ListOf() | ObjectOf():
            return await _whole(value, reads)
        case Sum():
            return await _sum(value, reads)
        case Part() | Length() | Number():
            return await _derived(value, reads)
        case Read():
            return await _call(value, reads)
        case Compare():
            return await _truth(value, reads)


async def _whole(value: ListOf | ObjectOf, reads: Pass) -> Operand:
    """A list or an object of parts; it cannot be read if one of them cannot."""
    items = value.items if isinstance(value, ListOf) else [item for _, item in value.entries]
    parts = [await read(item, reads) for item in items]
    if unreadable := next((part for part in parts if part.unread), None):
        return unreadable
    values = [part.json for part in parts]
    if isinstance(value, ListOf):
        return Operand((values,))
    return Operand((dict(zip((key for key, _ in value.entries), values, strict=True)),))


async def _truth(value: Compare, reads: Pass) -> Operand:
    """True or false; a comparison that is not decided cannot be read."""
    _, left, right = oriented(value)
    judgement = _judged(value, await read(left, reads), await read(right, reads), reads)
    if not judgement.decided:
        return Operand((), judgement.note or f"{value.source} is not known", unread=True)
    return Operand((judgement.holds,))


async def _call(call: Read, reads: Pass) -> Operand:
    function, arguments = call.function, call.arguments
    if function in PAGE_FUNCTIONS:
        return await _page(call.query, reads)
    if function in HAPPENINGS:
        return _happened(await reads.happened(call), HAPPENINGS[function])
    if function == "result":
        return _found(await reads.result(), arguments[0], "the answer has nothing at {!r}", reads)
    if function == "json":
        missing = f"nothing is at {{!r}} in channel {arguments[0]!r}"
        return _found(await reads.channel(arguments[0]), arguments[1], missing, reads)
    entries = await reads.memory()
    return _memory(arguments[0], entries, reads) if function == "mem" else _time(function, arguments[0], entries, reads)


def _happened(found: Happened, name: str | None) -> Operand:
    """The list; it cannot be read if older items are missing. `name`: the value of an item that stands for it."""
    if found.gap:
        return Operand((), found.gap, unread=True)
    return Operand(tuple(each if name is None else each[name] for each in found.items), many=True)


async def _item(of: Read, segment: str | int, reads: Pass) -> Operand:
    """An item of what has happened. The newest ones are there also if older ones are missing."""
    found = await reads.happened(of)
    newest = isinstance(segment, int) and -len(found.items) <= segment < 0
    if found.gap and not newest:
        return Operand((), found.gap, unread=True)
    return _part(Operand(([*found.items],)), segment, NOTHING[of.function])


async def _page(query: PageQuery, reads: Pass) -> Operand:
    found, shown = await reads.page(query), query.function in SHOWN_TEXTS
    if isinstance(found, list):
        note = "" if found or query.function != "texts" else await _missing(query, reads)
        return Operand(tuple(found), note, many=True, reading=NumberReading(reads.locale))
    if found is not None:
        reading = NumberReading(reads.of(query.user).locale, field=query.function == "value")
        return Operand((found,), shown=shown, reading=reading)
    # An element without this attribute is there, and its attribute is null.
    there = query.function in ("attr", "value") and await reads.page(query._replace(function="exists", name=None))
    return Operand((), await _missing(query, reads), shown=shown, ownerless=there is not True)


async def _missing(query: PageQuery, reads: Pass) -> str:
    """Why the page has no such value."""
    if query.selector is None:
        named = f" {query.name!r}" if query.name is not None else ""
        return f"the page{_where(query)} has no {query.function.replace('_', ' ')}{named}"
    of_shown = query.function in (*STATES, "text", "texts", "css", "class", *ACCESSIBLE)
    if of_shown and (count := await reads.page(query._replace(function="count", name=None))):
        return f"{count} {'element matches' if count == 1 else 'elements match'}, none is shown"
    what = f"no element matches {query.selector!r}{_where(query)}"
    return what + (f", or it has no {query.name!r}" if query.name is not None else "")


def _where(query: PageQuery) -> str:
    """The frame, and the user whose page it is, as part of a sentence; empty for the page of the one who acts."""
    frame = "" if query.frame is None else f" in the frame {query.frame!r}"
    return frame + ("" if query.user is None else f" of {query.user}")


def _found(document: Json, path: str, missing: str, reads: Pass) -> Operand:
    """What a path leads to in a document; `missing` says that it leads nowhere."""
    reading, root = NumberReading(reads.locale, data=True), list_root(path)
    if root is None:
        return _one(tuple(lookup(document, path)), ambiguous(document, path), missing.format(path), reading)
    if not any(isinstance(each, list | dict) for each in lookup(document, root)):
        return Operand((), missing.format(root))
    return Operand(tuple(lookup(document, path)), "", many=True, reading=reading)


def _one(matches: tuple[Json, ...], several: str, missing: str, reading: NumberReading) -> Operand:
    if several:
        note = f"several records match {several}: write `{several}[*]` for all of them, `{several}[0]` for the first"
        return Operand((), note, unread=True)
    return Operand(matches, "" if matches else missing, reading=reading)


def _memory(key: str, entries: Mapping[str, Json], reads: Pass) -> Operand:
    matches, reading = tuple(memory_lookup(entries, key)), NumberReading(reads.locale)
    root = None if key in entries else list_root(key)
    if root is None:
        several = memory_ambiguous(entries, key) if len(matches) > 1 else ""
        return _one(matches, several, f"memory has no {key!r}", reading)
    containers = memory_lookup(entries, root) if root else [dict(entries)]
    if not matches and not any(isinstance(each, list | dict) for each in containers):
        return Operand((), f"memory has no {root!r}")
    return Operand(matches, "", many=True, reading=reading)


def _time(function: str, key: str, entries: Mapping[str, Json], reads: Pass) -> Operand:
    """Seconds between now and the time that a memory entry holds."""
    entry = _memory(key, entries, reads)
    moments = [moment for match in entry.matches if (moment := moment_in(match)) is not None]
    if entry.matches and len(moments) < len(entry.matches):
        return Operand((), f"memory {key!r} holds no ISO time", unread=True)
    sign = 1 if function == "time_since" else -1
    seconds = tuple(sign * (reads.now() - moment).total_seconds() for moment in moments)
    return replace(entry, matches=seconds)


def _number(of: Operand, pattern: str, reads: Pass) -> Operand:
    """The number in a text, or in each text of a list. What has none cannot be read."""
    if of.missing:
        return replace(of, unread=True)
    numbers: list[Json] = []
    for match in of.matches:
        found, note = _number_of(match, pattern, of.reading, reads)
        if found is None:
            return Operand((), note, unread=True)
        numbers.append(int(found) if found == found.to_integral_value() else float(found))
    return replace(of, matches=tuple(numbers))


def _number_of(value: Json, pattern: str, reading: NumberReading, reads: Pass) -> tuple[Decimal | None, str]:
    """The number, or the reason why there is none."""
    picked = value
    if pattern and isinstance(value, str):
        try:
            group = first_group(plain(pattern), plain(value), reads.patience.seconds)
        except TimeoutError:
            note = f"the regular expression took more than {reads.patience.seconds:g} s"
            reads.patience.shorten()
            return None, note
        if group is None:
            return None, f"{in_sentence(value)} has nothing that matches {pattern!r}"
        picked = group
    number = number_in(picked, reading)
    why = unread(picked, reading.locale) if isinstance(picked, str) else f"{in_sentence(picked)} is no number"
    return number, "" if number is not None else why


async def _sum(value: Sum, reads: Pass) -> Operand:
    """The sum or the difference of two numbers, which may stand in texts."""
    sides = [_number(await read(side, reads), "", reads) for side in (value.left, value.right)]
    if lacking := next((side for side in sides if not side.matches or side.many), None):
        note = lacking.note or f"{value.source} has a list of values, and adds single ones"
        return Operand((), note, unread=lacking.unread or lacking.many, ownerless=lacking.ownerless)
    left, right = (Decimal(str(side.json)) for side in sides)  # 0.1 + 0.2 is 0.3
    whole = left + right if value.sign == "+" else left - right
    return Operand((int(whole) if whole == whole.to_integral_value() else float(whole),))


async def _derived(value: Part | Length | Number, reads: Pass) -> Operand:
    """An item or a part of `requests(...)`, `dialogs()` and the like, a length, or a number in a text."""
    of = value.of
    if isinstance(value, Length):
        return _length(await read(of, reads), of.source)
    if isinstance(value, Number):
        return _number(await read(of, reads), value.pattern, reads)
    if isinstance(of, Read):
        return await _item(of, value.segment, reads)
    return _part(await read(of, reads), value.segment, "the list is empty")


def _part(of: Operand, segment: str | int, none: str) -> Operand:
    """An item or a value of each match; a key made of digits is no index here."""
    if of.unread:
        return of
    matches = tuple(follow(of.json, (segment,))) if of.matches else ()
    note = of.note
    if not matches and isinstance(of.json, dict) and segment in CONTENT and "unread" in of.json:
        return Operand((), str(of.json["unread"]), unread=True)
    empty = of.json == [] or (isinstance(of.json, list) and isinstance(segment, int))
    if of.matches and not matches:
        note = none if of.json == [] else f"it has no {segment!r}"
    return Operand(matches, note, ownerless=of.ownerless or (empty and not matches), reading=NumberReading(data=True))


def _length(of: Operand, source: str) -> Operand:
    if of.many:
        return Operand((len(of.matches),))
    value = of.json
    if isinstance(value, str | list | dict):
        return Operand((len(value),))
    note = of.note if of.missing else f"{source} is not a text, list or object, so it has no length"
    return Operand((), note, unread=of.unread, ownerless=True)


# Judges a criterion, with the reason if it does not hold.


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
    decided: bool = True
    """False if it does not hold, and its opposite would not hold either: what it is about is not known."""


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
    decided: bool = True
    """Whether it is known not to hold. If not, its opposite does not hold either."""
