"""Looking up and assigning along paths, and finding memory keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.criteria import Json, PathError, assign, lookup, memory_lookup

ORDERS: Json = {
    "orders": [{"id": 1, "tags": ["a", "b"]}, {"id": 2, "tags": []}],
    "by": {"x-1": {"n": None}, "y": {"n": 5}},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", [ORDERS]),
        ("orders[0].id", [1]),
        ("orders[-1].id", [2]),
        ("orders.1.id", [2]),
        ("orders[2].id", []),
        ("orders.*.id", [1, 2]),
        ("orders[*].tags[*]", ["a", "b"]),
        ("by.*.n", [None, 5]),
        ("by.x-1.n", [None]),
        ("by['x-1'].n", [None]),
        ("orders.id", []),
        ("by[0]", []),
        ("by.y.n.deeper", []),
        ("nothing.*", []),
    ],
)
def test_lookup(path: str, found: list[Json]) -> None:
    assert lookup(ORDERS, path) == found


@pytest.mark.parametrize(
    "path",
    [
        "user_reviews.blacklist.\u95ee\u9898\u5546\u5bb6.status",
        "leases.CTR-2101.rent",
        "a.two words.b",
        "a['key.with.dots'].b",
    ],
)
def test_any_key_can_be_assigned_and_found(path: str) -> None:
    assert lookup(assign({}, path, "v"), path) == ["v"]


@pytest.mark.parametrize(
    ("path", "offset"), [("a..b", 2), (".a", 0), ("a[", 1), ("a[x]", 1), ("a.[0]", 2), ("a]b", 1), ("[0]b", 3)]
)
def test_a_malformed_path_points_at_the_place(path: str, offset: int) -> None:
    with pytest.raises(PathError) as caught:
        lookup({}, path)
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("document", "path", "result"),
    [
        ({"a": 1}, "b.c", {"a": 1, "b": {"c": 0}}),
        ({"a": 1}, "a.b", {"a": {"b": 0}}),
        (None, "a", {"a": 0}),
        ({"l": [1, 2]}, "l[-1]", {"l": [1, 0]}),
        ({"l": [1, 2]}, "l[2]", {"l": [1, 2, 0]}),
        ({"l": [1, 2]}, "l.0", {"l": [0, 2]}),
        ({}, "l[0].x", {"l": [{"x": 0}]}),
        ({"l": []}, "l[-1]", {"l": [0]}),
        ({"l": [{"x": 1}, {}]}, "l.*.x", {"l": [{"x": 0}, {"x": 0}]}),
        ({"o": {"p": 1}}, "o.*", {"o": {"p": 0}}),
        ({"a": 1}, "", 0),
    ],
)
def test_assign(document: Json, path: str, result: Json) -> None:
    assert assign(document, path, 0) == result


@pytest.mark.parametrize(("document", "path"), [([1], "name"), ({"a": 1}, "[0]"), ([], "[3]"), ([1], "[-3]"), (5, "*")])
def test_assign_refuses_what_does_not_fit(document: Json, path: str) -> None:
    with pytest.raises(PathError):
        assign(document, path, 0)


names = st.text("ab-\u95ee 1", min_size=1, max_size=3)
documents: st.SearchStrategy[Json] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), names),
    lambda inner: st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(documents, st.lists(names, min_size=1, max_size=4).map(".".join), documents)
def test_what_is_assigned_is_found_and_the_original_stays(document: Json, path: str, value: Json) -> None:
    before = repr(document)
    assert lookup(assign(document, path, value), path) == [value]
    assert repr(document) == before


ENTRIES: dict[str, Json] = {
    "orders.last": {"id": "O-1", "lines": [{"sku": "A"}]},
    "orders.last.total": 30.98,
    "orders.last.id": "O-2",
    "cart.1.sku": "X",
    "cart.2.sku": "Y",
    "list": [1, 2],
    "odd[key": True,
    "nothing": None,
}


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("orders.last.id", ["O-2"]),
        ("orders.last.lines[0].sku", ["A"]),
        ("orders.last.total", [30.98]),
        ("list[-1]", [2]),
        ("list", [[1, 2]]),
        ("cart", [{"1": {"sku": "X"}, "2": {"sku": "Y"}}]),
        ("cart.2", [{"sku": "Y"}]),
        ("cart.*.sku", ["X", "Y"]),
        ("odd[key", [True]),
        ("odd[other", []),
        ("nothing", [None]),
        ("nothing.inside", []),
        ("missing", []),
        ("car", []),
    ],
)
def test_memory_lookup(key: str, found: list[Json]) -> None:
    assert memory_lookup(ENTRIES, key) == found


def test_the_order_of_entries_does_not_matter() -> None:
    assert memory_lookup({"a.b.c": 1, "a.b": {"c": 0, "d": 2}}, "a.*.c") == [1]
    assert memory_lookup({"a.b": {"c": 0, "d": 2}, "a.b.c": 1}, "a.*.d") == [2]


def test_gathered_leaves_refine_a_stored_object() -> None:
    assert memory_lookup(ENTRIES, "orders.*.total") == [30.98]
    assert ENTRIES["orders.last"] == {"id": "O-1", "lines": [{"sku": "A"}]}
