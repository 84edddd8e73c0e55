"""The ledger: who has which item, and what a lost slot means for it."""

from __future__ import annotations

from harness.cluster.ledger import RunLedger
from harness.model.ledger import ALONE, STATE_LOST, TOO_OFTEN, UNKNOWN, Note
from harness.recovery.never_twice import WROTE


def ledger(*tasks: str, ordinary: tuple[str, ...] = (), episodes: dict[str, str] | None = None) -> RunLedger:
    return RunLedger({**dict.fromkeys(tasks, True), **dict.fromkeys(ordinary, False)}, episodes or {})


def test_a_result_counts_once_and_only_of_the_attempt_that_holds_the_item() -> None:
    kept = ledger("t::A")
    assert kept.give("one", ["t::A"]) == (("t::A", 1),)
    kept.note("one", "t::A", "running")
    assert kept.lost("one").again == ("t::A",)
    assert kept.give("two", ["t::A"]) == (("t::A", 2),)
    assert not kept.finish("one", "t::A", 1)  # the lost slot has woken up
    assert not kept.finish("two", "t::A", 1)
    assert kept.finish("two", "t::A", 2)
    assert not kept.finish("two", "t::A", 2)
    assert kept.finished


def test_a_slot_may_write_only_what_it_holds() -> None:
    kept = ledger("t::A", "t::B")
    kept.give("one", ["t::A"])
    assert kept.may_write("one", "t::A")
    assert not kept.may_write("two", "t::A")
    assert not kept.may_write("one", "t::B")
    assert not kept.may_write("one", "t::unknown")
    kept.lost("one")
    assert not kept.may_write("one", "t::A")


def test_a_task_whose_write_was_allowed_has_written_even_if_the_child_never_said_so() -> None:
    kept = ledger("t::A")
    kept.give("one", ["t::A"])
    kept.may_write("one", "t::A")
    assert kept.lost("one").lost == {"t::A": WROTE}


def test_what_had_not_begun_comes_back_and_what_ran_runs_again() -> None:
    kept = ledger("t::A", "t::B")
    kept.give("one", ["t::A", "t::B"])
    kept.note("one", "t::A", "turn")
    found = kept.lost("one")
    assert (found.fresh, found.again, found.lost) == (("t::B",), ("t::A",), {})
    assert kept.lost("one").fresh == ()  # nothing is its any more


def test_a_task_runs_again_twice_at_most() -> None:
    kept = ledger("t::A", "t::B")
    for slot in ("one", "two"):
        kept.give(slot, ["t::A", "t::B"])
        kept.note(slot, "t::A", "turn")
        assert kept.lost(slot).again == ("t::A",)
    kept.give("three", ["t::A", "t::B"])
    kept.note("three", "t::A", "turn")
    assert kept.lost("three").lost == {"t::A": TOO_OFTEN.format(3)}


def test_a_task_that_was_alone_when_two_slots_died_is_to_blame() -> None:
    kept = ledger("t::A")
    kept.give("one", ["t::A"])
    kept.note("one", "t::A", "turn")
    assert kept.lost("one").again == ("t::A",)
    kept.give("two", ["t::A"])
    kept.note("two", "t::A", "turn")
    assert kept.lost("two").lost == {"t::A": ALONE}


def test_an_ordinary_test_that_had_begun_does_not_run_again() -> None:
    kept = ledger(ordinary=("t.py::A", "t.py::B"))
    kept.give("one", ["t.py::A", "t.py::B"])
    kept.note("one", "t.py::A", "turn")
    found = kept.lost("one")
    assert (found.lost, found.fresh) == ({"t.py::A": UNKNOWN}, ("t.py::B",))


def test_the_later_tasks_of_an_episode_are_lost_with_its_state() -> None:
    episodes = {"t::A": "E", "t::B": "E", "t::C": "E"}
    kept = ledger(*episodes, "t::D", episodes=episodes)
    kept.give("one", ["t::A", "t::B", "t::C", "t::D"])
    kept.note("one", "t::A", "turn")
    kept.finish("one", "t::A", 1)
    kept.note("one", "t::B", "turn")
    found = kept.lost("one")
    assert found.fresh == ("t::D",)
    assert found.lost == dict.fromkeys(("t::B", "t::C"), STATE_LOST.format("A"))


def test_an_episode_that_had_not_ended_a_task_runs_again_from_its_beginning() -> None:
    episodes = {"t::A": "E", "t::B": "E"}
    kept = ledger(*episodes, episodes=episodes)
    kept.give("one", list(episodes))
    kept.note("one", "t::A", "turn")
    found = kept.lost("one")
    assert set(found.again + found.fresh) == {"t::A", "t::B"}


def test_a_task_that_was_cut_off_runs_again_unless_it_had_written() -> None:
    kept = ledger("t::A", "t::B")
    kept.give("one", ["t::A", "t::B"])
    kept.may_write("one", "t::A")  # the answer was lost
    assert kept.given_up("one", "t::A", 1)
    assert not kept.finish("one", "t::A", 1)
    kept.note("one", "t::B", "wrote")
    assert not kept.given_up("one", "t::B", 1)
    assert kept.finish("one", "t::B", 1)


def test_a_task_that_is_cut_off_again_and_again_is_reported() -> None:
    kept = ledger("t::A")
    for attempt in (1, 2):
        kept.give("one", ["t::A"])
        assert kept.given_up("one", "t::A", attempt)
    kept.give("one", ["t::A"])
    assert not kept.given_up("one", "t::A", 3)
    assert kept.finish("one", "t::A", 3)


def test_what_does_not_run_again_when_a_run_is_gone_on_with() -> None:
    tasks, episodes = ("t::A", "t::B", "t::D", "t::E1", "t::E2", "t::F"), {"t::E1": "E", "t::E2": "E"}
    kept = ledger(*tasks, ordinary=("t.py::C",), episodes=episodes)
    notes = [Note("over", "t::A"), Note("wrote", "t::B"), Note("running", "t.py::C"), Note("over", "t::E1")]
    notes += [Note("wrote", "t::F"), Note("again", "t::F"), Note("wrote", "t::of another selection")]
    found = kept.resumed(notes)
    assert found.kept == ("t::A", "t::E1")
    assert found.lost == {"t::B": WROTE, "t::E2": STATE_LOST.format("E1"), "t.py::C": UNKNOWN}
    assert found.fresh == ("t::D", "t::F")
