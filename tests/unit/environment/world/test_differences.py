"""Two documents, and a line for each place where they differ."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given

from harness.criteria import lookup
from harness.environment.world import bounded_lines, copy_document, differences, merge_patch, put_back
from tests.unit.environment.world.conftest import merge
from tests.unit.environment.world.test_memory import JSON


def lines(saved: Any, now: Any, clock: str | None = None) -> list[str]:
    return [str(each) for each in differences("env", saved, now, clock)]


@pytest.mark.parametrize(
    ("saved", "now", "expected"),
    [
        ({"shop": {"orders": {"ORD-3": {"id": 3}}}}, {"shop": {"orders": {}}},
         "env: shop.orders.ORD-3: was saved as {\"id\": 3}, is missing"),
        ({"a": []}, {"a": [None]}, "env: a[0]: was missing when saved, is null"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "env: a[1]: was saved as 2, is 3"),
        ({"a": 1}, {"a": True}, "env: a: was saved as 1, is true"),
        ({"a": 1}, {"a": "1"}, "env: a: was saved as 1, is \"1\""),
        ({"a": {}}, {"a": []}, "env: a: was saved as {}, is []"),
        ({"a": None}, {}, "env: a: was saved as null, is missing"),
        ({"a.b": {"c'd": 1}}, {"a.b": {"c'd": 2}}, "env: ['a.b'][\"c'd\"]: was saved as 1, is 2"),
        ({"": 1}, {"": 2}, "env: ['']: was saved as 1, is 2"),
        ({"*": 1}, {"*": 2}, "env: ['*']: was saved as 1, is 2"),
        ([1], None, "env: the document: was saved as [1], is null"),
    ],
)  # fmt: skip
def test_one_line_for_one_place(saved: Any, now: Any, expected: str) -> None:
    assert lines(saved, now) == [expected]


@pytest.mark.parametrize(
    ("saved", "now"),
    [(1, 1.0), ({"a": math.nan}, {"a": math.nan}), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ("ü", "ü")],
)
def test_what_json_takes_for_the_same(saved: Any, now: Any) -> None:
    assert lines(saved, now) == []


@given(JSON)
def test_a_copy_does_not_differ(document: Any) -> None:
    assert lines(document, json.loads(json.dumps(document))) == []


@given(JSON, JSON)
def test_another_document_differs(saved: Any, now: Any) -> None:
    if json.dumps(saved, sort_keys=True) == json.dumps(now, sort_keys=True):
        assert lines(saved, now) == []
    elif not lines(saved, now):
        assert saved == now, "only 1 and 1.0 read differently and are the same"


def test_the_path_can_be_looked_up() -> None:
    saved: Any = {"a.b": [{"x y": {"2025": 1}}]}
    (found,) = differences("env", saved, {"a.b": [{"x y": {"2025": 2}}]})
    place = str(found).split(": ")[1]
    assert lookup(saved, place) == [1]


@pytest.mark.parametrize("clock", ["world.now", "world['now']", "*.now"])
def test_the_clock_does_not_count(clock: str) -> None:
    saved, now = {"world": {"now": "10:00", "day": 1}}, {"world": {"now": "10:05", "day": 2}}
    assert lines(saved, now, clock) == ["env: world.day: was saved as 1, is 2"]
    assert lines([1], [2], "0") == []


def test_lines_are_bounded_in_number_and_length() -> None:
    saved: Any = {f"{'k' * 500}{number}": "v" * 5000 for number in range(1000)}
    found = bounded_lines(differences("env", saved, {}))
    assert len(found) == 20
    assert found[-1] == "and 981 more differences"
    assert max(map(len, found)) < 300
    assert len(bounded_lines(differences("env", list(range(20)), []))) == 20
    assert bounded_lines(["one"]) == ("one",)
    assert bounded_lines([]) == ()


def test_long_texts_are_shown_where_they_differ() -> None:
    (line,) = lines("x" * 500 + "left", "x" * 500 + "right")
    assert "left" in line
    assert "right" in line


def test_a_line_is_one_line() -> None:
    (line,) = lines({"a\nb": "1\n2"}, {})
    assert "\n" not in line


def test_a_very_deep_document() -> None:
    saved: Any = 1
    now: Any = 2
    for _ in range(5000):
        saved, now = [saved], [now]
    assert lines(saved, saved) == []
    (line,) = lines(saved, now)
    assert line.startswith("env: [0][0]")
    assert line.endswith("was saved as 1, is 2")


@given(JSON, JSON)
def test_changes_put_back_make_what_was_saved(saved: Any, now: Any) -> None:
    untouched = copy_document(now)
    target = put_back(now, list(differences("env", saved, now)))
    assert lines(saved, target) == []
    assert lines(untouched, now) == [], "the document as it is stays as it is"


@given(JSON, JSON)
def test_a_merge_patch_says_the_same(saved: Any, now: Any) -> None:
    changes = list(differences("env", saved, now))
    patch = merge_patch(put_back(now, changes), changes)
    if changes and patch is not None:
        assert lines(saved, merge(now, patch)) == []


def test_what_another_has_changed_is_not_in_the_patch() -> None:
    """Only the places that differ: a list as a whole, an object by its keys; what was added is removed by null."""
    saved: Any = {"todos": [1, 2], "users": {"ann": {"age": 1}}, "kept": 1}
    now: Any = {"todos": [1], "users": {"ann": {"age": 2, "new": 1}}, "kept": 1}
    changes = list(differences("env", saved, now))
    patch = merge_patch(put_back(now, changes), changes)
    assert patch == {"todos": [1, 2], "users": {"ann": {"age": 1, "new": None}}}


def test_null_cannot_be_written_by_a_patch() -> None:
    changes = list(differences("env", {"a": None}, {"a": 1}))
    assert merge_patch({"a": None}, changes) is None
