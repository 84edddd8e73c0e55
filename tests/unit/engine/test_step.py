"""What the engine makes of remedies: waits, deadlines, effects, fresh pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model.events import AttemptEnded, ResilienceActed, StepEnded, StepStarted, TaskEnded, TaskStarted
from harness.model.record import TaskResult
from harness.recovery import NOTHING, Capture
from harness.recovery.catalog import CATALOG, Effect
from harness.recovery.failure import Circumstances, Failed, Failure, Passed
from harness.resilience.events import Retrying
from tests.unit.conftest import examples
from tests.unit.fakes import Theatre

REFUSED = Failure("NET_CONNECTION_REFUSED", "refused")
SUBMIT = {"act": "submit", "selector": "#pay"}


def play(theatre: Theatre, **spec: Any) -> TaskResult:
    return asyncio.run(theatre.play(**spec))


def test_a_passing_task_tells_its_story_in_order() -> None:
    theatre = Theatre()
    result = play(theatre)
    assert [type(event) for event in theatre.events] == [TaskStarted, StepStarted, AttemptEnded, StepEnded, TaskEnded]
    assert result.final_state == "completed"
    assert theatre.archive.passes == [result]
    assert (theatre.session.closed, theatre.injector.closed, theatre.injector.armed) == (True, True, [0])


def test_recording_in_full_starts_with_the_first_failure() -> None:
    theatre = Theatre()
    play(theatre)
    assert theatre.session.recording is False
    theatre.session.script = [REFUSED]
    play(theatre)
    assert theatre.session.recording is True


def test_retry_after_of_the_server_is_honoured() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("HTTP_RATE_LIMITED", "429", retry_after=7.0), Passed()]
    result = play(theatre)
    assert [at for at, *_ in theatre.session.acts] == [0, 7]
    acted = [each.event for each in theatre.events if isinstance(each, ResilienceActed)]
    assert [event.delay for event in acted if isinstance(event, Retrying)] == [7.0]
    assert result.ok


def test_a_wait_that_would_outlast_the_task_is_not_started() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("HTTP_UNAVAILABLE", "503", retry_after=3600)]
    result = play(theatre, timeout=10)
    assert theatre.clock.time == 0
    assert result.failure is not None
    assert (result.failure.code, result.final_state) == ("HTTP_UNAVAILABLE", "failed")
    assert "no time left for a retry in 3600s" in result.failure.message


def test_a_failure_that_a_retry_cannot_mend_ends_the_retries() -> None:
    theatre = Theatre()
    theatre.session.script = [REFUSED, Failure("HTTP_CLIENT_ERROR", "404")]
    result = play(theatre)
    assert len(theatre.session.acts) == 2
    assert result.failure is not None
    assert result.failure.code == "HTTP_CLIENT_ERROR"


@pytest.mark.parametrize("code", ["POLICY_DOMAIN", "AUTHENTICATION_FAILED"])
def test_policy_and_authentication_abort_also_an_optional_step(code: str) -> None:
    theatre = Theatre()
    theatre.session.script = [Failure(code, "no")]
    result = play(theatre, steps=[{"act": "click", "selector": "#a", "optional": True}])
    assert (result.final_state, len(theatre.session.acts)) == ("aborted", 1)


def test_a_task_out_of_time_ends_also_at_an_optional_step_which_was_not_skipped() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("STEP_TIMEOUT", "slow")]
    result = play(theatre, steps=[{"act": "wait", "selector": "#a", "optional": True}], timeout=10, step_timeout=30)
    assert result.failure is not None
    assert (result.failure.type, result.warnings) == ("timeout_task", ())


def test_a_skipped_step_leaves_a_page_that_answers() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("PAGE_UNRESPONSIVE", "hangs", tainted=True)] * 2
    result = play(theatre, steps=[{"act": "click", "selector": "#a", "optional": True}, {"act": "scroll"}])
    assert (result.final_state, theatre.session.renewed) == ("partial_success", 2)


OPENED_BEFORE = {"url": "http://shop.local/p", "method": "GET"}
BEFORE = Circumstances(opened_before=True)


def test_a_page_that_an_earlier_step_opened_in_vain_is_asked_for_again_before_the_step() -> None:
    theatre = Theatre()
    broken = Failure("HTTP_SERVER_ERROR", "HTTP 500", "#a", OPENED_BEFORE, tainted=True, circumstances=BEFORE)
    theatre.session.script = [Passed(), broken]
    result = play(theatre, steps=[{"act": "click", "selector": "#p"}, {"act": "click", "selector": "#a"}])
    assert result.ok
    assert theatre.session.renewed == 1
    assert [step.selector for _, step, *_ in theatre.session.acts] == ["#p", "#a", "#a"]


def test_a_page_that_a_write_opened_in_vain_is_not_asked_for_again() -> None:
    theatre = Theatre()
    theatre.session.script = [
        Passed(),
        Failure("HTTP_SERVER_ERROR", "HTTP 500", "#a", OPENED_BEFORE, tainted=True, circumstances=BEFORE),
    ]
    steps = [{"act": "click", "selector": "#p", "effect": "write"}, {"act": "click", "selector": "#a"}]
    result = play(theatre, steps=steps)
    assert [step.selector for _, step, *_ in theatre.session.acts] == ["#p", "#a"]
    assert theatre.session.renewed == 0
    assert result.failure is not None
    assert "step 0, a write, opened its page, which is not requested again" in result.failure.message


def test_the_answer_to_a_post_is_not_asked_for_again() -> None:
    theatre = Theatre()
    broken = Failure("HTTP_SERVER_ERROR", "HTTP 500", "#a", {**OPENED_BEFORE, "method": "POST"}, circumstances=BEFORE)
    theatre.session.script = [broken]
    result = play(theatre, steps=[{"act": "click", "selector": "#a"}])
    assert len(theatre.session.acts) == 1
    assert result.failure is not None
    assert "its page is the response to a request that must not be sent again" in result.failure.message


def test_the_task_timeout_bounds_the_steps_and_is_called_by_its_name() -> None:
    theatre = Theatre()
    slow = Failure("STEP_TIMEOUT", "slow")
    theatre.session.script = [Passed(), lambda step: slow]
    steps = [{"act": "wait", "value": 1}, {"act": "wait", "selector": "#x"}]
    result = play(theatre, steps=steps, timeout=10, step_timeout=30)
    assert theatre.session.acts[1][2] == 10
    assert result.failure is not None
    assert (result.failure.type, result.final_state) == ("timeout_task", "failed")


@pytest.mark.parametrize(
    ("rule", "capture", "state"),
    [
        ("capture_state_and_abort", Capture(), "failed"),
        ("abort", Capture(), "aborted"),
        ({"strategy": "abort", "capture": "none"}, NOTHING, "aborted"),
    ],
)
def test_on_timeout_decides_what_is_captured(rule: Any, capture: Capture, state: str) -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("STEP_TIMEOUT", "slow")]
    result = play(theatre, error_recovery={"on_timeout": rule})
    assert (theatre.session.wanted, result.final_state) == (capture, state)


def test_step_timeout_and_the_steps_own_timeout_bound_one_attempt() -> None:
    theatre = Theatre()
    steps = [{"act": "click", "selector": "#a"}, {"act": "click", "selector": "#a", "timeout": 2.5}]
    play(theatre, steps=steps, step_timeout=7)
    assert [(within, patience) for _, _, within, patience in theatre.session.acts] == [(7, 7), (2.5, 2.5)]


@pytest.mark.parametrize(("act", "patience"), [("click", 10), ("wait", 30)])
def test_elements_are_looked_for_wait_seconds_and_a_wait_takes_its_whole_attempt(act: str, patience: float) -> None:
    theatre = Theatre()
    play(theatre, steps=[{"act": act, "selector": "#a"}])
    assert theatre.session.acts[0][3] == patience


def test_each_family_of_failure_draws_on_its_own_remedies() -> None:
    theatre = Theatre()
    missing = Failure("ELEMENT_NOT_FOUND", "no", "#a")
    theatre.session.script = [missing, REFUSED, REFUSED, REFUSED, REFUSED]
    rules = {"on_element_not_found": {"fallback_selectors": {"#a": ["#b"]}}}
    result = play(theatre, steps=[{"act": "click", "selector": "#a"}], error_recovery=rules)
    assert [step.selector for _, step, *_ in theatre.session.acts] == ["#a", "#b", "#b", "#b", "#b"]
    assert result.failure == REFUSED


def test_a_tainted_page_is_renewed_before_the_next_attempt() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("ELEMENT_COVERED", "covered", "#a", tainted=True), Passed()]
    assert play(theatre, steps=[{"act": "click", "selector": "#a"}]).ok
    assert theatre.session.renewed == 1


def test_an_optional_step_that_fails_is_skipped() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("ELEMENT_NOT_FOUND", "no banner", "#banner"), Passed()]
    steps = [{"act": "click", "selector": "#banner", "optional": True}, {"act": "click", "selector": "#b"}]
    result = play(theatre, steps=steps)
    assert result.final_state == "partial_success"
    assert [(w.type, w.step_index) for w in result.warnings] == [("step_skipped", 0)]


@pytest.mark.parametrize("effect", [Effect.POSSIBLE, Effect.DONE])
def test_a_write_whose_outcome_is_unknown_is_not_done_again(effect: Effect) -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("NET_CONNECTION_RESET", "reset", effect=effect)]
    result = play(theatre, steps=[SUBMIT])
    assert len(theatre.session.acts) == 1
    assert result.failure is not None
    assert (result.failure.code, result.failure.type) == ("OUTCOME_UNKNOWN", "unknown")


def test_a_write_that_was_surely_not_sent_is_retried() -> None:
    theatre = Theatre()
    theatre.session.script = [REFUSED, Passed()]
    assert play(theatre, steps=[SUBMIT]).ok
    assert len(theatre.session.acts) == 2


@pytest.mark.parametrize(("order", "acts"), [("O-1", 1), (None, 2)])
def test_done_when_decides_whether_a_write_is_repeated(order: str | None, acts: int) -> None:
    theatre = Theatre()
    theatre.world.environment = {"order": order}
    theatre.session.script = [Failure("NET_CONNECTION_RESET", "reset", effect=Effect.POSSIBLE), Passed()]
    result = play(theatre, steps=[{**SUBMIT, "done_when": "json('env', 'order') == 'O-1'"}])
    assert result.ok
    assert len(theatre.session.acts) == acts
    kinds = ["effect_already_done"] if acts == 1 else ["write_repeated", "network_error_recovered"]
    assert [warning.type for warning in result.warnings] == kinds


def test_a_write_whose_done_when_cannot_be_read_is_not_repeated() -> None:
    theatre = Theatre()

    async def channel(name: str) -> Any:
        raise Failed(Failure("CHANNEL_UNREADABLE", "404"))

    theatre.world.channel = channel  # type: ignore[method-assign]
    theatre.session.script = [Failure("NET_CONNECTION_RESET", "reset", effect=Effect.POSSIBLE)]
    result = play(theatre, steps=[{**SUBMIT, "done_when": "json('env', 'order') == 'O-1'"}])
    assert len(theatre.session.acts) == 1
    assert result.failure is not None
    assert result.failure.code == "OUTCOME_UNKNOWN"


def test_a_post_whose_form_is_gone_is_not_turned_into_a_get() -> None:
    theatre = Theatre()
    theatre.session.url = "chrome-error://chromewebdata/"
    details = {"url": "http://shop.local/pay", "method": "POST"}
    theatre.session.script = [Failure("NET_EMPTY_RESPONSE", "empty", details=details, effect=Effect.DONE)]
    result = play(theatre, steps=[{**SUBMIT, "done_when": "json('env', 'paid') == true"}])
    assert len(theatre.session.acts) == 1
    assert result.failure is not None
    assert result.failure.code == "NET_EMPTY_RESPONSE"
    assert "the step could be repeated" in result.failure.message


def test_done_when_waits_no_longer_than_a_step_may() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("NET_CONNECTION_RESET", "reset", effect=Effect.POSSIBLE)] * 2
    rules = {"on_network_error": {"max_retries": 0}}
    play(theatre, steps=[{**SUBMIT, "timeout": 2, "done_when": "EVENTUALLY(mem('x') == 1)"}], error_recovery=rules)
    assert theatre.clock.time == pytest.approx(2, abs=0.3)


def test_the_get_that_stands_for_a_click_keeps_its_screenshot() -> None:
    theatre = Theatre()
    lost = Failure("NET_CONNECTION_REFUSED", "refused", details={"url": "http://shop.local/next"}, effect=Effect.DONE)
    theatre.session.script = [lost, Passed()]
    play(theatre, steps=[{"act": "click", "selector": "#next", "screenshot_id": "mine"}])
    assert [path.stem for path in theatre.session.files] == ["mine"]


def test_a_click_that_was_performed_is_not_repeated_its_get_is() -> None:
    theatre = Theatre()
    lost = Failure("NET_CONNECTION_REFUSED", "refused", details={"url": "http://shop.local/next"}, effect=Effect.DONE)
    theatre.session.script = [lost, Passed()]
    assert play(theatre, steps=[{"act": "click", "selector": "#next", "status": 404}]).ok
    assert [(step.act, step.status) for _, step, *_ in theatre.session.acts] == [("click", 404), ("open", 404)]


def test_a_click_that_posted_is_not_repeated_at_all() -> None:
    theatre = Theatre()
    details = {"url": "http://shop.local/pay", "method": "POST"}
    theatre.session.script = [Failure("NET_EMPTY_RESPONSE", "empty", details=details, effect=Effect.DONE)]
    result = play(theatre, steps=[{"act": "click", "selector": "#pay"}])
    assert result.failure is not None
    assert result.failure.code == "OUTCOME_UNKNOWN"


def test_no_recovery_tries_nothing() -> None:
    theatre = Theatre()
    theatre.settings = theatre.settings.model_copy(update={"recovery": False})
    theatre.session.script = [REFUSED]
    result = play(theatre)
    assert len(theatre.session.acts) == 1
    assert result.failure == REFUSED


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from(sorted(CATALOG)), max_size=60))
def test_a_step_ends_whatever_it_meets(codes: list[str]) -> None:
    theatre = Theatre()
    theatre.session.script = [Failure(code, "x", "#a") for code in codes]
    rules = {"on_element_not_found": {"fallback_selectors": {"#a": ["#b", "#c"]}}}
    result = play(theatre, steps=[{"act": "click", "selector": "#a"}], error_recovery=rules, timeout=3600)
    assert result.ok or result.error is not None
    assert len(theatre.session.acts) < 30


@pytest.mark.parametrize(
    ("budget", "code", "state"),
    [({}, "TASK_TIMEOUT", "failed"), ({"max_seconds": 3}, "BUDGET_EXCEEDED", "aborted")],
)
def test_an_element_that_was_looked_for_until_the_task_was_over(budget: Any, code: str, state: str) -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("ELEMENT_NOT_FOUND", "no #a", "#a")]
    rules = {"on_element_not_found": {"wait_seconds": 60}}
    steps = [{"act": "click", "selector": "#a", "timeout": 100}]
    result = play(theatre, steps=steps, timeout=10, budget=budget, error_recovery=rules)
    assert result.failure is not None
    assert (result.failure.code, result.final_state) == (code, state)
    assert result.failure.details["last_code"] == "ELEMENT_NOT_FOUND"
    assert result.failure.details["limit"] == ("max_seconds 3 s" if budget else "timeout 10 s")
    assert CATALOG["ELEMENT_NOT_FOUND"].hint in result.failure.hint


COVERED = Failure("ELEMENT_COVERED", "#a is covered by <div id=veil>", "#a")
CUT_OFF = Failure("STEP_TIMEOUT", "Step timeout: click #a exceeded 3s", "#a", effect=Effect.POSSIBLE, tainted=True)
CLICK = {"act": "click", "selector": "#a"}


def after(theatre: Theatre, seconds: float, failure: Failure) -> Callable[[Any], Failure]:
    """The outcome of an act that takes its time."""

    def reply(_: Any) -> Failure:
        theatre.session.clock.time += seconds
        return failure

    return reply


def test_an_attempt_that_was_cut_off_does_not_replace_the_reason_of_the_one_before() -> None:
    """`on_timeout` would retry from a checkpoint, but the button is covered: that is for `on_action_failed`."""
    theatre = Theatre()
    theatre.session.script = [COVERED, CUT_OFF]
    rules = {"on_timeout": "skip_step"}
    result = play(theatre, steps=[CLICK], error_recovery=rules)
    assert result.failure is not None
    assert (result.failure.code, result.failure.effect) == ("ELEMENT_COVERED", Effect.POSSIBLE)
    assert len(theatre.session.acts) == 2


def test_a_task_whose_time_is_over_in_a_retry_names_the_reason_of_the_attempt() -> None:
    theatre = Theatre()
    theatre.session.script = [after(theatre, 7, COVERED), after(theatre, 3, COVERED)]
    result = play(theatre, steps=[{**CLICK, "timeout": 8}], timeout=10)
    assert result.failure is not None
    assert result.failure.code == "TASK_TIMEOUT"
    assert (result.failure.details["last_code"], result.failure.details["limit"]) == ("ELEMENT_COVERED", "timeout 10 s")
    assert COVERED.message in result.failure.message


@pytest.mark.parametrize(("seconds", "code"), [(1, "BROWSER_UNRESPONSIVE"), (10, "TASK_TIMEOUT")])
def test_a_driver_that_is_lost_is_no_task_timeout_while_the_task_has_time(seconds: float, code: str) -> None:
    """The step's own limit is larger than what the task has left, but that has ended nothing."""
    lost = Failure("BROWSER_UNRESPONSIVE", "the driver is stopped", details={"driver": "stopped"}, tainted=True)
    theatre = Theatre()
    theatre.session.script = [after(theatre, seconds, lost)]
    rules = {"on_browser_crash": "abort", "on_timeout": "abort"}
    result = play(theatre, steps=[{**CLICK, "timeout": 20}], timeout=10, error_recovery=rules)
    assert result.failure is not None
    assert result.failure.code == code


@pytest.mark.parametrize(("own", "limit"), [({}, "step_timeout 3 s"), ({"timeout": 2}, "timeout of the step 2 s")])
def test_the_limit_that_ended_an_attempt_is_a_fact_beside_its_cause(own: dict[str, Any], limit: str) -> None:
    theatre = Theatre()
    theatre.session.script = [after(theatre, own.get("timeout", 3), COVERED)]
    result = play(theatre, steps=[{**CLICK, **own}], step_timeout=3, error_recovery={"on_action_failed": "abort"})
    assert result.failure is not None
    assert (result.failure.code, result.failure.details["limit"]) == ("ELEMENT_COVERED", limit)
    theatre.session.script = [after(theatre, 1, COVERED)]
    result = play(theatre, steps=[CLICK], step_timeout=3, error_recovery={"on_action_failed": "abort"})
    assert result.failure is not None
    assert "limit" not in result.failure.details


@pytest.mark.parametrize(
    ("step", "hinted"),
    [
        ({"expr": "text('#who') includes 'ann'"}, True),
        ({"expr": "'Ann' == text('#who')"}, True),
        ({"expr": "text('#who') matches 'ann'"}, True),
        ({"selector": "#who", "value": "ann"}, True),
        ({"expr": "text('#who') includes 'bob'"}, False),
        ({"expr": "NOT[text('#who') includes 'ANN']"}, False),
        ({"expr": "text('#who') != 'ANN'"}, False),
    ],
)
def test_a_comparison_that_only_capital_letters_keep_from_holding_says_so(step: dict[str, str], hinted: bool) -> None:
    theatre = Theatre()
    theatre.session.page["text #who"] = "ANN"
    result = asyncio.run(theatre.play(steps=[{"act": "assert", **step}]))
    assert result.failure is not None
    assert result.failure.code == "ASSERTION_FAILED"
    assert result.failure.hint.startswith("Capital letters count") is hinted
    assert asyncio.run(theatre.play(steps=[{"act": "assert", "expr": "text('#who') matches '(?i)ann'"}])).ok
