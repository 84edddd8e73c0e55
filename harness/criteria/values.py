"""Compares two values: equality of their text forms, order of numbers and of ISO dates."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from operator import ge, gt, le, lt
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from harness.criteria.numbers import MACHINE, read_number, unread
from harness.criteria.patterns import SECONDS, has_match
from harness.criteria.syntax import Json
from harness.criteria.texts import plain

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.,]+(?:Z|[+-][0-9:]+)?)?")
_ORDERS: MappingProxyType[str, Callable[[Decimal, Decimal], bool]] = MappingProxyType(
    {"<": lt, "<=": le, ">": gt, ">=": ge}
)


def equal(a: Json, b: Json) -> bool:
    """Return whether two values are equal; a text equals a number or a boolean that reads the same.

    Numbers are compared numerically, so `'860.0'` and `'007'` equal 860 and 7; two texts must be the same text, except
    that a no-break space equals a space, and that characters which nobody sees do not count. A boolean equals `'true'`
    or `'false'` in any case, and no number. Null equals only null.
    """
    pairs = [(a, b)]  # a document may be nested deeper than Python's stack
    while pairs:
        left, right = pairs.pop()
        if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            pairs += zip(left, right, strict=True)
        elif isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
            pairs += [(left[key], right[key]) for key in left]
        elif isinstance(left, list | dict) or not _are_equal(left, right):
            return False
    return True


def contains(actual: Any, wanted: Any) -> bool:
    """Return whether a value is the wanted one; a wanted mapping may lack keys, at any depth."""
    if isinstance(wanted, dict):
        return isinstance(actual, dict) and all(
            key in actual and contains(actual[key], each) for key, each in wanted.items()
        )
    if isinstance(wanted, list):
        same = isinstance(actual, list) and len(actual) == len(wanted)
        return same and all(map(contains, actual, wanted))
    return equal(actual, wanted)


def _are_equal(a: Json, b: Json) -> bool:
    if isinstance(a, str) != isinstance(b, str):
        text, other = (a, b) if isinstance(a, str) else (b, a)
        return _reads_as(str(text), other)
    if isinstance(a, str) and isinstance(b, str):
        return plain(a) == plain(b)
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def _reads_as(text: str, other: Json) -> bool:
    if isinstance(other, bool):
        return text.strip().lower() == ("true" if other else "false")
    if not isinstance(other, int | float) or not MACHINE.fullmatch(text.strip()):
        return False
    return Decimal(text.strip()) == _decimal(other)


def _decimal(number: float) -> Decimal | None:
    """The decimal, exact for whole numbers; a float is taken by its shortest form, so that 0.1 equals '0.1'."""
    if isinstance(number, int):
        return Decimal(number)
    return Decimal(repr(number)) if math.isfinite(number) else None


class NumberReading(Struct, frozen=True):
    """How texts become numbers: by the browser's locale (None: not declared), except for data of programs."""

    locale: str | None = None
    data: bool = False
    """It is from a channel, a tool or a request: a text that is a number as programs write it is that number."""
    field: bool = False
    """It is the value of a field, or a constant: what the locale cannot read may be as programs write numbers."""

    def number(self, text: str) -> Decimal | None:
        machine = text.strip() if self.data or self.field else ""
        if self.data and MACHINE.fullmatch(machine):
            return Decimal(machine)
        found = read_number(text, self.locale)
        return Decimal(machine) if found is None and self.field and MACHINE.fullmatch(machine) else found


def compare(operator: str, left: Json, right: Json, locale: str | None = None) -> bool:
    """Make one comparison. `!=` is the opposite of `==`, except that null is neither equal to `''` nor different.

    Raises ValueError for an unknown operator or a wrong pattern; a pattern that takes too long is false.
    """
    reading = NumberReading(locale)
    try:
        return satisfied(operator, left, right, readings=(reading, reading))
    except TimeoutError:
        return False


_SAME_READING = (NumberReading(), NumberReading())


def satisfied(
    operator: str,
    left: Json,
    right: Json,
    seconds: float = SECONDS,
    readings: tuple[NumberReading, NumberReading] = _SAME_READING,
) -> bool:
    """Like `compare`, but raises TimeoutError for a pattern that takes longer than `seconds`."""
    match operator:
        case "==":
            return equal(left, right)
        case "!=":
            return not equal(left, right) and not null_and_empty(left, right)
        case "includes":
            return includes(left, right)
        case "matches":
            text = _as_text(left)
            return text is not None and isinstance(right, str) and has_match(plain(right), plain(text), seconds)
        case _ if operator in _ORDERS:
            pair = _orderable(left, right, readings)
            return pair is not None and _ORDERS[operator](*pair)
    raise ValueError(f"unknown operator {operator!r}")


def null_and_empty(a: Json, b: Json) -> bool:
    """Return whether one is null and the other `''`: a value that is not there is neither empty nor filled."""
    return (a is None and b == "") or (b is None and a == "")


def includes(whole: Json, part: Json) -> bool:
    """A text includes its parts, a list includes its items, an object includes its keys."""
    if isinstance(whole, list):
        return any(equal(item, part) for item in whole)
    wanted = _as_text(part)
    if isinstance(whole, dict):
        return wanted in whole
    text = _as_text(whole)
    return text is not None and wanted is not None and plain(wanted) in plain(text)


def _as_text(value: Json) -> str | None:
    """A scalar as text; None for null, lists and objects."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(_decimal(value)) if isinstance(value, int) else repr(value)
    return value if isinstance(value, str) else None


def order_problem(left: Json, right: Json, readings: tuple[NumberReading, NumberReading]) -> str:
    """The reason why two values have no order, for an explanation; empty if they have one."""
    if _orderable(left, right, readings) is not None:
        return ""
    if moment_in(left) is not None or moment_in(right) is not None:
        return "a date has an order only with another date"
    for value, reading in zip((left, right), readings, strict=True):
        if isinstance(value, str) and any(map(str.isdecimal, value)) and reading.number(value) is None:
            return unread(value, reading.locale)
    return "both sides must read as one number, or both as ISO dates"


def _orderable(
    left: Json, right: Json, readings: tuple[NumberReading, NumberReading]
) -> tuple[Decimal, Decimal] | None:
    moments = moment_in(left), moment_in(right)
    if moments[0] is not None and moments[1] is not None:
        return Decimal(moments[0].timestamp()), Decimal(moments[1].timestamp())
    if moments != (None, None):
        return None
    numbers = number_in(left, readings[0]), number_in(right, readings[1])
    return None if numbers[0] is None or numbers[1] is None else (numbers[0], numbers[1])


def moment_in(value: Json) -> datetime | None:
    """An ISO date or time, timezone-aware: UTC if it names no zone, midnight for a date alone."""
    if not isinstance(value, str) or not _DATE.fullmatch(value.strip()):
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def number_in(value: Json, reading: NumberReading) -> Decimal | None:
    """The number that a value is, or the only number in a text; None if it is or has none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return reading.number(value) if isinstance(value, str) else _decimal(value)
