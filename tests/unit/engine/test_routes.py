"""Steps, routes and expected requests: what is done again, what is blamed, what criteria read, what is warned of."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.model.record import MetRoute, PageRequest, RoutedRequest, Sent, TaskResult
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure, Passed, routed_failure
from harness.resilience.breaker import Breaker
from harness.spec.routes import Route
from tests.unit.fakes import Theatre, post, sending

PAY = "http://shop.local/pay"
CLICK: dict[str, Any] = {"act": "click", "selector": "#pay", "effect": "write"}
DOWN = Failure("HTTP_UNAVAILABLE", "503", details={"url": PAY, "method": "POST", "status": 503}, effect=Effect.DONE)
UNSENT = Failure("REQUEST_EXPECTED", "no request", effect=Effect.DONE, act_done=True)
EXPECTED = {"url": "*/pay", "method": "POST"}
AGAIN = {"on_assertion_fail": {"strategy": "retry_after_wait", "wait_before_retry_seconds": 1}}


def play(theatre: Theatre, **spec: Any) -> TaskResult:
    return asyncio.run(theatre.play(**spec))


def code(result: TaskResult) -> str | None:
    return result.failure.code if result.failure else None


def not_sent() -> Sent:
    return Sent("POST", PAY, arrived=False)


def test_a_write_that_a_route_refused_is_done_again() -> None:
    theatre = Theatre()
    theatre.session.script = [sending(not_sent(), outcome=routed_failure(DOWN)), Passed()]
    assert play(theatre, steps=[CLICK]).ok
    assert len(theatre.session.acts) == 2


def test_another_request_of_the_step_that_did_leave_keeps_it_from_that() -> None:
    theatre = Theatre()
    theatre.session.script = [sending(not_sent(), post(), outcome=routed_failure(DOWN)), Passed()]
    assert code(play(theatre, steps=[CLICK])) == "OUTCOME_UNKNOWN"
    assert len(theatre.session.acts) == 1


def test_without_a_route_the_same_answer_leaves_it_open() -> None:
    theatre = Theatre()
    theatre.session.script = [sending(post(PAY), outcome=DOWN), Passed()]
    assert code(play(theatre, steps=[CLICK])) == "OUTCOME_UNKNOWN"


def test_no_circuit_counts_the_answer_of_a_route() -> None:
    theatre = Theatre()
    breaker = Breaker("origin:shop", now=theatre.clock.now)
    theatre.breaker = lambda _: breaker
    theatre.session.script = [routed_failure(DOWN)] * 20
    play(theatre, steps=[{**CLICK, "optional": True}] * 10, error_recovery={"on_network_error": "abort"})
    assert breaker.history == ()


@pytest.mark.parametrize("done_when", [None, "json('env', 'paid') == true"])
def test_an_act_whose_request_is_missing_is_not_done_again_and_the_expectation_stays(done_when: str | None) -> None:
    theatre = Theatre()
    theatre.world.environment["paid"] = True
    theatre.session.script = [sending(post(PAY), outcome=UNSENT)] * 2
    step = {**CLICK, "expect_request": EXPECTED, **({"done_when": done_when} if done_when else {})}
    result = play(theatre, steps=[step], error_recovery=AGAIN)
    assert code(result) == "REQUEST_EXPECTED"
    acts = [step for _, step, _, _ in theatre.session.acts]
    assert [step.act for step in acts] == ["click", "wait"]
    assert acts[1].expect_request == acts[0].expect_request
    assert [each.type for each in result.warnings] == []


def test_a_request_that_comes_late_is_found_by_the_retry() -> None:
    theatre = Theatre()
    theatre.session.script = [UNSENT, Passed()]
    result = play(theatre, steps=[{**CLICK, "expect_request": EXPECTED}], error_recovery=AGAIN)
    assert (result.ok, [each.type for each in result.warnings]) == (True, ["assertion_retry_success"])


def test_criteria_read_requests_by_method_and_pattern() -> None:
    theatre = Theatre()
    theatre.session.exchanged = (
        PageRequest("GET", "http://shop.local/", 200),
        PageRequest("POST", "https://shop.local/pay?x=1", 201, b'{"items": [{"id": "pen"}]}'),
        PageRequest("POST", PAY, None, b"card=1", "application/x-www-form-urlencoded"),
    )
    criteria = [
        "requests('*').length == 3",
        "requests('POST http://shop.local/pay*')[0].json.items[0].id == 'pen'",
        "requests('POST *')[-1].json['card'] == 1",
        "requests('POST *')[-1].status == null",
        "requests('POST *')[-1].body == 'card=1'",
        "requests('PUT *').length == 0",
        "requests('PUT *')[0].url == null",
        "requests('GET *')[0].body == null",
        "requests('GET *')[0].url.includes('shop.local')",
        "EVENTUALLY(requests('POST *')[0].method == 'POST')",
    ]
    steps = [{"act": "assert", "expr": criteria[0], "remember": {"id": "requests('POST *')[0].json.items[0].id"}}]
    result = play(theatre, steps=steps, success_criteria=criteria, preconditions=[criteria[5]])
    assert result.ok, result.failure
    assert result.memory["id"] == "pen"


def test_a_criterion_over_requests_that_does_not_hold_says_what_there_was() -> None:
    theatre = Theatre()
    result = play(theatre, success_criteria=["requests('POST *')[0].json.id == 7"])
    assert result.failure is not None
    assert "requests('POST *')[0].json.id is missing (no request matches), expected 7" in result.failure.message


def test_routes_without_use_are_warned_of_and_the_session_learns_each_step() -> None:
    theatre = Theatre()
    route = Route.model_validate({"url": "*/a", "status": 200})
    used = (RoutedRequest(0, "GET", "http://shop.local/a", 200),)
    theatre.session.routes = (
        MetRoute(0, route, 1, used),
        MetRoute(1, route, late=2),
        MetRoute(2, route.model_copy(update={"optional": True})),
        MetRoute(3, route, 1, used, "route 3 could not answer GET x: why"),
    )
    result = play(theatre, preconditions=["title() == null"], success_criteria=["title() == null"])
    found = {each.details["route"]: (each.type, each.message) for each in result.warnings}
    assert found == {
        1: ("route_unused", "Route */a -> 200: answered no request: 2 matched, but not during its `steps`"),
        3: (
            "route_unanswered",
            "Route */a -> 200: answered once in step 0: GET http://shop.local/a; route 3 could not answer GET x: why",
        ),
    }
    assert theatre.session.begun == [-1, 0, 1]
    assert result.routes == theatre.session.routes
