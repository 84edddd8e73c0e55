"""Reads the number in a text as people of a locale write it, or not at all.

Separators must stand where the locale has them. A sign, a currency, `%` and words after a space may stand beside the
number. A text with a second number, with a letter attached to the number, or with more than one reading has none.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache, lru_cache
from itertools import islice
from typing import Any

import regex
from msgspec import Struct

_DEFAULT_LOCALE = "en-US"
MACHINE = regex.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
"""A number as programs write it."""
_LATIN = "latn"
_UNSEEN = regex.compile("[\u061c\u200b\u200e\u200f\u00ad\u2060-\u2064\ufeff]")
"""Marks of direction, and characters without width."""
_SPACES = str.maketrans("\u00a0\u202f\u2007\u2009\u2019", "    '")
"""What looks like a space to a reader, and the apostrophe, which is written in two ways."""
_FOREIGN_DIGIT = regex.compile(r"(?![0-9])\p{Nd}")
_SIGNS = "-\u2212+"
_DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2212"
_PERCENT = "%\u066a\u2030"
_MONEY_BEFORE = regex.compile(r"(?:(?<!\p{L})\p{L}{1,3})?\p{Sc}\Z")
_MONEY_AFTER = regex.compile(r"\p{Lu}{0,3}\p{Sc}\p{L}{0,3}(?!\p{L})")
_WORD_BEFORE = regex.compile(r"\p{L}[\p{L}.]*\Z")
_WORD_AFTER = regex.compile(r"\p{L}[\p{L}.]*")
_ATTACHED = regex.compile(r"[\p{L}\p{N}\p{M}_]")
_DOUBTFUL = regex.compile(r"[1-9][0-9]{0,2}\.[0-9]{3}")
"""In en-US a fraction of three digits, in much of the world a thousand: only a declared locale says which."""
_LONGEST_AFFIX = 100
_LONGEST_NUMBER = 1_000


class Style(Struct, frozen=True):
    """How a locale writes numbers."""

    decimals: str
    groups: str
    primary: int = 3
    """The digits of the last group before the decimals."""
    secondary: int = 3
    """The digits of the other groups."""
    money: frozenset[str] = frozenset()
    """The signs of currencies that are letters, such as `kr`."""
    multiples: frozenset[str] = frozenset()
    """The words that multiply the number before them, such as `million`."""

    @property
    def number(self) -> regex.Pattern[str]:
        return _number_pattern(self.decimals, self.groups, self.primary, self.secondary)

    @property
    def run(self) -> regex.Pattern[str]:
        return _run_pattern(" " if " " in self.groups else "")


_ENGLISH = Style(
    decimals=".",
    groups=",",
    multiples=frozenset({"k", "K", "M", "B", "T", "mn", "bn", "tn", "thousand", "million", "billion", "trillion"}),
)


@cache
def _number_pattern(decimals: str, groups: str, primary: int, secondary: int) -> regex.Pattern[str]:
    point, group = f"[{regex.escape(decimals)}]", f"[{regex.escape(groups)}]"
    grouped = rf"[0-9]{{1,{secondary}}}(?:(?P<group>{group})[0-9]{{{secondary}}}(?:(?P=group)[0-9]{{{secondary}}})*)?"
    whole = rf"{grouped}(?P<last>{group})[0-9]{{{primary}}}|[0-9]+"
    return regex.compile(rf"(?P<whole>{whole})(?:{point}(?P<rest>[0-9]+))?|{point}(?P<only>[0-9]+)")


@cache
def _run_pattern(space: str) -> regex.Pattern[str]:
    """Digits with everything between them that some locale has within a number."""
    return regex.compile(rf"[0-9]++(?:[.,'\u066b\u066c\u00b7{space}]?[0-9]++)*+")


def read_number(text: str, locale: str | None = None) -> Decimal | None:
    """The only number in the text, as the locale writes it; None if there is none or its reading is in doubt.

    Without a locale it is read as en-US, and what another locale would read as another number is in doubt.
    """
    text = _UNSEEN.sub("", text).translate(_SPACES).strip()
    digit = _FOREIGN_DIGIT.search(text)
    style = _style_of(locale, None if digit is None else chr(ord(digit.group()) - unicodedata.decimal(digit.group())))
    if style is None:
        return None
    if digit is not None:
        text = _FOREIGN_DIGIT.sub(lambda each: str(unicodedata.decimal(each.group())), text)
    runs = list(islice(style.run.finditer(text), 2))
    if len(runs) != 1 or len(runs[0].group()) > _LONGEST_NUMBER:
        return None
    start, end = runs[0].span()
    if text[start - 1 : start] in style.decimals and start and not _ATTACHED.match(text[start - 2 : start - 1]):
        start -= 1
    written = text[start:end]
    amount = _amount(written, style)
    if amount is None or (locale is None and _DOUBTFUL.fullmatch(written)):
        return None
    sign = _sign(text[max(0, start - _LONGEST_AFFIX) : start], text[end : end + _LONGEST_AFFIX], style)
    return None if sign is None else sign * amount


def unread(text: str, locale: str | None) -> str:
    """The reason why the text is no number, for people. It is asked only about texts that are none."""
    told = " ".join(text.split())
    shown = told if len(told) <= _LONGEST_AFFIX else f"{told[:_LONGEST_AFFIX]}..."
    runs = list(islice(_run_pattern("").finditer(_FOREIGN_DIGIT.sub("0", text.translate(_SPACES))), 2))
    mends = []
    if locale is None and any(not each.group().isdigit() for each in runs):
        mends.append("declare `locale`")
    if len(runs) > 1:
        mends.append("pick one number with a group: number(..., '([0-9]+) of')")
    return f"`{shown}` is no number in {locale or _DEFAULT_LOCALE}" + ("; " + ", or ".join(mends) if mends else "")


def _amount(written: str, style: Style) -> Decimal | None:
    found = style.number.fullmatch(written)
    if found is None or (found["group"] and found["group"] != found["last"]):
        return None
    whole = "".join(filter(str.isdigit, found["whole"] or "0"))
    return Decimal(f"{whole}.{found['rest'] or found['only'] or '0'}")


# What stands beside a number: its sign, a currency, a percent sign, brackets, words.


class _Beside(Struct):
    """What was found on one side of a number."""

    rest: str
    sign: str = ""
    money: bool = False
    bracket: bool = False
    doubt: bool = False


def _sign(before: str, after: str, style: Style) -> int | None:
    """1 or -1; None if something beside the number makes it no number, or leaves its sign in doubt."""
    left, right = _left(before, style), _right(after, style)
    money, enclosed = left.money or right.money, left.bracket and right.bracket
    if left.doubt or right.doubt or (left.sign and enclosed) or (left.bracket and money and not enclosed):
        return None
    if enclosed:
        return -1 if money or not (left.rest.strip() or right.rest.strip()) else None
    return -1 if left.sign in ("-", "\u2212") else 1


def _left(before: str, style: Style) -> _Beside:
    """Take off what belongs to the number, from the number outwards."""
    found = _Beside(before)
    while found.rest:
        near = found.rest.rstrip()
        apart = len(near) < len(found.rest)
        if not near:
            break
        if near[-1] in _SIGNS and not found.sign and not apart:
            found.sign, found.rest = near[-1], near[:-1]
        elif near[-1] == "(" and not found.bracket:
            found.bracket, found.rest = True, near[:-1]
        elif near[-1] in _PERCENT:
            found.rest = near[:-1]
        elif not found.money and (money := _money_before(near, style, apart)):
            found.money, found.rest = True, near[: -len(money)]
        else:
            attached = not apart and (_ATTACHED.match(near[-1]) is not None or near[-1] in ".,")
            found.doubt = near[-1] in _DASHES or attached
            break
    return found


def _money_before(near: str, style: Style, apart: bool) -> str:
    """The currency at the end; a word after which a space stands counts only if a sign or bracket belongs to it."""
    if sign := _MONEY_BEFORE.search(near):
        return sign.group()
    word = _WORD_BEFORE.search(near, max(0, len(near) - _LONGEST_AFFIX))
    if word is None:
        return ""
    signed = near[: word.start()][-1:]
    needed = not apart or (signed != "" and signed in _SIGNS + "(")
    return word.group() if needed and _is_currency(word.group(), style) else ""


def _right(after: str, style: Style) -> _Beside:
    found = _Beside(after)
    first = True
    while found.rest:
        near = found.rest.lstrip()
        apart = len(near) < len(found.rest)
        if not near:
            break
        if near[0] in _PERCENT:
            found.rest = near[1:]
        elif near[0] == ")" and not found.bracket:
            found.bracket, found.rest = True, near[1:]
        elif not found.money and (money := _money_after(near, style, apart)):
            found.money, found.rest = True, near[len(money) :]
        else:
            word = _WORD_AFTER.match(near)
            multiple = word is not None and word.group().rstrip(".") in style.multiples
            attached = not apart and first and (_ATTACHED.match(near) is not None or near[0] in _DASHES)
            found.doubt = multiple or attached or (len(near) == 1 and near in _DASHES)
            break
        first = False
    return found


def _money_after(near: str, style: Style, apart: bool) -> str:
    if sign := _MONEY_AFTER.match(near):
        return sign.group()
    word = _WORD_AFTER.match(near)
    needed = not apart or ")" in near
    return word.group() if word and needed and _is_currency(word.group(), style) else ""


def _is_currency(word: str, style: Style) -> bool:
    if word in style.money:
        return True
    return len(word) == 3 and word.isascii() and word.isupper() and word in _codes()


# What Babel knows about locales. It is imported for the first text that needs it.


@cache
def _codes() -> frozenset[str]:
    from babel.numbers import list_currencies

    return frozenset(list_currencies())


@lru_cache(maxsize=256)
def _style_of(locale: str | None, zero: str | None = None) -> Style | None:
    """How the locale writes numbers, with the digits of this zero; None if it does not, or is not known."""
    if locale is None or locale.replace("_", "-") in ("en", _DEFAULT_LOCALE):
        return _ENGLISH if zero is None else None
    known = _babel_locale(locale)
    if known is None:
        return None
    system = _LATIN if zero is None else _system(zero, known.number_symbols)
    symbols: Mapping[str, str] = known.number_symbols.get(system) or {}
    if not symbols:
        return None
    primary, secondary = known.decimal_formats[None].grouping
    decimals = {symbols["decimal"], symbols.get("currencyDecimal", symbols["decimal"])}
    groups = {symbols["group"], symbols.get("currencyGroup", symbols["group"])} - decimals
    return Style(
        decimals="".join(sorted(decimals)).translate(_SPACES),
        groups="".join(sorted(groups)).translate(_SPACES),
        primary=primary,
        secondary=secondary,
        money=frozenset(_UNSEEN.sub("", each) for each in known.currency_symbols.values()),
        multiples=frozenset(_multiples(known)) | _ENGLISH.multiples,
    )


def _babel_locale(name: str) -> Any:
    """Babel's locale of this name, or of its language alone; None if it has neither."""
    from babel import Locale, UnknownLocaleError

    parts = name.replace("_", "-").split("-u-")[0].split("-")
    for end in range(len(parts), 0, -1):
        try:
            return Locale.parse("_".join(parts[:end]))
        except (UnknownLocaleError, ValueError):
            continue
    return None


def _system(zero: str, symbols: Mapping[str, Any]) -> str:
    """The name of the numbering system, such as `arab`, if the locale has symbols for it."""
    return next((name for name, first in _ZEROS.items() if first == zero and name in symbols), "")


_ZEROS = {  # Babel has no such table; these are the systems that some locale has by default
    "arab": "\u0660",
    "arabext": "\u06f0",
    "deva": "\u0966",
    "beng": "\u09e6",
    "mymr": "\u1040",
    "tibt": "\u0f20",
    "cakm": "\U00011136",
    "adlm": "\U0001e950",
    "olck": "\u1c50",
    "nkoo": "\u07c0",
}


def _multiples(known: Any) -> Iterator[str]:
    """The words of compact numbers, such as `Mio.` in German."""
    for length in ("short", "long"):
        for patterns in known.compact_decimal_formats.get(length, {}).values():
            for pattern in patterns.values():
                for affix in (*pattern.prefix, *pattern.suffix):
                    word = _UNSEEN.sub("", affix).translate(_SPACES).replace("'", "").strip().rstrip(".")
                    if word:
                        yield word
