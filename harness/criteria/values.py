"""Compares two values: equality of their text forms, order of numbers and of ISO dates."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from operator import ge, gt, le, lt
from types import MappingProxyType

import regex

from harness.criteria.patterns import SECONDS, has_match
from harness.criteria.syntax import Json
from harness.criteria.texts import plain

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_IN_TEXT = re.compile(r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+")
_SIGN = regex.compile(r"(?P<sign>[-\u2212]?)(?P<money>\p{Sc}\s?)?(?P<late>[-\u2212]?)\Z")
LONGEST_SIGN = 4
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
    if not isinstance(other, int | float) or not _NUMBER.fullmatch(text.strip()):
        return False
    return Decimal(text.strip()) == _decimal(other)


def _decimal(number: float) -> Decimal | None:
    """The decimal, exact for whole numbers; a float is taken by its shortest form, so that 0.1 equals '0.1'."""
    if isinstance(number, int):
        return Decimal(number)
    return Decimal(repr(number)) if math.isfinite(number) else None


def compare(operator: str, left: Json, right: Json) -> bool:
    """Make one comparison. Null on the left means missing: it equals null and satisfies nothing else.

    Raises ValueError for an unknown operator or a wrong pattern; a pattern that takes too long is false.
    """
    try:
        return satisfied(operator, left, right)
    except TimeoutError:
        return False


def satisfied(operator: str, left: Json, right: Json, seconds: float = SECONDS) -> bool:
    """Like `compare`, but raises TimeoutError for a pattern that takes longer than `seconds`."""
    match operator:
        case "==":
            return equal(left, right)
        case "!=":
            return left is not None and not equal(left, right)
        case "includes":
            return includes(left, right)
        case "matches":
            return _matches(left, right, seconds)
        case _ if operator in _ORDERS:
            return _ordered(operator, left, right)
    raise ValueError(f"unknown operator {operator!r}")


def includes(whole: Json, part: Json) -> bool:
    """A text includes its parts, a list includes its items, an object includes its keys."""
    if isinstance(whole, list):
        return any(equal(item, part) for item in whole)
    wanted = as_text(part)
    if isinstance(whole, dict):
        return wanted in whole
    text = as_text(whole)
    return text is not None and wanted is not None and plain(wanted) in plain(text)


def as_text(value: Json) -> str | None:
    """A scalar as text; None for null, lists and objects."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(_decimal(value)) if isinstance(value, int) else repr(value)
    return value if isinstance(value, str) else None


def _matches(value: Json, pattern: Json, seconds: float) -> bool:
    text = as_text(value)
    return text is not None and isinstance(pattern, str) and has_match(plain(pattern), plain(text), seconds)


def _ordered(operator: str, left: Json, right: Json) -> bool:
    pair = _orderable(left, right)
    return pair is not None and _ORDERS[operator](*pair)


def order_problem(left: Json, right: Json) -> str:
    """The reason why two values have no order, for an explanation; empty if they have one."""
    if _orderable(left, right) is not None:
        return ""
    if moment_in(left) is not None or moment_in(right) is not None:
        return "a date has an order only with another date"
    return "both sides must read as one number, or both as ISO dates"


def _orderable(left: Json, right: Json) -> tuple[Decimal, Decimal] | None:
    moments = moment_in(left), moment_in(right)
    if moments[0] is not None and moments[1] is not None:
        return Decimal(moments[0].timestamp()), Decimal(moments[1].timestamp())
    if moments != (None, None):
        return None
    numbers = number_in(left), number_in(right)
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


def number_in(value: Json) -> Decimal | None:
    """The number that a value is, or the only number in a text: `$24.99`, `1,234.50`, `22/day`, `-$5`.

    The answer is None for two numbers in a text (`3 of 10`, `15:30`) and for a number that belongs to a name
    (`EXP-6631`).
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if not isinstance(value, str):
        return _decimal(value)
    if _NUMBER.fullmatch(value.strip()):
        return Decimal(value.strip())
    numbers = list(islice(_IN_TEXT.finditer(value), 2))
    if len(numbers) != 1:
        return None
    return _signed_number(value, numbers[0])


def _signed_number(text: str, number: re.Match[str]) -> Decimal | None:
    """The number with its sign; None if the text before it makes it part of a name or leaves the sign in doubt."""
    before = text[: number.start()]
    sign = _SIGN.search(before, max(0, len(before) - LONGEST_SIGN))
    rest = before[: sign.start()] if sign else before
    glued = rest[-1:].isalnum() or rest[-1:] in ("_", ".", ",")
    if (glued and not (sign and sign["money"] and not sign["sign"])) or rest.rstrip().endswith(("-", "\u2212")):
        return None
    amount = Decimal(number.group().replace(",", ""))
    return -amount if sign and (sign["sign"] or sign["late"]) else amount
