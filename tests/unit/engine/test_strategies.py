"""Every declared strategy and each of its settings changes what the engine does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.model.record import TaskResult
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure, Passed
from tests.unit.fakes import Theatre

REFUSED = Failure("NET_CONNECTION_REFUSED", "refused")
CLICK = {"act": "click", "selector": "#a"}


def play(theatre: Theatre, rules: dict[str, Any], **spec: Any) -> TaskResult:
    return asyncio.run(theatre.play(steps=[CLICK], error_recovery=rules, **spec))


def times(theatre: Theatre) -> list[float]:
    return [round(at, 3) for at, *_ in theatre.session.acts]


@pytest.mark.parametrize(
    ("rule", "expected", "state"),
    [
        ("abort", [0], "aborted"),
        ("retry", [0, 1, 2, 3], "failed"),
        ({"max_retries": 1}, [0, 1], "failed"),
        ({"max_retries": 2, "retry_delay_ms": 500}, [0, 0.5, 1], "failed"),
        ({"max_retries": 2, "backoff_multiplier": 4}, [0, 1, 5], "failed"),
        ("exponential_backoff", [0, 1, 3, 7], "failed"),
        ({"strategy": "exponential_backoff", "max_retries": 3, "backoff_multiplier": 3}, [0, 1, 4, 13], "failed"),
        ({"strategy": "exponential_backoff", "max_delay_ms": 1500}, [0, 1, 2.5, 4], "failed"),
    ],
)
def test_on_network_error(rule: Any, expected: list[float], state: str) -> None:
    theatre = Theatre()
    theatre.session.script = [REFUSED] * 9
    result = play(theatre, {"on_network_error": rule})
    assert (times(theatre), result.final_state) == (expected, state)


def test_jitter_moves_the_retries_and_the_seed_repeats_them() -> None:
    def run(jitter: float) -> list[float]:
        theatre = Theatre()
        theatre.session.script = [REFUSED] * 9
        play(theatre, {"on_network_error": {"jitter": jitter}})
        return times(theatre)

    assert run(0.5) != run(0)
    assert run(0.5) == run(0.5)


@pytest.mark.parametrize(
    ("rule", "patience", "tried"),
    [
        ({}, [10], ["#a"]),
        ({"wait_seconds": 3}, [3], ["#a"]),
        ("abort", [30], ["#a"]),
        ({"fallback_selectors": {"#a": ["#b"]}}, [10, 5], ["#a", "#b"]),
        ({"strategy": "try_fallback_selector", "fallback_selectors": {"#a": ["#b"]}}, [10, 5], ["#a", "#b"]),
        ({"fallback_wait_seconds": 2, "fallback_selectors": {"#a": ["#b", "#c"]}}, [10, 2, 2], ["#a", "#b", "#c"]),
    ],
)
def test_on_element_not_found(rule: Any, patience: list[float], tried: list[str]) -> None:
    theatre = Theatre()
    theatre.session.script = [lambda step: Failure("ELEMENT_NOT_FOUND", "no", "#a")] * 9
    result = play(theatre, {"on_element_not_found": rule})
    assert [seconds for *_, seconds in theatre.session.acts] == patience
    assert [step.selector for _, step, *_ in theatre.session.acts] == tried
    assert result.final_state == ("aborted" if rule == "abort" else "failed")


@pytest.mark.parametrize(
    ("rule", "selectors"),
    [("abort", ["#a"]), ("use_first", ["#a", "#a >> nth=0"]), ("use_visible", ["#a", "#a >> visible=true >> nth=0"])],
)
def test_on_selector_ambiguous(rule: str, selectors: list[str]) -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("SELECTOR_AMBIGUOUS", "two", "#a"), Passed()]
    result = play(theatre, {"on_selector_ambiguous": rule})
    assert [step.selector for _, step, *_ in theatre.session.acts] == selectors
    assert result.ok is (rule != "abort")


@pytest.mark.parametrize(("rule", "acts", "state"), [("retry", 2, "failed"), ("abort", 1, "aborted")])
def test_on_action_failed(rule: str, acts: int, state: str) -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("ELEMENT_COVERED", "covered", "#a")] * 5
    result = play(theatre, {"on_action_failed": rule})
    assert (len(theatre.session.acts), result.final_state) == (acts, state)


@pytest.mark.parametrize(("code", "acts"), [("DOWNLOAD_FAILED", 1), ("ACTION_FAILED", 1), ("STEP_TIMEOUT", 1)])
def test_an_act_that_was_done_is_not_done_again(code: str, acts: int) -> None:
    theatre = Theatre()
    theatre.session.script = [Failure(code, "a click on #a started no download", "#a", effect=Effect.DONE)] * 5
    result = play(theatre, {"on_action_failed": "retry"})
    assert (len(theatre.session.acts), result.final_state) == (acts, "failed")
    assert result.failure is not None
    assert ("the act was done, and is not done again" in result.failure.message) is (code != "STEP_TIMEOUT")


def test_a_declared_dialog_that_does_not_come_is_waited_for_again_and_its_act_is_not_repeated() -> None:
    theatre = Theatre()
    missing = Failure("DIALOG_MISSING", "no dialog has opened", effect=Effect.DONE, act_done=True)
    theatre.session.missing = [missing, missing]
    result = play(theatre, {"on_assertion_fail": "retry_after_wait"})
    assert [step.act for _, step, *_ in theatre.session.acts] == ["click", "wait"]
    assert result.failure is not None
    assert result.failure.code == "DIALOG_MISSING"


@pytest.mark.parametrize(
    ("rule", "looks", "state", "screenshot", "dom", "memory"),
    [
        ("save_trace_and_report", [0], "failed", True, True, True),
        ({"capture_screenshot": False}, [0], "failed", False, True, True),
        ({"capture_dom": False}, [0], "failed", True, False, True),
        ({"capture_memory": False}, [0], "failed", True, True, False),
        ("retry_after_wait", [0, 5], "failed", True, True, True),
        ({"strategy": "retry_after_wait", "wait_before_retry_seconds": 2}, [0, 2], "failed", True, True, True),
        ({"strategy": "retry_after_wait", "capture_dom": False}, [0, 5], "failed", True, False, True),
        ("abort_silent", [0], "aborted", False, False, False),
        ({"strategy": "abort_silent", "capture_dom": True}, [0], "aborted", False, True, False),
    ],
)
def test_on_assertion_fail(
    rule: Any, looks: list[float], state: str, screenshot: bool, dom: bool, memory: bool
) -> None:
    theatre = Theatre()
    result = play(theatre, {"on_assertion_fail": rule}, success_criteria=["title() == 'x'"])
    assert [attempt.t for attempt in result.history[-1].attempts] == looks
    assert result.final_state == state
    assert theatre.session.wanted is not None
    assert (theatre.session.wanted.screenshot, theatre.session.wanted.dom) == (screenshot, dom)
    assert (result.error is not None and result.error.context.memory_snapshot is not None) is memory


def test_on_precondition_fail_aborts_with_evidence() -> None:
    theatre = Theatre()
    result = play(theatre, {"on_precondition_fail": "abort_with_warning"}, preconditions=["mem('x') == 1"])
    assert result.final_state == "aborted"
    assert theatre.session.wanted is not None
    assert theatre.session.wanted.screenshot


def test_a_server_that_asks_for_less_waits_as_long_as_the_rule_says() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("HTTP_RATE_LIMITED", "HTTP 429", retry_after=0.2)] * 2
    result = play(theatre, {"on_network_error": {"max_retries": 2}})
    assert (times(theatre), result.ok) == ([0, 1, 2], True)


def test_a_wait_with_fallbacks_goes_by_the_rule_of_elements() -> None:
    late = Failure("STEP_TIMEOUT", "Step timeout", "#a", {"instead": "no element matches"})
    rule = {"wait_seconds": 4, "fallback_wait_seconds": 2, "fallback_selectors": {"#a": ["#b", "#c"]}}
    steps, rules = [{"act": "wait", "selector": "#a"}], {"on_element_not_found": rule}
    theatre = Theatre()
    theatre.session.script = [late, late, Passed()]
    result = asyncio.run(theatre.play(steps=steps, error_recovery=rules))
    assert result.final_state == "completed"
    assert [(step.selector, within) for _, step, within, _ in theatre.session.acts] == [("#a", 4), ("#b", 2), ("#c", 2)]
    theatre = Theatre()
    theatre.session.script = [late, late, late]
    result = asyncio.run(theatre.play(steps=steps, error_recovery=rules))
    assert result.failure is not None
    assert result.failure.code == "ELEMENT_NOT_FOUND"
    assert "#a did not appear (looked for 4s): no element matches" in result.failure.message
    assert "its fallbacks were tried in vain: #b, #c" in result.failure.message


def test_a_wait_without_fallbacks_waits_as_long_as_the_step_may_take() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("STEP_TIMEOUT", "Step timeout", "#a")]
    steps, rules = [{"act": "wait", "selector": "#a"}], {"on_element_not_found": {"wait_seconds": 4}}
    result = asyncio.run(theatre.play(steps=steps, error_recovery=rules))
    assert result.failure is not None
    assert (result.failure.code, theatre.session.acts[0][2]) == ("STEP_TIMEOUT", 30)
