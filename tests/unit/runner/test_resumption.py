"""What a process does of a part that others have begun: each task has one end, and no write is done twice."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from harness.runner.resumption import Earlier, resumption
from harness.runner.stored_part import wrote_name

TASKS = {"a::A": ("A", None), "b::B": ("B", None), "e::1": ("1", "E"), "e::2": ("2", "E")}


def earlier(ended: dict[str, bool] | None = None, *wrote: str) -> Earlier:
    return Earlier(ended or {}, frozenset(map(wrote_name, wrote)))


def codes(found: Any) -> dict[str, str]:
    return {task_id: failure.code for task_id, failure in found.lost.items()}


def test_nothing_was_done() -> None:
    found = resumption(TASKS, earlier())
    assert (found.done, codes(found)) == (frozenset(), {})


def test_what_has_an_end_does_not_run_and_what_only_began_does() -> None:
    assert resumption(TASKS, earlier({"a::A": False}, "A")).done == {"a::A"}


def test_a_task_that_had_begun_to_write_and_has_no_end_is_lost() -> None:
    found = resumption(TASKS, earlier({}, "A"))
    assert (found.done, codes(found)) == (frozenset(), {"A": "WORKER_CRASHED"})


def test_an_episode_runs_again_from_its_start() -> None:
    found = resumption(TASKS, earlier({"e::1": True}))
    assert (found.done, codes(found)) == (frozenset(), {})
    assert resumption(TASKS, earlier({"e::1": True, "e::2": True})).done == {"e::1", "e::2"}


def test_an_episode_that_had_begun_to_write_does_not_run_again() -> None:
    found = resumption(TASKS, earlier({"e::1": True}, "1"))
    assert (found.done, codes(found)) == ({"e::1"}, {"2": "EPISODE_STATE_LOST"})
    found = resumption(TASKS, earlier({"e::1": True}, "2"))
    assert (found.done, codes(found)) == ({"e::1"}, {"2": "WORKER_CRASHED"})


@given(st.sets(st.sampled_from(sorted(TASKS))), st.sets(st.sampled_from("AB12")))
def test_nothing_runs_again_that_has_begun_to_write(ended: set[str], wrote: set[str]) -> None:
    found = resumption(TASKS, earlier(dict.fromkeys(ended, True), *wrote))
    runs = {nodeid for nodeid, (task_id, _) in TASKS.items() if nodeid not in found.done and task_id not in found.lost}
    assert not {TASKS[nodeid][0] for nodeid in runs} & wrote
    assert not {task_id for nodeid, (task_id, _) in TASKS.items() if nodeid in found.done} & set(found.lost)
    assert found.done <= ended
