"""The part of a run in its store: names, what the parts have in common, and what earlier processes have told."""

from __future__ import annotations

from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.reporting.history.attempts import begun_line, ended_line
from harness.reporting.history.file import HistoryError
from harness.runner.stored_part import (
    CommonRun,
    StoredPart,
    find_attempt,
    join_division,
    join_run,
    part_name,
    parts_below,
    show_attempt,
    wrote_name,
)
from harness.store import Store, StoreUnusable, open_store
from tests.unit.reporting.history.runs import execution, record, run


@pytest.fixture
def store() -> Store:
    return open_store(f"memory://{uuid4()}/run")


@given(st.text(min_size=1, max_size=400), st.text(min_size=1, max_size=400))
def test_each_task_has_a_name_of_its_own(one: str, other: str) -> None:
    name = wrote_name(one)
    assert len(name) < 250
    assert name.count("/") == 1
    assert (name == wrote_name(other)) == (one == other)


def test_what_a_part_is_called() -> None:
    assert (part_name("2/3"), part_name("")) == ("part-2-of-3", "whole")


def test_the_parts_of_one_run_agree(store: Store) -> None:
    for _ in range(2):
        join_run(store, CommonRun("3", "abc", "c" * 40))
    join_run(store, CommonRun("3", "abc", ""))


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (CommonRun("4", "abc", "c" * 40), r"it has a run in 3 part\(s\), and this one is in 4"),
        (CommonRun("3", "", "c" * 40), r"divided by durations abc, this one by none \(by number\)"),
        (CommonRun("3", "abc", "d" * 40), "its run is of commit cccccccccccc, this one of dddddddddddd"),
    ],
)
def test_another_run_is_refused(store: Store, other: CommonRun, why: str) -> None:
    join_run(store, CommonRun("3", "abc", "c" * 40))
    with pytest.raises(HistoryError, match=f"{why}. Each run needs a place of its own"):
        join_run(store, other)


def test_a_slot_knows_whether_it_sees_the_store_of_its_driver(store: Store) -> None:
    show_attempt(store, "one")
    find_attempt(store, "one")
    with pytest.raises(StoreUnusable, match="is not the store of the run, seen from this machine"):
        find_attempt(store, "another")
    assert parts_below(store) == []  # it is no part that somebody has begun


def test_parts_of_other_tasks_are_refused(store: Store) -> None:
    for _ in range(2):
        join_division(store, "abc")
    with pytest.raises(HistoryError, match=r"of other tasks \(abc\) than those found here \(def\)"):
        join_division(store, "def")


def test_what_is_no_run_is_refused(store: Store) -> None:
    store.put("run.json", b"<html>")
    with pytest.raises(HistoryError, match=r"run\.json is not of a run of tasks"):
        join_run(store, CommonRun(""))


def test_a_part_knows_its_attempts_and_who_wrote(store: Store) -> None:
    part = store.at("part-1-of-2")
    first = run("20251116T090000-1", [])
    part.append("journal/one", [begun_line(first, ["a::A"])])
    part.append("journal/one", [ended_line(execution(record("A")))])
    part.append("journal/none", [ended_line(execution(record("A")))])
    part.put(wrote_name("A"), b"one")
    found = StoredPart(part)
    assert [(each.name, len(each.executions)) for each in found.attempts] == [("one", 1)]
    assert (found.owner("A"), found.owner("B")) == ("one", None)


def test_a_garbled_journal_is_named_with_what_to_do(store: Store) -> None:
    part = store.at("part-1-of-2")
    part.put("journal/one/x-1.jsonl", b'{"begun": {"ru')
    with pytest.raises(HistoryError, match=r"run/part-1-of-2: journal/one: expected .*; delete journal/one there, and"):
        _ = StoredPart(part).attempts


def test_parts_come_in_the_order_of_their_numbers(store: Store) -> None:
    for number in (10, 9, 1):
        store.at(f"part-{number}-of-10").append("journal/x", ["{}"])
    store.at("others").put("x", b"")
    assert [each.shown.rpartition("/")[2] for each in parts_below(store)] == [f"part-{n}-of-10" for n in (1, 9, 10)]
    assert [each.shown for each in parts_below(store.at("part-9-of-10"))] == [store.at("part-9-of-10").shown]
