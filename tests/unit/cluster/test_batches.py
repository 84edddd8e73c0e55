"""Batches: whole components, the longest first, ever smaller; every item exactly once."""

from __future__ import annotations

import time
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from harness.cluster.batches import LONGEST, Batches, components
from harness.cluster.ledger import RunLedger


def nodes_of(batches: Batches, slot: str = "one", slots: tuple[str, ...] = ("one", "two")) -> list[str]:
    return [node for each in batches.next(slot, slots) for node in each.nodes]


def batches_of(seconds: dict[str, float], **how: object) -> Batches:
    return Batches(components([[node] for node in seconds], seconds, **how))  # type: ignore[arg-type]


def test_the_longest_component_comes_first_and_alone_if_it_is_longer_than_its_share() -> None:
    batches = batches_of({"short-1": 0.5, "long": 60.0, "short-2": 0.5})
    assert nodes_of(batches) == ["long"]


def test_a_batch_is_a_fraction_of_what_is_left() -> None:
    batches = batches_of({f"{number:02}": 1.0 for number in range(40)})
    sizes = []
    while found := nodes_of(batches):
        sizes.append(len(found))
    assert sizes[:3] == [10, 7, 5]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == 40


def test_no_batch_of_several_components_is_longer_than_the_limit() -> None:
    batches = batches_of({f"{number:04}": 10.0 for number in range(1000)})
    assert len(nodes_of(batches)) * 10.0 <= LONGEST


def test_an_urgent_component_comes_before_a_longer_one() -> None:
    assert nodes_of(batches_of({"long": 60.0, "urgent": 1.0}, priorities={"long": 5, "urgent": 1}))[0] == "urgent"


def test_a_task_that_must_be_alone_has_a_batch_of_its_own() -> None:
    batches = batches_of({f"{number}": 1.0 for number in range(20)} | {"alone": 1.0}, alone=frozenset({"alone"}))
    found = []
    while batch := nodes_of(batches):
        found.append(batch)
    assert ["alone"] in found


def test_what_depends_on_each_other_stays_together_and_an_unknown_item_counts_as_the_median() -> None:
    found = components([["a", "b"], ["c"], ["d"]], {"a": 1.0, "b": 3.0, "c": 8.0})
    assert [(each.nodes, each.seconds) for each in found] == [(("a", "b"), 4.0), (("c",), 8.0), (("d",), 3.0)]


def test_an_item_that_was_lost_waits_for_another_slot_if_there_is_one_it_may_run_on() -> None:
    batches = batches_of({"a": 1.0, "b": 1.0})
    taken = {*nodes_of(batches), *nodes_of(batches)}
    assert taken == {"a", "b"}
    batches.put_back(["a"], {"a": {"one"}})
    assert nodes_of(batches, "one", ("one", "two")) == []
    assert nodes_of(batches, "two", ("one", "two")) == ["a"]
    batches.put_back(["a"], {"a": {"one", "two"}})
    assert nodes_of(batches, "one", ("one", "two")) == ["a"]
    batches.put_back(["a"], {"a": {"one"}})
    assert nodes_of(batches, "one", ("one",)) == ["a"]


def test_items_that_come_back_are_first_and_in_their_components() -> None:
    batches = Batches(components([["a", "b"], ["c"], ["d"]], dict.fromkeys("abcd", 1.0)))
    assert nodes_of(batches, "one", ("one",)) == ["a", "b"]
    batches.put_back(["b", "a"])
    assert nodes_of(batches, "one", ("one",)) == ["a", "b"]


def test_what_was_tied_to_a_lost_item_goes_with_it() -> None:
    batches = Batches(components([["a", "b", "c"], ["d"]], dict.fromkeys("abcd", 1.0)))
    assert nodes_of(batches, "one", ("one",)) == ["a", "b", "c"]
    batches.put_back(["b", "c"], {"b": {"one"}})
    assert nodes_of(batches, "one", ("one", "two")) == ["d"]
    assert nodes_of(batches, "two", ("one", "two")) == ["b", "c"]


def test_a_component_waits_until_it_may_begin() -> None:
    batches = batches_of({"a": 2.0, "b": 1.0})
    assert [each.nodes for each in batches.next("one", ("one",), lambda each: each.nodes != ("a",))] == [("b",)]
    assert nodes_of(batches, "one", ("one",)) == ["a"]


@given(
    seconds=st.lists(st.floats(0.01, 500), min_size=1, max_size=60),
    slots=st.integers(1, 8),
)
def test_every_item_is_given_exactly_once(seconds: list[float], slots: int) -> None:
    known = {str(number): each for number, each in enumerate(seconds)}
    batches, names = batches_of(known), tuple(f"slot{number}" for number in range(slots))
    found: list[str] = []
    while batch := nodes_of(batches, names[len(found) % slots], names):
        found += batch
    assert Counter(found) == Counter(list(known))
    assert len(batches) == 0


def test_the_largest_run_is_given_out_in_a_time_that_grows_with_its_items_and_not_with_their_square() -> None:
    """100,000 items to 1,000 slots, about 8,000 batches: a look at all items for each batch would take minutes."""
    nodes = [f"t::{number}" for number in range(100_000)]
    slots = [f"slot{number}" for number in range(1000)]
    batches, ledger = (
        Batches(components([[node] for node in nodes], dict.fromkeys(nodes, 2.0))),
        RunLedger(dict.fromkeys(nodes, True)),
    )
    started, given = time.process_time(), 0
    while found := nodes_of(batches, slot := slots[given % 1000], tuple(slots)):
        given += 1
        for node, attempt in ledger.give(slot, found):
            assert ledger.finish(slot, node, attempt)
        assert not ledger.lost(slot).fresh
    assert ledger.finished
    assert time.process_time() - started < 20
