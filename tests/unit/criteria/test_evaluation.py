"""What holds, what does not, and what is read for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.criteria import Json, evaluate, parse
from harness.resilience import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.criteria.conftest import World


@pytest.fixture
def shop(world: World) -> World:
    world.pages = {
        ("text", "#total"): "$30.98",
        ("text", "#empty"): "",
        ("value", "#qty"): "2",
        ("attr", "#a", "href"): "/x",
        ("count", ".item"): 3,
        ("exists", "#total"): True,
        ("visible", "#total"): True,
        ("exists", "#hidden"): True,
        ("url",): "http://shop.local/order.html?id=7",
        ("title",): "Orders",
    }
    world.entries = {
        "order.id": "7777",
        "order.total": 30.98,
        "flag": True,
        "flag.text": "true",
        "items": [{"sku": "a", "qty": 1}, {"sku": "b", "qty": 5}],
        "none": None,
        "at": "2026-01-10T11:00:00Z",
        "due": "2026-01-11",
        "bad time": "soon",
    }
    world.channels = {"env": {"leases": {"CTR-2101": {"rent": "1200"}}, "list": [1, 2, None], "liquidity": "frozen"}}
    return world


@pytest.mark.parametrize(
    "text",
    [
        "text('#total') == '$30.98'",
        "text('#total') > 30",
        "text('#empty') == ''",
        "value('#qty') == 2",
        "attr('#a', 'href') == '/x'",
        "count('.item') == 3",
        "count('.none') == 0",
        "exists('#total') && visible('#total')",
        "exists('#hidden') && visible('#hidden') == false",
        "url().includes('/order.html')",
        "url() matches 'id=[0-9]+$'",
        "title() includes 'Ord'",
        "mem('order.id') == 7777",
        "7777 == mem('order.id')",
        "30 < text('#total')",
        "mem('order') == {id: 7777, total: '30.98'}",
        "mem('flag') == 'true'",
        "mem('flag.text') == true",
        "mem('items').length == 2",
        "mem('items[-1].sku') == 'b'",
        "mem('items.*.qty') > 4",
        "mem('items.*.sku') includes 'a'",
        "json('env', 'leases.CTR-2101.rent') == 1200",
        "json('env', 'list') == [1, '2', null]",
        "json('env', 'list.*') == null",
        "text('#total') includes mem('order.total')",
        "time_since('at') == 1h",
        "time_until('due') < 1d",
        "(mem('flag') == true) == true",
        "ANY[mem('order.id') == 1, json('env', 'liquidity') == 'frozen']",
        "NOT[ALL[exists('#total'), exists('#none')]]",
    ],
)
def test_holds(shop: World, text: str) -> None:
    verdict = shop.judge(text)
    assert verdict.holds, verdict.explanation
    assert verdict.explanation is None


@pytest.mark.parametrize(
    "missing",
    ["mem('no')", "json('env', 'no.way')", "text('#no')", "attr('#a', 'no')", "mem('none')", "time_since('no')"],
)
def test_missing_equals_null_and_satisfies_nothing_else(shop: World, missing: str) -> None:
    assert shop.holds(f"{missing} == null")
    assert shop.holds(f"null == {missing}")
    comparisons = ["!= ''", "!= null", "== ''", "== 'null'", "== 0", "== false", "< 5", "> 5", "<= 5"]
    for rest in [*comparisons, "includes ''", "matches ''"]:
        assert not shop.holds(f"{missing} {rest}"), rest
        assert shop.holds(f"NOT[{missing} {rest}]")
    assert not shop.holds(f"null != {missing}")
    assert not shop.holds(f"{missing}.length == 0")


def test_two_missing_sides_are_not_equal(shop: World) -> None:
    assert not shop.holds("mem('no') == mem('nor')")
    assert not shop.holds("mem('no') != mem('order.id')")
    assert not shop.holds("mem('order.id') != mem('no')")


def test_a_present_value_differs_from_null(shop: World) -> None:
    assert shop.holds("mem('order.id') != null")
    assert shop.holds("null != mem('order.id')")
    assert shop.holds("mem('none') == json('env', 'list[2]')")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("text('#total')", "$30.98"),
        ("text('#no')", None),
        ("count('.item')", 3),
        ("mem('items').length", 2),
        ("mem('items.*.sku')", ["a", "b"]),
        ("mem('no.*')", []),
        ("json('env', 'leases.CTR-2101.rent')", "1200"),
        ("attr('#a', 'href')", "/x"),
        ("'literal'", "literal"),
        ("{a: mem('order.id'), b: [1, mem('no')]}", {"a": "7777", "b": [1, None]}),
        ("mem('order.id') == 7777", True),
        ("time_since('at')", 3600.0),
        ("time_until('bad time')", None),
    ],
)
def test_evaluate_value(shop: World, text: str, value: Json) -> None:
    assert shop.value(text) == value


def test_a_source_that_raises_passes_through(shop: World) -> None:
    shop.broken = OSError("the page is gone")
    for text in ("text('#a') == 'x'", "NOT[exists('#a')]", "ANY[EVENTUALLY(exists('#a')), mem('flag') == true]"):
        with pytest.raises(OSError, match="the page is gone"):
            shop.judge(text)
    with pytest.raises(KeyError):
        shop.judge("json('unknown', 'a') == 1")


def test_one_pass_reads_nothing_twice(shop: World) -> None:
    text = "text('#total') != '' && text('#total') != 'x' && mem('flag') == true && mem('order.id') != ''"
    text += " && json('env', 'liquidity') != '' && json('env', 'list') != ''"
    assert shop.holds(text)
    assert sorted(shop.asked) == [("channel", "env"), ("memory",), ("text", "#total")]


def test_what_is_not_needed_is_not_read(shop: World) -> None:
    assert not shop.holds("mem('flag') == false && exists('#a')")
    assert shop.holds("mem('flag') == true || exists('#a')")
    assert all(asked == ("memory",) for asked in shop.asked)


def test_evaluating_does_not_wait_when_nothing_waits(shop: World) -> None:
    assert not shop.holds("exists('#no')")
    assert shop.clock.sleeps == []


constants = st.sampled_from(["''", "'7777'", "7777", "null", "true", "[1]", "{a: 1}", "'$5'", "'2026-01-10'", "5"])
READS = ["mem('order.id')", "mem('no')", "text('#total')", "mem('items.*.qty')", "json('env', 'list')"]
sides = st.one_of(constants, st.sampled_from(READS))
operators = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "includes"])


@given(sides, operators, sides)
def test_not_inverts(new_world: Callable[..., World], left: str, operator: str, right: str) -> None:
    world = new_world(
        pages={("text", "#total"): "$30.98"},
        entries={"order.id": "7777", "items": [{"qty": 1}, {"qty": 9}]},
        channels={"env": {"list": [1, None]}},
    )
    text = f"{left} {operator} {right}"
    assert world.holds(f"NOT[{text}]") is not world.holds(text)
    assert world.holds(f"!!({text})") is world.holds(text)
    assert world.holds(f"ALL[{text}, {text}]") is world.holds(f"ANY[{text}]") is world.holds(text)


def test_many_evaluations_share_one_criterion(shop: World) -> None:
    criterion = parse("WITHIN(1, exists('#total'))")

    async def twice() -> list[bool]:
        return [(await evaluate(criterion, shop, shop.clock, Deadline(9))).holds for _ in range(2)]

    assert asyncio.run(twice()) == [True, True]
