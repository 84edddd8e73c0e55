"""Texts, patterns, paths and documents that mean harm: each is read or refused, in bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.criteria import (
    CriterionError,
    Json,
    PathError,
    assign,
    compare,
    difference,
    equal,
    lookup,
    memory_lookup,
    parse,
    parse_value,
)
from tests.unit.criteria.conftest import World
from tests.unit.criteria.trees import Hand, conditions

BOUND = 2.0
"""Seconds of this process, whatever else the machine does."""


@contextmanager
def in_bounded_time(bound: float = BOUND) -> Iterator[None]:
    started = time.process_time()
    yield
    assert time.process_time() - started < bound


def refusal(text: str, read: Callable[[str], object] = parse) -> CriterionError | None:
    """None when it is read. Checks that an error points into the text and can be shown."""
    found = None
    with in_bounded_time():
        try:
            read(text)
        except CriterionError as error:
            found = error
    if found is not None:
        assert 0 <= found.offset <= len(text)
        assert min(found.line, found.column) >= 1
        assert str(found)
    return found


NESTED = ["(", "[", "{", "{a:", "!", "NOT[", "ALL[", "ANY[", "WITHIN(1,", "EVENTUALLY(", "mem('a') == [", "text("]
LONG = ["'", '"', "\\", "'\\", "a", "9", "9.", "-", ".", "=", "1e9", "7d", "'a'.", "mem('a')", "((a+)+)+", "\0"]


@pytest.mark.parametrize("piece", NESTED + LONG)
@pytest.mark.parametrize("end", ["", "exists('#a')", "'"])
@pytest.mark.sampled(12)
def test_a_piece_ten_thousand_times(piece: str, end: str) -> None:
    assert refusal(piece * 10_001 + end)
    assert refusal(piece * ((10_000 - len(end)) // len(piece)) + end)


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("NOT[", "]"), ("EVENTUALLY(", ")"), ("ALL[", ",]")])
def test_balanced_brackets(opening: str, closing: str) -> None:
    depth = 9_900 // len(opening + closing)
    error = refusal(opening * depth + "exists('#a')" + closing * depth)
    assert error is not None
    assert "nested more than" in error.problem
    assert refusal(opening * 12 + "exists('#a')" + closing * 12) is None


def test_white_space_is_nothing() -> None:
    assert refusal(" \n" * 4990 + "exists('#a')") is None
    assert refusal(" \n" * 4990)


def test_a_wide_criterion_is_no_deep_one(world: World) -> None:
    world.entries = {"a": 1}
    with in_bounded_time():
        assert world.holds(" && ".join(["mem('a') == 1"] * 550))
        assert world.holds("ANY[" + ",".join(["mem('b')==1"] * 800) + ",mem('a')==1]")


@pytest.mark.parametrize("digits", ["\u0663", "\u0661\u0662d", "\uff15", "\u0be7.5", "\u00b2"])
def test_only_ascii_digits_make_a_number(digits: str) -> None:
    assert refusal(f"mem('a') == {digits}")
    assert not equal(digits, 3)


@pytest.mark.parametrize(
    "text",
    ["mem('\ud800') == 1", "\udfff", "mem('a') == '\\udc00'", "mem('a') matches '\ud800'", "mem('\\ud800.x') == 1"],
    ids=ascii,
)
def test_half_a_surrogate_pair_is_refused(text: str) -> None:
    assert refusal(text)


@pytest.mark.parametrize(
    "text", ["\0", "\ufeff", "\u202e", "\U0001f600", "\x1b[31m", "\u2028", "\x85", "%s{0}"], ids=ascii
)
def test_strange_characters_are_texts_like_others(text: str, world: World) -> None:
    world.entries = {"k": text}
    assert world.holds(f"mem('k') == '{text}'")
    assert world.message("mem('k') == 'x'")


@given(st.binary(max_size=60))
def test_random_bytes(raw: bytes) -> None:
    refusal(raw.decode("latin-1"))
    refusal(raw.decode("utf-8", "surrogateescape"), parse_value)


@settings(deadline=None)
@given(conditions, st.integers(0, 10**6), st.data())
def test_a_mutated_criterion(tree: object, seed: int, data: st.DataObject) -> None:
    text = Hand(seed).write(tree)
    for _ in range(data.draw(st.integers(1, 4))):
        start, end = (data.draw(st.integers(0, len(text))) for _ in "ab")
        middle = data.draw(st.one_of(st.just(text[start:end]), st.text(max_size=3), st.sampled_from(NESTED + LONG)))
        text = text[:start] + middle + text[end:]
    refusal(text)
    refusal(text, parse_value)


NUMERALS = ["1" * 200_000 + "x1", "1" * 200_000, "1," * 100_000 + "1", "1" + ",000" * 50_000 + "0", "1 " * 100_000]
NUMERALS += ["$" * 200_000 + "1", "-" * 200_000 + "1", "1e9999", "1e-9999", "." * 200_000, "9" * 5000 + "e9999"]
NUMERALS += [" " * 200_000 + "1", "2026-01-01T" + "0" * 100_000, "2026-01-01T00:00:00+99:99", "0001-01-01T00:00+23:59"]


@pytest.mark.parametrize("text", NUMERALS, ids=range(len(NUMERALS)))
@pytest.mark.sampled(5)
def test_a_long_text_is_compared_in_bounded_time(text: str, world: World) -> None:
    world.entries = {"k": text}
    with in_bounded_time():
        for wanted in ("1", "'1'", "'2026-01-01'", "true"):
            for operator in ("==", "<", ">="):
                assert world.judge(f"mem('k') {operator} {wanted}") is not None
        assert world.judge("time_since('k') > 1") is not None


def test_a_sign_at_the_end_of_a_line_is_no_sign() -> None:
    assert not compare("<", "Balance -\n5", 0)
    assert not compare(">", "Balance -\n5", 0)


NUMBERS = [10**5000, -(10**5000), float("nan"), float("inf"), 5e-324, 1.7976931348623157e308]


@pytest.mark.parametrize("number", NUMBERS, ids=range(len(NUMBERS)))
def test_a_number_of_any_size_is_judged_and_shown(number: float, world: World) -> None:
    world.entries = {"k": number, "list": [number]}
    for text in ("mem('k') == 'x'", "mem('list') == 1", "mem('k') matches 'x'", "mem('k') includes 'x'"):
        assert world.message(text)
    assert world.judge("mem('k') < 5") is not None


def nested(depth: int, inside: Json) -> Json:
    for _ in range(depth):
        inside = {"x": [inside]}
    return inside


@pytest.mark.parametrize("depth", [300, 20_000])
def test_a_document_of_any_depth_is_judged_and_shown(depth: int, world: World) -> None:
    world.entries = {"a": nested(depth, 1), "b": nested(depth, "1"), "c": nested(depth, 2)}
    assert world.holds("mem('a') == mem('b')")
    assert world.message("mem('a') == mem('c')")
    assert world.message("[mem('a')] == 5")
    assert world.message("mem('a') > 5")


def test_a_path_of_thousands_of_segments_is_refused() -> None:
    path = "a." * 3000 + "a"
    for text in (f"ANY[mem('{path}') == 1]", f"json('env', '{path}') == 1", f"ANY[mem('{'*.' * 3000}a') == 1]"):
        error = refusal(text)
        assert error is not None
        assert "at most 200 segments" in error.problem
    for use in (lambda: lookup({}, path), lambda: assign({}, path, 1)):
        with pytest.raises(PathError, match="at most 200 segments"):
            use()
    short = "a." * 199 + "a"
    assert lookup(assign({}, short, 7), short) == [7]


def test_memory_with_many_and_long_keys() -> None:
    entries: dict[str, Json] = {"a." * length + "a": length for length in range(1000)}
    entries |= {f"b.k{number}": number for number in range(20_000)}
    with in_bounded_time():
        assert memory_lookup(entries, "a." * 4000 + "b") == []
        assert memory_lookup(entries, "a." * 900 + "a") == [900]
        assert len(memory_lookup(entries, "b.*")) == 20_000


def test_an_entry_is_never_changed_by_gathering() -> None:
    entry: Json = {"x": {"y": 1}}
    assert memory_lookup({"a.b": entry, "a.b.x.z": 2, "a.b.x.y": 3}, "a") == [{"b": {"x": {"y": 3, "z": 2}}}]
    assert entry == {"x": {"y": 1}}


def test_wildcards_over_a_big_document(world: World) -> None:
    world.channels = {"env": {"rows": [{"cells": [number, str(number)]} for number in range(30_000)]}}
    with in_bounded_time(6):
        assert world.holds("ANY[json('env', 'rows.*.cells.*') == 29999]")
        assert not world.holds("json('env', 'rows.*.cells.*') includes 'x'")
        assert not world.holds("ANY[json('env', 'rows" + ".*" * 190 + "') == 1]")


def test_two_wildcards_are_compared_up_to_a_number_of_pairs(world: World) -> None:
    world.channels = {"env": {"a": list(range(50_000)), "b": [f"x{number}" for number in range(50_000)]}}
    with in_bounded_time():
        assert world.holds("json('env', 'a.*') == json('env', 'a.*')")
        assert "only the first 20000 of 50000 times 50000 pairs" in world.message(
            "ANY[json('env', 'a.*') > json('env', 'b.*')]"
        )


def test_the_difference_of_long_items_is_short() -> None:
    assert len(difference(["x" * 10**6], ["y" * 10**6])) < 5000


def test_a_time_at_the_edge_of_the_calendar(world: World) -> None:
    world.entries = {"first": "0001-01-01T00:00:00+23:59", "last": "9999-12-31T23:59:59-23:59"}
    assert world.holds("time_since('first') > 1 && time_until('last') > 1")
    assert world.holds("mem('first') < mem('last')")
