"""What the campaign of benchmarks/never_twice says of a trial, and that a trial can be made again from its name."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.never_twice.pages import KINDS
from benchmarks.never_twice.tables import ANSWERS, FAILURES, WAYS
from benchmarks.never_twice.trials import Trial, drawn, tasks_of, verdict
from harness.spec.task import TaskSpec

FETCH = Trial("S1N0001", "fetch", "late", "200", "checkpoint")
PASSED = {"final_state": "completed", "code": None, "warnings": []}
FAILED = {"final_state": "failed", "code": "STEP_TIMEOUT", "warnings": []}
UNKNOWN = {**FAILED, "code": "OUTCOME_UNKNOWN"}
DIED = {**FAILED, "code": "WORKER_CRASHED"}
TOLD = {**PASSED, "warnings": [{"type": "request_sent_twice"}]}


@pytest.mark.parametrize(
    ("effects", "arrived", "resent", "record", "said"),
    [
        (1, 1, 0, PASSED, "once"),
        (0, 0, 0, FAILED, "once"),
        (1, 1, 0, UNKNOWN, "once"),
        (0, 0, 0, UNKNOWN, "needless"),
        (2, 2, 0, PASSED, "double"),
        (2, 2, 0, FAILED, "double"),
        (2, 2, 0, None, "double"),
        (2, 2, 0, UNKNOWN, "told"),
        (2, 2, 1, TOLD, "told"),
        (3, 3, 1, TOLD, "double"),
        (2, 2, 1, PASSED, "double"),
        (2, 2, 1, DIED, "told"),
        (2, 2, 0, DIED, "double"),
        (0, 1, 0, PASSED, "false green"),
    ],
)
def test_what_is_said_of_a_trial(effects: int, arrived: int, resent: int, record: Any, said: str) -> None:
    assert verdict(FETCH, effects, arrived, resent, record) == said


def test_only_what_was_not_known_to_write_may_be_done_again_after_a_kill() -> None:
    assert verdict(Trial("S1N0001", "fetch", "late", "200", "store"), 2, 2, 0, PASSED) == "gap"
    assert verdict(Trial("S1N0001", "fetch", "late", "200", "store", declared=True), 2, 2, 0, PASSED) == "double"
    assert verdict(Trial("S1N0001", "form-submitted", "late", "200", "worker"), 2, 2, 0, DIED) == "double"


def test_a_page_that_sends_late_may_pass_without_its_order() -> None:
    assert verdict(Trial("S1N0001", "timer", "late", "200", "checkpoint"), 0, 0, 0, PASSED) == "once"
    assert verdict(Trial("S1N0001", "fetch", "late", "409", "checkpoint"), 0, 1, 0, PASSED) == "once"


def test_a_page_that_is_ended_at_once_may_pass_without_its_order() -> None:
    assert verdict(Trial("S1N0001", "enter", "looping", "200", "renewal"), 0, 0, 0, PASSED) == "once"
    assert verdict(Trial("S1N0001", "enter", "looping", "200", "renewal", pause=0.7), 0, 0, 0, PASSED) == "false green"


def test_a_trial_is_drawn_from_its_seed_and_number_and_every_table_is_used() -> None:
    trials = [drawn(7, number) for number in range(3000)]
    assert trials[1234] == drawn(7, 1234)
    assert [each.way for each in trials[: len(WAYS)]] == list(WAYS)
    assert {each.kind for each in trials} == set(KINDS)
    assert {each.failure for each in trials} == set(FAILURES)
    assert {each.answer for each in trials} == set(ANSWERS)
    assert (len(KINDS) >= 46, len(FAILURES) >= 12, len(ANSWERS) >= 20) == (True, True, True)


def test_every_task_of_a_trial_is_a_valid_file() -> None:
    for number in range(300):
        for task in tasks_of(drawn(7, number), "http://127.0.0.1:1", "http://127.0.0.1:2"):
            TaskSpec.model_validate(task)
