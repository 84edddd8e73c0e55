"""The timing of whole tasks, out of the pure core, under a clock that jumps."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.model.diagnosis import trace
from harness.model.record import TaskResult
from harness.recovery.failure import Failure, Passed
from tests.unit.fakes import Theatre

REFUSED = Failure("NET_CONNECTION_REFUSED", "Connection refused")


def missing(step: Any) -> Failure:
    return Failure("ELEMENT_NOT_FOUND", f"Element not found: {step.selector}", step.selector)


def play(theatre: Theatre, **spec: Any) -> TaskResult:
    return asyncio.run(theatre.play(**spec))


def test_5_1_a_wait_that_never_sees_its_state_is_a_step_timeout() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), Failure("STEP_TIMEOUT", "Step timeout: wait for .grid exceeded 30s", ".grid")]
    steps = [{"act": "open", "url": "http://shop.local/"}, {"act": "wait", "selector": ".grid"}]
    result = play(theatre, steps=steps)
    assert (result.final_state, result.failed_index, result.elapsed) == ("failed", 1, 30)
    assert result.error is not None
    assert result.error.error_type == "timeout_step"
    assert result.error.recovery_attempted is False
    assert result.error.metrics is not None
    assert (result.error.metrics.steps_completed, result.error.metrics.steps_total) == (1, 2)


def test_5_2_connection_refused_twice_is_tried_at_0_1_and_3_seconds() -> None:
    theatre = Theatre()
    theatre.session.script = [REFUSED, REFUSED, Passed()]
    rules = {"on_network_error": {"strategy": "exponential_backoff", "max_retries": 3, "retry_delay_ms": 1000}}
    result = play(theatre, error_recovery=rules)
    assert [at for at, *_ in theatre.session.acts] == [0, 1, 3]
    assert result.final_state == "completed"
    assert [line["note"] for line in trace(result)["steps"]] == [
        "ATTEMPT 1: FAILED - Connection refused",
        "RETRY (after 1s): FAILED - Connection refused",
        "RETRY (after 2s): SUCCESS",
    ]
    assert trace(result)["warnings"] == [
        {
            "type": "network_error_recovered",
            "step_index": 0,
            "message": "Network error recovered after 2 retries",
            "retries": 2,
        }
    ]


def test_5_3_an_assertion_is_looked_at_again_after_5_seconds() -> None:
    theatre = Theatre()
    theatre.session.page = {"text #return-state": lambda now: "approved" if now >= 3 else "processing"}
    step = {"act": "assert", "selector": "#return-state", "value": "approved"}
    rules = {"on_assertion_fail": {"strategy": "retry_after_wait", "wait_before_retry_seconds": 5}}
    result = play(theatre, steps=[step], error_recovery=rules)
    assert [attempt.t for attempt in result.history[0].attempts] == [0, 5]
    assert result.final_state == "completed"
    assert [(w.type, w.message) for w in result.warnings] == [
        ("assertion_retry_success", "Assertion succeeded on retry after 5s wait")
    ]


def test_5_4_fallback_selectors_are_tried_at_38_48_and_53_seconds() -> None:
    primary, first, second = ".calendar-date", "#calendar-day", "//td"
    theatre = Theatre()
    theatre.session.script = [missing, missing, Passed({"element": {"tag": "td", "role": "gridcell", "name": "1"}})]
    theatre.clock.time = 38
    rules = {
        "on_element_not_found": {
            "strategy": "try_fallback_selector",
            "wait_seconds": 10,
            "fallback_selectors": {primary: [first, second]},
        }
    }
    result = play(theatre, steps=[{"act": "click", "selector": primary}], error_recovery=rules)
    assert [(at, step.selector) for at, step, *_ in theatre.session.acts] == [(38, primary), (48, first), (53, second)]
    assert result.final_state == "completed"
    (warning,) = result.warnings
    assert warning.as_json() == {
        "type": "fallback_selector_used",
        "step_index": 0,
        "message": ".calendar-date was not usable; //td was used instead",
        "original_selector": primary,
        "successful_fallback": second,
        "role": "gridcell",
        "name": "1",
    }
