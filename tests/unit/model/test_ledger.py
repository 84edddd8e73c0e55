"""What runs again when a process is gone: no write is done twice, each item has one end, in all places the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from harness.model.events import StepStarted, TaskStarted, WriteSeen
from harness.model.ledger import (
    ALONE,
    RULES,
    STATE_LOST,
    TOO_OFTEN,
    UNKNOWN,
    Gone,
    ItemFacts,
    LossVerdict,
    NewWords,
    Note,
    facts_of,
    read_note,
    what_runs_again,
    words_of,
)
from harness.recovery.never_twice import WROTE

RAN, LEFT, ENDED = ItemFacts(begun=True), ItemFacts(), ItemFacts(ended=True)
FACTS = some.builds(
    ItemFacts,
    begun=some.booleans(),
    wrote=some.booleans(),
    ended=some.booleans(),
    task=some.booleans(),
    episode=some.sampled_from(["", "E", "F"]),
    losses=some.integers(1, 4),
    alone=some.integers(0, 4),
)
ITEMS = some.dictionaries(some.sampled_from([f"t::{number}" for number in range(6)]), FACTS)


def one(facts: ItemFacts, gone: Gone) -> LossVerdict:
    return what_runs_again({"t::A": facts}, gone)


@given(ITEMS, some.sampled_from(Gone))
def test_no_write_is_done_again_wherever_its_process_was(facts: dict[str, ItemFacts], gone: Gone) -> None:
    found = what_runs_again(facts, gone)
    assert not [node for node in (*found.fresh, *found.again) if facts[node].wrote]
    assert sorted([*found.kept, *found.fresh, *found.again, *found.lost]) == sorted(facts)
    assert all(facts[node].ended for node in found.kept)
    assert not any(facts[node].ended for node in found.lost)


@given(ITEMS, some.sampled_from(Gone))
def test_an_episode_begins_anew_whole_or_goes_no_further(facts: dict[str, ItemFacts], gone: Gone) -> None:
    """Of a state that is lost nothing follows: either all of its tasks run, or none that had an end before it."""
    found = what_runs_again(facts, gone)
    for episode in ("E", "F"):
        members = {node for node, each in facts.items() if each.episode == episode}
        if RULES[gone].episode != "goes on" and members & {*found.fresh, *found.again}:
            assert not members & {*found.kept, *found.lost}


@pytest.mark.parametrize("gone", Gone)
def test_what_had_not_begun_runs_and_what_has_ended_stays_so(gone: Gone) -> None:
    assert one(LEFT, gone) == LossVerdict(fresh=("t::A",))
    assert one(ENDED, gone) == LossVerdict(kept=("t::A",))
    assert one(RAN, gone) == LossVerdict(again=("t::A",))
    assert one(ItemFacts(wrote=True), gone) == LossVerdict(lost={"t::A": WROTE})
    ordinary = one(ItemFacts(begun=True, task=False), gone)
    assert ordinary == (LossVerdict(again=("t::A",)) if gone is Gone.PART else LossVerdict(lost={"t::A": UNKNOWN}))


def test_a_task_that_was_alone_is_to_blame_and_one_that_was_lost_too_often_is_given_up() -> None:
    alone = [one(ItemFacts(begun=True, alone=number), Gone.SLOT).lost.get("t::A") for number in (0, 1, 2)]
    assert alone == [None, None, ALONE]
    assert one(ItemFacts(begun=True, alone=1), Gone.WORKER).lost == {"t::A": ALONE}
    assert one(ItemFacts(begun=True, losses=3), Gone.SLOT).lost == {"t::A": TOO_OFTEN.format(3)}
    assert one(ItemFacts(losses=3, alone=3), Gone.SLOT).fresh == ("t::A",)  # it had not begun this time


EPISODE = {"t::1": ItemFacts(episode="E"), "t::2": ItemFacts(episode="E")}
CUT_OFF = {**EPISODE, "t::1": ItemFacts(ended=True, episode="E")}


def test_an_episode_that_was_cut_off_begins_anew_only_with_a_store() -> None:
    assert what_runs_again(CUT_OFF, Gone.PART) == LossVerdict(fresh=("t::2",), again=("t::1",))
    assert what_runs_again(CUT_OFF, Gone.WORKER) == LossVerdict(kept=("t::1",), fresh=("t::2",))
    for gone in (Gone.SLOT, Gone.DRIVER):
        assert what_runs_again(CUT_OFF, gone) == LossVerdict(kept=("t::1",), lost={"t::2": STATE_LOST.format("1")})


def test_an_episode_that_had_begun_to_write_does_not_begin_anew() -> None:
    wrote = {**EPISODE, "t::1": ItemFacts(ended=True, wrote=True, episode="E")}
    why = f"{STATE_LOST.format('1')}, which had begun to write"
    assert what_runs_again(wrote, Gone.PART) == LossVerdict(kept=("t::1",), lost={"t::2": why})
    both = {**CUT_OFF, "t::2": ItemFacts(wrote=True, episode="E")}
    assert what_runs_again(both, Gone.PART) == LossVerdict(kept=("t::1",), lost={"t::2": WROTE})


def test_an_episode_that_has_ended_is_over() -> None:
    ended = dict.fromkeys(EPISODE, ItemFacts(ended=True, episode="E"))
    assert all(what_runs_again(ended, gone).kept == tuple(EPISODE) for gone in Gone)


def test_failures_of_the_process_are_no_end() -> None:
    assert {gone: sorted(rule.no_end) for gone, rule in RULES.items() if rule.no_end} == {
        Gone.SLOT: ["BROWSER_LAUNCH_FAILED", "WORKER_CUT_OFF"],
        Gone.PART: ["INTERRUPTED", "WORKER_CUT_OFF"],
    }


# What carries it.


@given(some.builds(Note, some.sampled_from(["running", "wrote", "over"]), some.text(), some.text()))
def test_a_note_is_one_line_and_is_read_as_it_was(note: Note) -> None:
    line = note.line()
    assert (line.count(b"\n"), read_note(line)) == (1, note)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("turn", RAN),
        ("running wrote", ItemFacts(begun=True, wrote=True)),
        ("running wrote over", ItemFacts(wrote=True, ended=True)),
        ("running wrote over running", RAN),  # `--reruns`
        ("wrote crashed", ItemFacts(wrote=True, ended=True)),
        ("running wrote again", LEFT),
    ],
)
def test_notes_say_what_is_known(words: str, expected: ItemFacts) -> None:
    assert facts_of(Note(word, "A") for word in words.split()) == {"A": expected}  # type: ignore[arg-type]


def test_a_step_that_asks_before_it_writes_has_not_written_when_it_begins() -> None:
    """A note would keep for ever that a task has written, although nothing was sent."""
    step: Any = SimpleNamespace(effect_class="write")
    begins = StepStarted(None, 0, step, None)  # type: ignore[arg-type]
    assert (words_of(begins), words_of(begins, asks=True)) == (("wrote",), ())
    assert words_of(WriteSeen(None, 0, None), asks=True) == ("wrote",)  # type: ignore[arg-type]


def test_many_requests_of_a_task_are_noted_once_until_it_begins_again() -> None:
    plan: Any = SimpleNamespace(task_id="A", alternative=None, repairs=())
    seen, began = WriteSeen(plan, 0, None), TaskStarted(plan, None)  # type: ignore[arg-type]
    new = NewWords()
    assert [new.of(each) for each in (began, seen, seen, began, seen)] == [
        ["running"], ["wrote"], [], ["running"], ["wrote"],
    ]  # fmt: skip
