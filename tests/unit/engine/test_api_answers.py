"""What an `api` step reads of its own answer: `expect`, `remember`, and what a judgement that fails does not repeat."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.model.record import TaskResult
from harness.recovery.failure import Failure, Passed
from tests.unit.fakes import Theatre

ANSWER = {"items": [{"id": "O-1", "n": 2}]}
GET: dict[str, Any] = {"act": "api", "url": "http://shop.local/api/orders"}
ONCE = {"on_assertion_fail": "save_trace_and_report"}
AGAIN = {"on_assertion_fail": {"strategy": "retry_after_wait", "wait_before_retry_seconds": 1}}


def answered(document: Any = ANSWER) -> Passed:
    return Passed({"status": 200, "body": "...", "result": document})


def play(*answers: Any, **spec: Any) -> tuple[TaskResult, int]:
    theatre = Theatre()
    theatre.session.script = list(answers)
    result = asyncio.run(theatre.play(**spec))
    return result, len(theatre.session.acts)


def test_expect_and_remember_read_the_answer_and_reports_do_not_have_it_twice() -> None:
    step = {**GET, "expect": "result('items[0].n') == 2", "remember": {"id": "result('items[0].id')"}}
    result, _ = play(answered(), steps=[step])
    assert (result.ok, result.memory["id"]) == (True, "O-1")
    outcome = result.history[0].attempts[-1].outcome
    assert isinstance(outcome, Passed)
    assert "result" not in outcome.details


@pytest.mark.parametrize(
    ("expect", "told"),
    [
        ("result('items[0].n') == 3", "result('items[0].n') is 2, expected 3"),
        ("result('order') == 'x'", "is missing (the answer has nothing at 'order')"),
        ("NOT[result('items').length == 1]", "result('items').length == 1"),
    ],
)
def test_an_answer_that_is_not_as_expected_fails_the_step(expect: str, told: str) -> None:
    result, _ = play(answered(), steps=[{**GET, "expect": expect}], error_recovery=ONCE)
    assert result.failure is not None
    assert result.failure.code == "ASSERTION_FAILED"
    assert told in result.failure.message


def test_a_read_is_sent_again_and_its_new_answer_counts() -> None:
    step = {**GET, "expect": "result('items[0].n') == 3"}
    result, sent = play(answered(), answered({"items": [{"n": 3}]}), steps=[step], error_recovery=AGAIN)
    assert (result.ok, sent) == (True, 2)


def test_a_write_is_not_sent_again_and_stays_as_it_was_answered() -> None:
    step = {**GET, "method": "POST", "expect": "result('items[0].n') == 3"}
    result, sent = play(answered(), answered({"items": [{"n": 3}]}), steps=[step], error_recovery=AGAIN)
    assert (result.ok, sent) == (False, 1)
    assert result.failure is not None
    assert result.failure.code == "ASSERTION_FAILED"


def test_an_answer_that_is_too_large_is_neither_read_nor_taken_for_empty() -> None:
    step = {**GET, "expect": "result() == null"}
    result, _ = play(
        Passed({"status": 200, "body": "x"}),
        steps=[step],
        error_recovery=ONCE,
    )
    assert result.failure is not None
    assert "the answer is too large" in result.failure.message


def test_a_request_that_failed_is_no_answer() -> None:
    down = Failure("HTTP_UNAVAILABLE", "503")
    result, _ = play(down, steps=[{**GET, "expect": "result() == 1"}], error_recovery={"on_network_error": "abort"})
    assert result.failure is not None
    assert result.failure.code == "HTTP_UNAVAILABLE"
