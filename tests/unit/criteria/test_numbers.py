"""Numbers in texts, as the people of a locale write them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from babel.numbers import format_currency, format_decimal, format_percent
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.criteria.numbers import read_number, unread
from tests.unit.conftest import examples

LOCALES = ["en-US", "en-IN", "de-DE", "de-AT", "de-CH", "fr-FR", "fr-CH", "pl-PL", "pt-BR", "es-ES", "es-CR", "sv-SE"]
LOCALES += ["nl-NL", "cs-CZ", "ru-RU", "hi-IN", "ja-JP", "ms-MY", "tr-TR", "he-IL", "ar-EG", "fa-IR", "zh-CN", "bn-BD"]
CURRENCIES = ["USD", "EUR", "CHF", "JPY", "INR", "SEK", "CZK", "PLN", "BRL", "MYR"]
numbers = st.decimals(-(10**9), 10**9, places=2)


@settings(deadline=None, max_examples=examples(300))
@given(numbers, st.sampled_from(LOCALES))
def test_a_number_that_a_locale_writes_reads_back(number: Decimal, locale: str) -> None:
    assert read_number(format_decimal(number, locale=locale.replace("-", "_")), locale) == number


@settings(deadline=None, max_examples=examples(300))
@given(numbers, st.sampled_from(LOCALES), st.sampled_from(CURRENCIES), st.booleans())
def test_an_amount_that_a_locale_writes_reads_back(number: Decimal, locale: str, currency: str, books: bool) -> None:
    kind = "accounting" if books and not locale.endswith("IN") else "standard"  # Babel's has other groups there
    name = locale.replace("-", "_")
    written = format_currency(number, currency, locale=name, format_type=kind, currency_digits=False)
    assert read_number(written, locale) == number, written


@given(st.integers(0, 100), st.sampled_from(LOCALES))
def test_a_percentage_that_a_locale_writes_reads_back(number: int, locale: str) -> None:
    assert read_number(format_percent(number / 100, locale=locale.replace("-", "_")), locale) == number


@pytest.mark.parametrize(
    ("locale", "text", "number"),
    [
        ("de-DE", "1.234 \u20ac", "1234"),
        ("de-DE", "24,99 \u20ac pro Tag", "24.99"),
        ("de-DE", "24.99 \u20ac", None),
        ("de-DE", "1.5", None),
        ("de-DE", "1,5 Mio. \u20ac", None),
        ("de-CH", "CHF 1'234.50", "1234.5"),
        ("fr-FR", "1 234,50 \u20ac", "1234.5"),
        ("fr-FR", "3 10", None),
        ("sv-SE", "5kr", "5"),
        ("en-IN", "1,23,456", "123456"),
        ("en-IN", "123,456", None),
        ("ar-EG", "\u0661\u066c\u0662\u0663\u0664\u066b\u0665", "1234.5"),
        ("de-DE", "\u0661\u066b\u0665", "1.5"),
        ("fr-FR", "3\n100", None),
        ("en-US", "1.234", "1.234"),
        ("de", "1.234", "1234"),
        ("xx-YY", "5", None),
    ],
)
def test_separators_stand_where_the_locale_has_them(locale: str, text: str, number: str | None) -> None:
    assert read_number(text, locale) == (None if number is None else Decimal(number))


def test_without_a_locale_what_may_be_a_thousand_is_in_doubt() -> None:
    assert read_number("1.234") is None
    assert read_number("12.345 km") is None
    assert read_number("0.125") == Decimal("0.125")
    assert read_number("1234.567") == Decimal("1234.567")
    assert read_number("1,234") == 1234
    assert unread("1.234 \u20ac", None) == "`1.234 \u20ac` is no number in en-US; declare `locale`"
    assert unread("1.5", "de-DE") == "`1.5` is no number in de-DE"
    assert unread("3 of 10", None).endswith("; pick one number with a group: number(..., '([0-9]+) of')")
