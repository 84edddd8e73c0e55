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
    world.channels["env"]["skus"] = ["a", "b"]
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
        "count('.item') == mem('items').length + 1",
        "count('.item') -1 == value('#qty')",
        "text('#total') - 0.98 == 30",
        "0.1 + 0.2 == 0.3",
        "1 + count('.item') - 2 == 2",
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
        "ANY[mem('items.*.qty') > 4]",
        "ALL[mem('items.*.qty') > 0, exists('#total')]",
        "NOT[ALL[mem('items.*.qty') > 4]]",
        "mem('items.*.qty') == [1, 5]",
        "mem('items.*.qty') != [1]",
        "mem('items.*.sku').length == 2",
        "mem('items.*.sku') == json('env', 'skus[*]')",
        "mem(\"items[?sku=='b'].qty\") == 5",
        "mem('items.*.sku') includes 'a'",
        "json('env', 'leases.CTR-2101.rent') == 1200",
        "json('env', 'list') == [1, '2', null]",
        "json('env', 'list.*') includes null",
        "ANY[json('env', 'list.*') == null]",
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


DATA = ["mem('no')", "json('env', 'no.way')", "mem('none')", "attr('#total', 'no')"]
GONE = ["text('#no')", "attr('#a', 'no')", "value('#no')", "requests('x')[0].json", "mem('no').length"]


@pytest.mark.parametrize("missing", [*DATA, *GONE, "time_since('no')"])
def test_missing_equals_null_and_satisfies_nothing_more(shop: World, missing: str) -> None:
    assert shop.holds(f"{missing} == null")
    assert shop.holds(f"null == {missing}")
    assert shop.holds(f"NOT[{missing} != null]")
    for rest in ["!= ''", "!= null", "== ''", "== 'null'", "== 0", "< 5", "> 5", "includes ''", "matches ''"]:
        assert not shop.holds(f"{missing} {rest}"), rest
    for rest in ["== ''", "!= ''", "< 5", ">= 5"]:
        assert not shop.holds(f"NOT[{missing} {rest}]"), rest
    assert not shop.holds(f"{missing}.length == 0")
    if missing != "mem('none')":  # that one is there, and null
        assert not shop.holds(f"{missing} == mem('nor')")
    assert not shop.holds(f"{missing} != mem('nor')")


@pytest.mark.parametrize("missing", DATA)
def test_missing_data_differs_from_every_value(shop: World, missing: str) -> None:
    for value in ("'null'", "0", "false", "text('#total')", "[]"):
        assert shop.holds(f"{missing} != {value}")
        assert shop.holds(f"NOT[{missing} == {value}]")
    assert shop.holds(f"NOT[{missing} includes 'x']")


@pytest.mark.parametrize("gone", GONE)
def test_an_element_that_is_not_there_neither_equals_nor_differs(shop: World, gone: str) -> None:
    for rest in ("== 'x'", "!= 'x'", "includes 'x'", "matches 'x'", "> 0"):
        assert not shop.holds(f"{gone} {rest}"), rest
        assert not shop.holds(f"NOT[{gone} {rest}]"), rest
        assert not shop.holds(f"({gone} {rest}) == false"), rest
    assert shop.holds(f"ANY[{gone} == 'x', exists('#total')]")
    assert "is not known" in shop.message(f"NOT[{gone} == 'x']")


def test_a_whole_document_is_counted_by_the_path_of_all(shop: World) -> None:
    for document, count in (([{"id": 1}, {"id": 2}], 2), ([], 0), ({"a": 1, "b": 2, "c": 3}, 3)):
        shop.channels = {"env": document}
        assert shop.holds(f"json('env', '*').length == {count}")


def test_a_list_with_nothing_in_it_is_a_list_and_a_list_that_is_not_there_is_missing(shop: World) -> None:
    shop.channels = {"env": {"none": [], "some": [{"id": 1}, {"id": 13}, {"id": 30}]}}
    for text in ("json('env', 'none[*].id').length == 0", "json('env', 'none[*].id') == []"):
        assert shop.holds(text)
        assert not shop.holds(text.replace("none", "nome"))
    assert not shop.holds("json('env', 'some[*].id') includes 3")
    assert shop.holds("NOT[json('env', 'some[*].id') includes 3]")
    assert shop.holds("json('env', 'some[*].id') includes '13'")
    assert not shop.holds("ALL[json('env', 'some[*].id') != 13]")
    assert shop.holds("ALL[json('env', 'none[*].id') != 13]")
    assert not shop.holds("ANY[json('env', 'none[*].id') != 13]")


def test_a_filter_finds_one_record_and_says_when_there_are_several(shop: World) -> None:
    people = [{"name": "Ann", "id": 1, "at": {"x": 5}}, {"name": "Joann", "id": 13}, {"name": "Bob", "id": 30}]
    shop.channels = {"env": {"people": [*people, {"name": "Bob", "id": 31}], "byid": {"a": people[0]}}}
    assert shop.holds("json('env', \"people[?name=='Ann'].id\") == 1")
    assert shop.holds("json('env', 'people[?id==13].name') == 'Joann'")
    assert shop.holds("json('env', 'people[?at.x==5].name') == 'Ann'")
    assert shop.holds("json('env', \"byid[?name=='Ann'].id\") == 1")
    assert shop.holds("json('env', \"people[?name=='Eve'].id\") == null")
    assert not shop.holds("json('env', \"people[?name=='Eve'].id\") != ''")
    assert shop.holds("json('env', \"people[?name=='Bob'][*].id\") == [30, 31]")
    assert shop.holds("json('env', \"people[?name=='Bob'][*]\").length == 2")
    assert shop.holds("json('env', \"people[?name=='Bob'][-1].id\") == 31")
    for text in ("json('env', \"people[?name=='Bob'].id\") == 30", "json('env', \"people[?name=='Bob'].id\") != 30"):
        assert not shop.holds(text)
        assert "several records match [?name=='Bob']: write `[?name=='Bob'][*]`" in shop.message(text)


def test_a_number_is_picked_out_of_a_text(shop: World) -> None:
    shop.pages = {("text", "#n"): "Page 3 of 1,200", ("text", "#bad"): "1.234 €", ("text", "#price"): "$24.50"}
    assert shop.holds("number(text('#n'), 'Page ([0-9]+) of') == 3")
    assert shop.holds("number(text('#n'), 'of (.*)') == 1200")
    assert shop.holds("number(text('#price')) == 24.5")
    assert shop.value("number(text('#price'))") == 24.5
    assert "matches 'x([0-9])'" in shop.message("number(text('#n'), 'x([0-9])') == 3")
    unread = "`1.234 €` is no number in en-US; declare `locale`"
    for text in ("text('#bad') < 30", "number(text('#bad')) < 30", "number(text('#bad')) != 30"):
        assert unread in shop.message(text)
        assert unread in shop.message(f"NOT[{text}]")
    shop.locale = "de-DE"
    assert shop.holds("text('#bad') == '1.234 €' && text('#bad') > 1000")
    assert not shop.holds("text('#price') > 0")


def test_what_is_no_single_number_is_not_added(shop: World) -> None:
    shop.pages[("text", "#word")] = "three"
    for text, why in {
        "text('#word') + 1 == 4": "no number",
        "text('#gone') + 1 == 1": "no element matches",
        "mem('items.*.qty') + 1 == 2": "list of values",
        "mem('items') + 1 == 2": "is no number",
    }.items():
        assert why in shop.message(text)
        assert not shop.holds(f"NOT[{text}]")


def test_data_is_read_as_programs_write_it_whatever_the_locale(shop: World) -> None:
    shop.locale = "de-DE"
    shop.channels = {"env": {"price": "24.99", "shown": "24,99 €", "small": "1.234"}}
    shop.pages = {("value", "#n"): "24.5", ("text", "#n"): "24.5"}
    assert shop.holds("json('env', 'price') < 30 && json('env', 'shown') < 30 && json('env', 'small') < 30")
    assert shop.holds("value('#n') < 30 && json('env', 'price') < '30.5'")
    assert not shop.holds("text('#n') < 30")


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
        ("mem('no.*')", None),
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
READS = ["mem('order.id')", "mem('no')", "text('#total')", "text('#gone')", "json('env', 'list')"]
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
    assert world.holds(f"{left} != {right}") is world.holds(f"NOT[{left} == {right}]")
    assert world.holds(f"{left} == {right}") is world.holds(f"NOT[{left} != {right}]")
    assert not (world.holds(f"NOT[{text}]") and world.holds(text))
    assert world.holds(f"!!({text})") is world.holds(text)
    assert world.holds(f"ALL[{text}, {text}]") is world.holds(f"ANY[{text}]") is world.holds(text)


def test_many_evaluations_share_one_criterion(shop: World) -> None:
    criterion = parse("WITHIN(1, exists('#total'))")

    async def twice() -> list[bool]:
        return [(await evaluate(criterion, shop, shop.clock, Deadline(9))).holds for _ in range(2)]

    assert asyncio.run(twice()) == [True, True]
