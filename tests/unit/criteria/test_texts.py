"""Texts are compared as people read them, and what nobody can see is shown with escapes."""

from __future__ import annotations

import pytest

from harness.criteria import fold
from harness.criteria.texts import look_alike, plain, with_escapes
from tests.unit.criteria.conftest import World


@pytest.mark.parametrize(
    "text",
    [
        "Vollst\u00e4n\u00addiger Titel",
        "\u200bVollst\u00e4ndiger Titel\u200b",
        "Vollst\u00e4ndiger\u00a0Titel",
        "\ufeffVollst\u00e4ndiger \n\t Titel ",
    ],
)
def test_what_nobody_sees_does_not_count(text: str) -> None:
    wanted = "Vollst\u00e4ndiger Titel"
    assert fold(text) == wanted
    world = World(pages={("text", "#t"): text, ("title",): text, ("text_content", "#t"): text})
    for read in ("text('#t')", "title()", "text_content('#t')"):
        assert world.holds(f"{read} == '{wanted}'"), read
        assert not world.holds(f"{read} != '{wanted}'"), read
        assert world.holds(f"{read} includes 'ger Titel'"), read
    assert world.holds("text('#t') matches 'Vollst\u00e4ndiger\\s+Titel'")


def test_a_number_is_picked_by_a_pattern_as_people_read_it() -> None:
    world = World(pages={("text", "#t"): "now 5\u202f\u20ac a\u00a0day, 7\u00a0\u20ac later"})
    assert world.holds("number(text('#t'), '([0-9]+) \u20ac later') == 7")
    assert world.holds("number(text('#t'), '([0-9]+) \u20ac a day') == 5")


def test_both_sides_of_a_shown_text_are_folded() -> None:
    world = World(pages={("text", "#t"): "one\ntwo"}, entries={"t": "one  two"})
    assert world.holds("text('#t') == mem('t')")
    assert world.holds("mem('t') == text('#t')")
    assert world.holds("'one two' == text('#t')")
    assert world.value("text('#t') == 'one two'") is True
    assert world.value("text('#t')") == "one\ntwo", "a value is remembered as it is"


def test_values_that_nobody_reads_are_compared_as_they_are() -> None:
    world = World(pages={("value", "#f"): "Ann "}, entries={"t": "one  two"}, channels={"env": {"name": "Ann "}})
    assert not world.holds("value('#f') == 'Ann'")
    assert not world.holds("json('env', 'name') == 'Ann'")
    assert not world.holds("mem('t') == 'one two'")


def test_a_part_of_nothing_but_white_space_is_no_part_of_every_text() -> None:
    world = World(pages={("text", "#t"): "one"})
    assert not world.holds("text('#t') includes ' '")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Caf\u00e9", "Cafe\u0301"),
        ("A1", "\u04101"),
        ("a b", "a\u2003b"),
        ("x\u200dy", "xy"),
        ("a-b", "a\u2010b"),
        ("a", "a\u202e"),
    ],
)
def test_texts_that_look_alike_are_told_apart(one: str, other: str) -> None:
    assert look_alike(one, other)
    shown = with_escapes(one, other)
    assert shown[0] != shown[1]
    assert all(each.isascii() for each in shown)


def test_texts_that_look_different_are_shown_as_they_are() -> None:
    assert not look_alike("Caf\u00e9", "Caffe")
    assert not look_alike("same", "same")
    world = World(pages={("text", "#t"): "Caf\u00e9 au lait"})
    assert (
        world.message("text('#t') == 'Caf\u00e9 noir'")
        == "text('#t') is 'Caf\u00e9 au lait', expected 'Caf\u00e9 noir'"
    )


def test_a_failed_comparison_shows_the_escapes_in_all_its_parts() -> None:
    world = World(pages={("text", "#t"): "Cafe\u0301"})
    why = world.judge("text('#t') == 'Caf\u00e9'").explanation
    assert why is not None
    assert (why.expected, why.actual) == ("Caf\\u00e9", "Cafe\\u0301")
    assert "\\u0301" in why.message
    assert why.diff == "- Caf\\u00e9\n+ Cafe\\u0301"


def test_spaces_at_the_end_of_a_value_are_shown() -> None:
    world = World(pages={("value", "#f"): "Ann "})
    why = world.judge("value('#f') == 'Ann'").explanation
    assert why is not None
    assert why.actual == "Ann\\u0020"


def test_a_long_text_is_escaped_as_a_whole() -> None:
    expected, actual = with_escapes("\u00e9" + "a" * 3000, "e\u0301" + "a" * 3000)
    assert expected.startswith("\\u00e9")
    assert actual.startswith("e\\u0301")
    assert plain("\U0001f600") == "\U0001f600"
