"""What a failed criterion says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.criteria import Explanation

if TYPE_CHECKING:
    from tests.unit.criteria.conftest import World


@pytest.fixture
def shop(world: World) -> World:
    world.pages = {("text", "#total"): "30.99", ("text", "#long"): "one\ntwo\nthree"}
    world.entries = {"total": "30.98", "orders": [{"id": 1}, {"id": 2}], "id": "EXP-1", "soon": "soon"}
    world.entries["evil"] = "a" * 60 + "b"
    return world


def test_a_comparison(shop: World) -> None:
    assert shop.judge("text('#total') == '30.98'").explanation == Explanation(
        expression="text('#total') == '30.98'",
        expected="30.98",
        actual="30.99",
        diff="- 30.98\n+ 30.99",
        message="text('#total') is '30.99', expected '30.98'",
        plain=True,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("'30.98' == text('#total')", "text('#total') is '30.99', expected '30.98'"),
        ("40 < text('#total')", "text('#total') is '30.99', expected > 40"),
        ("text('#total') == mem('total')", "text('#total') is '30.99', expected '30.98' (from mem('total'))"),
        ("text('#total') != '30.99'", "text('#total') is '30.99', expected anything but '30.99'"),
        ("text('#total') includes 'x'", "text('#total') is '30.99', expected to include 'x'"),
        ("text('#total').matches('^x')", "text('#total') is '30.99', expected to match '^x'"),
        ("text('#no') == 'x'", "text('#no') is missing (no element matches '#no'), expected 'x'"),
        (
            "attr('#a', 'b') == 'x'",
            "attr('#a', 'b') is missing (no element matches '#a', or it has no 'b'), expected 'x'",
        ),
        ("mem('no') != ''", "mem('no') is missing (memory has no 'no'), expected anything but ''"),
        (
            "text('#total') == mem('no')",
            "text('#total') is '30.99', expected mem('no'), which is missing (memory has no 'no')",
        ),
        ("ANY[mem('orders.*.id') > 5]", "mem('orders.*.id') is [1, 2], expected one of them > 5"),
        ("ALL[mem('orders.*.id') < 2]", "mem('orders.*.id') is [1, 2], expected each of them < 2 (2 is not)"),
        ("mem('id') > 5", "mem('id') is 'EXP-1', expected > 5 (`EXP-1` is no number in en-US)"),
        ("mem('total') > true", "expected > true (both sides must read as one number, or both as ISO dates)"),
        ("mem('id') < '2026-01-01'", "expected < '2026-01-01' (a date has an order only with another date)"),
        ("mem('evil') matches '(a|aa)+$'", "(the regular expression took more than 0.4 s)"),
        ("time_since('soon') < 5", "time_since('soon') cannot be read (memory 'soon' holds no ISO time), expected < 5"),
        ("(5).length == 1", "(5).length is missing (5 is not a text, list or object, so it has no length), expected 1"),
        ("exists('#no')", "no element matches '#no'"),
        ("visible('#no')", "no visible element matches '#no'"),
        ("NOT[text('#total') == '30.99']", "expected not text('#total') == '30.99', but text('#total') is '30.99'"),
        (
            "ANY[exists('#no'), mem('total') == 1]",
            "none of 2 alternatives holds: (1) no element matches '#no'; (2) mem('total') is '30.98', expected 1",
        ),
    ],
)
def test_one_sentence(shop: World, text: str, message: str) -> None:
    assert message in shop.message(text)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("ALL[mem('total') == '30.98', text('#total') == 1, exists('#no')]", "text('#total') == 1"),
        ("NOT[NOT[mem('total') == 1]]", "NOT[NOT[mem('total') == 1]]"),
        ("ANY[ALL[mem('total') == 1]]", "mem('total') == 1"),
        ("mem('total') == '30.98' && (exists('#no') || mem('total') == 2)", "exists('#no') || mem('total') == 2"),
        ("WITHIN(1, ALL[exists('#no')])", "exists('#no')"),
    ],
)
def test_the_smallest_failing_part(shop: World, text: str, part: str) -> None:
    explanation = shop.judge(text).explanation
    assert explanation is not None
    assert explanation.expression == part


def test_what_is_missing_is_said_once(shop: World) -> None:
    assert shop.message("mem('no') == 5") == "mem('no') is missing (memory has no 'no'), expected 5"


def test_not_all_says_what_is_the_case(shop: World) -> None:
    part = "ALL[mem('total') == '30.98', text('#total') == '30.99']"
    facts = "mem('total') is '30.98' and text('#total') is '30.99'"
    assert shop.message(f"NOT[{part}]") == f"expected not {part}, but {facts}"


def test_missing_is_null_in_the_report(shop: World) -> None:
    explanation = shop.judge("mem('no') == 5").explanation
    assert explanation is not None
    assert (explanation.expected, explanation.actual) == (5, None)


def test_a_long_value_is_cut_in_the_sentence_and_whole_in_the_report(shop: World) -> None:
    shop.entries["big"] = "x" * 5000
    explanation = shop.judge("mem('big') == 'y'").explanation
    assert explanation is not None
    assert len(explanation.message) < 400
    assert explanation.actual == "x" * 5000


def test_several_lines_get_a_unified_diff(shop: World) -> None:
    explanation = shop.judge("text('#long') == 'one\n2\nthree'").explanation
    assert explanation is not None
    assert "-2\n+two" in explanation.diff
