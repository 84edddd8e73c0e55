"""Which executions of a part count, when several processes have done it one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.ledger import RULES, Gone
from harness.reporting.history.attempts import (
    PartAttempt,
    as_one_run,
    attempt_of,
    begun_line,
    counting,
    ended_line,
    ends,
    in_order,
    over_line,
    without_end,
)
from harness.reporting.history.file import HistoryError
from harness.reporting.history.record import Execution
from tests.unit.reporting.history.runs import execution, failed, record, run

RUN = run("20251116T090000-1", [])


def ended(task_id: str, code: str = "", number: int = 1, outcome: str = "") -> Execution:
    made = execution(failed(task_id, code) if code else record(task_id))
    return made.model_copy(update={"number": number, **({"outcome": outcome} if outcome else {})})


def attempt(name: str, *executions: Execution, tasks: tuple[str, ...] = (), minutes: int = 0) -> PartAttempt:
    started = RUN.started + timedelta(minutes=minutes)
    return PartAttempt(name, RUN.model_copy(update={"run": name, "started": started}), tasks, executions)


def owner(of: Mapping[str, str]) -> Any:
    return of.get


def node(task_id: str) -> str:
    return ended(task_id).nodeid


def test_a_journal_says_what_was_told() -> None:
    first, second = ended("A", "STEP_TIMEOUT"), ended("A", "STEP_TIMEOUT").model_copy(update={"reason": "teardown"})
    lines = [begun_line(RUN, ["b::B", "a::A"]), ended_line(first), ended_line(second)]
    found = attempt_of("one", lines)
    assert found is not None
    assert (found.tasks, found.over, found.executions) == (("a::A", "b::B"), False, (second,))
    over = attempt_of("one", [*lines, over_line(RUN.model_copy(update={"exit_status": 1}))])
    assert over is not None
    assert (over.over, over.run.exit_status) == (True, 1)


def test_half_a_character_of_a_page_is_replaced() -> None:
    found = ended("A", "STEP_TIMEOUT")
    assert found.record is not None
    half = found.model_copy(update={"record": found.record.model_copy(update={"message": "x\ud800\u2028y"})})
    read = attempt_of("one", [begun_line(RUN, ["a\udcff::A"]), ended_line(half)])
    assert read is not None
    assert (read.tasks, read.executions[0].record.message) == (("a?::A",), "x?\u2028y")  # type: ignore[union-attr]


def test_a_journal_without_a_beginning_is_none() -> None:
    assert attempt_of("one", [ended_line(ended("A"))]) is None


WITHOUT_ZONE = begun_line(RUN, []).replace("09:00:00Z", "09:00:00")


@pytest.mark.parametrize(
    "line", ["no json", '{"begun": {"run": {}, "tasks": []}}', '{"ended": 3}', "[" * 100_000, WITHOUT_ZONE]
)
def test_what_is_no_journal_is_refused(line: str) -> None:
    with pytest.raises(HistoryError, match="one: expected the journal of a run"):
        attempt_of("one", [line])


def test_what_was_interrupted_runs_again_unless_it_wrote() -> None:
    first = attempt("one", ended("A", "INTERRUPTED"), ended("B", "WORKER_CUT_OFF"), ended("C", "INTERRUPTED"))
    assert set(ends([first], owner({"C": "one"}))) == {node("C")}
    assert set(ends([first], owner({"C": "another"}))) == set()


def test_what_was_skipped_or_was_to_run_again_has_no_end() -> None:
    first = attempt("one", ended("A", outcome="skipped"), ended("B", "STEP_TIMEOUT", outcome="rerun"))
    assert ends([first], owner({})) == {}


def test_what_failed_as_its_file_expects_has_ended() -> None:
    made = execution(failed("A", "STEP_TIMEOUT").model_copy(update={"expected": True, "known_defect": "SHOP-12"}))
    first = attempt("one", made.model_copy(update={"outcome": "skipped"}))
    assert set(ends([first], owner({}))) == {node("A")}


def test_the_last_process_in_which_a_task_ended_counts() -> None:
    interrupted, passed = ended("A", "INTERRUPTED"), ended("A")
    attempts = in_order([attempt("two", passed, minutes=1), attempt("one", interrupted)])
    assert [each.name for each in attempts] == ["one", "two"]
    assert counting(attempts, owner({})) == {node("A"): (passed,)}
    late = attempt("three", interrupted, minutes=2)
    assert counting([*attempts, late], owner({})) == {node("A"): (passed,)}


def test_a_clock_that_was_set_back_does_not_change_the_order() -> None:
    lines = [begun_line(RUN.model_copy(update={"started": RUN.started - timedelta(hours=5)}), [], 1)]
    later = attempt_of("later", lines)
    assert later is not None
    attempts = in_order([later, attempt("first")])
    assert [each.name for each in attempts] == ["first", "later"]
    assert as_one_run(attempts, owner({})).started == RUN.started - timedelta(hours=5)


def test_reruns_of_one_process_stay_together() -> None:
    first, second = ended("A", "STEP_TIMEOUT", outcome="rerun"), ended("A", number=2)
    assert counting([attempt("one", second, first)], owner({})) == {node("A"): (first, second)}


def test_tasks_without_an_end_are_named() -> None:
    tasks = tuple(map(node, "ABCD"))
    found = without_end([attempt("one", ended("A"), ended("D", outcome="rerun"), tasks=tasks)], owner({"B": "one"}))
    assert found == ([node("B")], [node("C"), node("D")])


def test_a_part_is_one_run() -> None:
    first = attempt("one", ended("A"), ended("B", "INTERRUPTED"))
    last = attempt("two", ended("B"), minutes=5)
    found = as_one_run([first, last], owner({}))
    assert (found.run, found.started) == ("two", first.run.started)
    assert sorted(each.nodeid for each in found.executions) == [node("A"), node("B")]
    assert found.note == "its last process has not told its end"


CODES = ["", "STEP_TIMEOUT", "WORKER_CRASHED", *sorted(RULES[Gone.PART].no_end)]


@given(st.lists(st.dictionaries(st.sampled_from("ABC"), st.sampled_from(CODES)), min_size=1, max_size=5), st.data())
def test_each_task_counts_in_exactly_one_process(told: list[dict[str, str]], data: Any) -> None:
    attempts = [
        attempt(str(number), *(ended(task, code) for task, code in each.items()), minutes=number)
        for number, each in enumerate(told)
    ]
    names = [each.name for each in attempts]
    wrote = data.draw(st.dictionaries(st.sampled_from("ABC"), st.sampled_from(names)))
    found = counting(attempts, owner(wrote))
    assert set(found) == {node(task) for each in told for task in each}
    assert all(len(executions) == 1 for executions in found.values())
    for nodeid, end in ends(attempts, owner(wrote)).items():
        assert found[nodeid] == (end,)
