"""The act `tool`: what is sent, how its answer is judged, and that a write is never sent twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.model.record import TaskResult
from harness.model.tools import ToolAnswer
from harness.recovery.catalog import Effect
from harness.recovery.failure import Circumstances, Failed, Failure, Passed
from harness.resilience.breaker import Breaker, BreakerSettings, CircuitState
from tests.unit.fakes import FakeToolBox, Theatre

CODE: dict[str, Any] = {"act": "tool", "server": "mail", "tool": "get_code", "arguments": {"to": "a@b.c"}}
ORDER: dict[str, Any] = {"act": "tool", "server": "shop", "tool": "place_order"}
REFUSED = Failure("TOOL_UNAVAILABLE", "refused")
LOST = Failure("TOOL_UNAVAILABLE", "lost", effect=Effect.POSSIBLE)
SLOW = Failure("TOOL_TIMEOUT", "slow", effect=Effect.POSSIBLE)
BROKEN = ToolAnswer("no such mailbox", is_error=True)
AGAIN = {"on_assertion_fail": {"strategy": "retry_after_wait", "wait_before_retry_seconds": 1}}


def theatre_of(*script: Any, **effects: Any) -> Theatre:
    theatre = Theatre()
    theatre.toolbox = FakeToolBox(theatre.clock, list(script), {"get_code": "read", **effects})
    return theatre


def play(theatre: Theatre, *steps: dict[str, Any], **spec: Any) -> TaskResult:
    return asyncio.run(theatre.play(steps=list(steps), **spec))


def code(result: TaskResult) -> str | None:
    return result.failure.code if result.failure else None


def test_the_answer_is_judged_and_remembered() -> None:
    theatre = theatre_of({"code": "123456", "mails": [{"id": 7}]})
    expect = "ALL[result('code') matches '^[0-9]{6}$', result('mails[0].id') == 7, result().mails.length == 1]"
    expect = expect.replace("result().mails.length", "result('mails').length")
    remember = {"login.code": "result('code')", "whole": "result()"}
    result = play(theatre, {**CODE, "expect": expect, "remember": remember, "screenshot_id": "after"})
    assert (result.final_state, theatre.world.entries_["login.code"]) == ("completed", "123456")
    assert theatre.world.entries_["whole"] == {"code": "123456", "mails": [{"id": 7}]}
    assert [str(each) for each in theatre.session.files] == ["after.png"]
    (record,) = result.history[:1]
    assert (record.step.effect, record.attempts[0].outcome.details["tool"]) == ("read", "get_code")
    assert (theatre.session.acts, theatre.toolbox.requests[0].effect) == ([], "read")


def test_a_task_without_tool_servers_says_so() -> None:
    result = play(Theatre(), CODE)
    assert code(result) == "TOOL_UNKNOWN"
    assert "[tool.harness.tools]" in str(result.failure and result.failure.message)


def test_an_expectation_that_fails_is_explained() -> None:
    result = play(theatre_of({"code": "12"}), {**CODE, "expect": "result('code') == '123456'"})
    assert result.failure is not None
    assert result.failure.assertion is not None
    assert (code(result), result.failure.assertion.expected, result.failure.assertion.actual) == (
        "ASSERTION_FAILED",
        "123456",
        "12",
    )


def test_references_keep_their_types_deep_in_the_arguments() -> None:
    theatre = theatre_of("ok")
    arguments = {"a": [{"n": "${inputs.n}", "m": "${memory.found}"}], "t": "${inputs.n} of ${memory.found.x}"}
    theatre.world.entries_.update(found={"x": [1]}, word="ok")
    step = {**CODE, "arguments": arguments, "expect": "result() == '${memory.word}'"}
    assert play(theatre, step, inputs={"n": 3}).final_state == "completed"
    assert theatre.toolbox.requests[0].arguments == {"a": [{"n": 3, "m": {"x": [1]}}], "t": "3 of [1]"}


def test_a_missing_memory_entry_is_told_before_anything_is_sent() -> None:
    theatre = theatre_of("ok")
    assert code(play(theatre, {**CODE, "arguments": {"a": "${memory.nothing}"}})) == "MEMORY_MISSING"
    assert theatre.toolbox.requests == []


def test_a_tool_that_answers_that_it_failed_is_no_success() -> None:
    result = play(theatre_of(BROKEN), CODE)
    assert result.failure is not None
    assert (code(result), len(result.history[0].attempts)) == ("TOOL_FAILED", 1)
    assert "no such mailbox" in result.failure.message


def test_a_failure_can_be_what_is_expected() -> None:
    step = {**CODE, "status": "error", "expect": "result() includes 'mailbox'"}
    assert play(theatre_of(BROKEN), step).final_state == "completed"
    unlike = play(theatre_of({"code": 1}), step)
    assert (code(unlike), "status: error" in str(unlike.failure and unlike.failure.message)) == (
        "ASSERTION_FAILED",
        True,
    )


@pytest.mark.parametrize(
    ("effect", "told", "calls"), [("read", None, 2), ("idempotent", None, 2), ("write", "OUTCOME_UNKNOWN", 1)]
)
def test_the_step_s_rule_says_whether_a_failed_tool_is_called_again(effect: str, told: str | None, calls: int) -> None:
    theatre = theatre_of(BROKEN, {"code": 1}, get_code=effect)
    result = play(theatre, CODE, error_recovery=AGAIN)
    assert (code(result), len(theatre.toolbox.requests)) == (told, calls)


@pytest.mark.parametrize(
    ("effect", "failure", "told", "calls"),
    [
        ("read", REFUSED, None, 2),
        ("read", LOST, None, 2),
        ("read", SLOW, None, 2),
        ("idempotent", LOST, None, 2),
        ("write", REFUSED, None, 2),
        ("write", LOST, "OUTCOME_UNKNOWN", 1),
        ("write", SLOW, "OUTCOME_UNKNOWN", 1),
        ("read", Failure("TOOL_AUTH", "401"), "TOOL_AUTH", 1),
        ("read", Failure("TOOL_UNKNOWN", "no"), "TOOL_UNKNOWN", 1),
        ("read", Failure("TOOL_INVALID", "no"), "TOOL_INVALID", 1),
        ("read", Failure("POLICY_TOOL", "no"), "POLICY_TOOL", 1),
        ("write", Failure("TOOL_PROTOCOL", "no", effect=Effect.POSSIBLE), "TOOL_PROTOCOL", 1),
    ],
)
def test_only_what_repeats_no_write_is_called_again(
    effect: str, failure: Failure, told: str | None, calls: int
) -> None:
    theatre = theatre_of(failure, {"code": 1}, get_code=effect)
    result = play(theatre, {**CODE, "timeout": 5})
    assert (code(result), len(theatre.toolbox.requests)) == (told, calls)


def test_done_when_tells_whether_a_lost_write_was_done() -> None:
    done = {**ORDER, "done_when": "json('env', 'order') == 'O-1'"}
    theatre = theatre_of(LOST, {"id": "O-1"})
    theatre.world.environment["order"] = "O-1"
    result = play(theatre, done)
    assert (result.final_state, result.history[0].effect_already_done) == ("completed", True)
    assert len(theatre.toolbox.requests) == 1
    theatre = theatre_of(LOST, {"id": "O-1"})
    assert play(theatre, done).final_state == "completed"
    assert len(theatre.toolbox.requests) == 2


def test_the_answer_of_a_write_that_was_lost_cannot_be_remembered() -> None:
    theatre = theatre_of(LOST)
    theatre.world.environment["order"] = "O-1"
    step = {**ORDER, "done_when": "json('env', 'order') == 'O-1'", "remember": {"order": "result('id')"}}
    result = play(theatre, step)
    assert (code(result), len(theatre.toolbox.requests)) == ("NOTHING_TO_REMEMBER", 1)
    assert "lost" in str(result.failure and result.failure.message)


def test_a_write_is_not_called_again_to_judge_its_answer_again() -> None:
    theatre = theatre_of({"id": "O-1"})
    theatre.session.page["text #last"] = lambda time: "O-1" if time > 0 else "none"
    step = {**ORDER, "expect": "result('id') == text('#last')", "remember": {"order": "result('id')"}}
    result = play(theatre, step, error_recovery=AGAIN)
    assert (result.final_state, len(result.history[0].attempts)) == ("completed", 2)
    assert (len(theatre.toolbox.requests), theatre.world.entries_["order"]) == (1, "O-1")


def test_an_unmet_expectation_of_a_write_stays_a_failure_even_if_it_is_done() -> None:
    theatre = theatre_of({"id": "O-2"})
    theatre.world.environment["order"] = "O-1"
    step = {**ORDER, "expect": "result('id') == 'O-1'", "done_when": "json('env', 'order') == 'O-1'"}
    result = play(theatre, step, error_recovery=AGAIN)
    assert (code(result), len(theatre.toolbox.requests)) == ("ASSERTION_FAILED", 1)


def test_a_page_that_is_lost_while_a_write_is_judged_does_not_repeat_it() -> None:
    theatre = theatre_of({"id": "O-1"})
    crashed = [Failure("PAGE_CRASHED", "crashed", tainted=True)]

    def last(_time: float) -> str:
        if crashed:
            raise Failed(crashed.pop())
        return "O-1"

    theatre.session.page["text #last"] = last
    result = play(theatre, {**ORDER, "expect": "result('id') == text('#last')"})
    assert (len(theatre.toolbox.requests), code(result)) == (1, None)


def test_a_tool_that_only_reads_is_called_again_while_a_criterion_waits() -> None:
    theatre = theatre_of({"mails": []}, {"mails": []}, {"mails": ["hello"]})
    result = play(theatre, {**CODE, "expect": "EVENTUALLY(result('mails').length == 1)"})
    assert (result.final_state, len(theatre.toolbox.requests)) == ("completed", 3)
    assert 2.0 <= theatre.clock.time < 3.0
    theatre = theatre_of({}, {"code": "1"})
    assert play(theatre, {**CODE, "remember": {"code": "result('code')"}}).final_state == "completed"
    assert theatre.world.entries_["code"] == "1"


def test_the_answer_of_a_write_is_not_waited_for() -> None:
    theatre = theatre_of({})
    result = play(theatre, {**ORDER, "remember": {"id": "result('id')"}}, expect_timeout=5)
    assert (code(result), theatre.clock.time) == ("NOTHING_TO_REMEMBER", 0.0)
    theatre = theatre_of({})
    assert code(play(theatre, {**ORDER, "expect": "result('id') == 1"}, expect_timeout=5)) == "ASSERTION_FAILED"
    assert theatre.clock.time == 0.0


def test_the_effect_of_a_server_that_cannot_be_asked_is_a_write() -> None:
    theatre = theatre_of({"code": 1}, get_code=REFUSED)
    result = play(theatre, CODE)
    assert (result.final_state, theatre.toolbox.requests[0].effect) == ("completed", "write")
    assert theatre.toolbox.requests[0].step == 0


def test_an_optional_tool_is_left_out() -> None:
    result = play(theatre_of(BROKEN), {**CODE, "optional": True})
    assert (result.final_state, result.history[0].skipped) == ("partial_success", True)


def test_a_call_ends_with_the_time_of_its_step() -> None:
    theatre = theatre_of(SLOW)
    result = play(theatre, {**CODE, "timeout": 4}, error_recovery={"on_network_error": "abort"})
    assert (code(result), theatre.toolbox.withins) == ("TOOL_TIMEOUT", [4.0])
    theatre = theatre_of(SLOW)
    result = play(theatre, {**CODE, "timeout": 400}, timeout=10)
    assert code(result) == "TASK_TIMEOUT"


def test_the_question_for_the_effect_counts_for_the_limit_of_the_step() -> None:
    theatre = theatre_of(REFUSED, {"code": "1"})
    theatre.toolbox.asking = 3.0
    play(theatre, {**CODE, "timeout": 4}, error_recovery={"on_network_error": {"strategy": "retry", "max_retries": 1}})
    assert theatre.toolbox.withins == [1.0, 4.0]


def test_a_circuit_holds_calls_of_its_server_back() -> None:
    theatre = theatre_of(REFUSED)
    circuit = Breaker("tool:mail", BreakerSettings(failure_threshold=2), now=theatre.clock.now)
    theatre.tool_breaker = {"mail": circuit}.get
    rule = {"on_network_error": {"strategy": "retry", "max_retries": 3, "wait_for_circuit": False}}
    result = play(theatre, CODE, error_recovery=rule)
    assert (circuit.state, len(theatre.toolbox.requests), code(result)) == (CircuitState.OPEN, 2, "CIRCUIT_OPEN")
    theatre.toolbox.script = [{"code": 1}]
    assert play(theatre, {**CODE, "server": "other"}).final_state == "completed"


def test_an_answer_that_is_not_as_expected_ends_a_row_of_failures() -> None:
    theatre = theatre_of(REFUSED)
    circuit = Breaker("tool:mail", BreakerSettings(failure_threshold=2), now=theatre.clock.now)
    theatre.tool_breaker = {"mail": circuit}.get
    rule = {"on_network_error": {"strategy": "abort"}}
    for reply in (REFUSED, BROKEN, REFUSED, {"code": 1}, REFUSED):
        theatre.toolbox.script = [reply]
        play(theatre, {**CODE, "expect": "result('code') == 2"}, error_recovery=rule)
    assert circuit.state is CircuitState.CLOSED


def test_a_server_that_only_a_person_can_mend_opens_no_circuit() -> None:
    theatre = theatre_of(REFUSED.also(Circumstances(permanent=True)))
    circuit = Breaker("tool:mail", BreakerSettings(failure_threshold=1), now=theatre.clock.now)
    theatre.tool_breaker = {"mail": circuit}.get
    assert (code(play(theatre, CODE)), circuit.state) == ("TOOL_UNAVAILABLE", CircuitState.CLOSED)


def test_a_circuit_of_a_tool_server_says_what_helps() -> None:
    theatre = theatre_of(REFUSED)
    circuit = Breaker("tool:mail", BreakerSettings(failure_threshold=1), now=theatre.clock.now)
    theatre.tool_breaker = {"mail": circuit}.get
    rule = {"on_network_error": {"strategy": "retry", "max_retries": 1, "wait_for_circuit": False}}
    result = play(theatre, CODE, error_recovery=rule)
    assert result.failure is not None
    assert (result.failure.code, "harness tools status" in result.failure.hint) == ("CIRCUIT_OPEN", True)


def rewound(done_when: str | None) -> tuple[Theatre, TaskResult]:
    """A tool writes, a later step is late, and the task may go back; every channel could be restored."""
    theatre = theatre_of({"id": "O-1"})
    theatre.world.whole = True
    theatre.world.environment["order"] = "O-1"
    theatre.session.script = [Passed(), Failure("STEP_TIMEOUT", "late")]
    order = {**ORDER, **({"done_when": done_when} if done_when else {}), "remember": {"id": "result('id')"}}
    steps = [{"act": "open", "url": "http://shop.local/"}, order, {"act": "click", "selector": "#a"}]
    return theatre, play(theatre, *steps, checkpoints=[0], error_recovery={"on_timeout": "retry_from_checkpoint"})


def test_a_checkpoint_does_not_undo_what_a_tool_did() -> None:
    theatre, result = rewound(None)
    assert (code(result), len(theatre.toolbox.requests)) == ("STEP_TIMEOUT", 1)
    assert "no checkpoint holds what a tool did" in str(result.failure and result.failure.message)


def test_after_going_back_done_when_tells_whether_the_tool_is_called_again() -> None:
    theatre, result = rewound("json('env', 'order') == 'O-1'")
    assert (result.final_state, len(theatre.toolbox.requests)) == ("completed", 1)
    assert theatre.world.entries_["id"] == "O-1"


def test_a_tool_that_lost_its_answer_is_not_undone_by_going_back() -> None:
    theatre = theatre_of(LOST, {"id": "O-1"})
    theatre.world.whole = True
    result = play(theatre, ORDER, checkpoints=[0])
    assert (code(result), len(theatre.toolbox.requests)) == ("OUTCOME_UNKNOWN", 1)
