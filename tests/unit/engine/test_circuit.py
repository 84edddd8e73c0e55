"""A site that failed too often is left alone: by every task that goes there, and as its rule says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.model.record import TaskResult
from harness.recovery.failure import Failure, Passed
from harness.resilience.breaker import Breaker, CircuitState
from harness.resilience.events import CircuitChanged, ResilienceEvent
from harness.runner.circuits import origin_of
from tests.unit.fakes import FakeClock, Theatre

SHOP, BANK = "http://shop.local/", "http://bank.local/"
OPEN = {"act": "open", "url": SHOP}
REST = 30
RETRY = {"on_network_error": {"max_retries": 3}}
WAIT = {"on_network_error": {"max_retries": 3, "wait_for_circuit": True}}


def down(url: str = SHOP, code: str = "NET_CONNECTION_REFUSED") -> Failure:
    return Failure(code, f"{url} does not answer", details={"url": url})


class Sites:
    """Several tasks, one after the other, on the same circuits and the same clock."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.told: list[ResilienceEvent] = []
        self.breakers: dict[str, Breaker] = {}
        self.calls = 0

    def breaker(self, url: str) -> Breaker | None:
        origin = origin_of(url, None)
        if origin is None:
            return None
        made = Breaker(f"origin:{origin}", now=self.clock.now, emit=self.told.append)
        return self.breakers.setdefault(origin, made)

    def run(self, *script: Any, **spec: Any) -> TaskResult:
        """A task whose acts end as the script says, and pass after it."""
        theatre = Theatre(clock=self.clock)
        theatre.breaker = self.breaker
        theatre.session.script = list(script)
        result = asyncio.run(theatre.play(**{"steps": [OPEN], "timeout": 300, **spec}))
        self.calls += len(theatre.session.acts)
        return result

    @property
    def shop(self) -> Breaker:
        found = self.breaker(SHOP)
        assert found is not None
        return found


def codes(result: TaskResult) -> list[str]:
    outcomes = [attempt.outcome for record in result.history for attempt in record.attempts]
    return [each.code if isinstance(each, Failure) else "passed" for each in outcomes]


def test_five_tasks_on_a_dead_site_make_five_calls_and_not_twenty() -> None:
    sites = Sites()
    results = [sites.run(*[down()] * 9) for _ in range(5)]
    assert sites.calls == 5
    assert [codes(each).count("CIRCUIT_OPEN") for each in results] == [0, 3, 4, 4, 4]
    assert sites.clock.time == 5 * 3, "their own delays, and nothing more"
    last = results[-1].failure
    assert last is not None
    assert "nothing was sent: circuit origin:http://shop.local is open after 5 failures in a row" in last.message
    assert last.details["last_error"] == "NET_CONNECTION_REFUSED: Nothing listens at the host's port"
    assert [each.reason for each in sites.told if isinstance(each, CircuitChanged)] == ["consecutive_failures_5"]


def opened(sites: Sites) -> None:
    for _ in range(5):
        sites.shop.admit().failed("gone")
    assert sites.shop.state is CircuitState.OPEN


@pytest.mark.parametrize("rule", [{"max_retries": 3}, {"max_retries": 3, "wait_for_circuit": True}])
def test_a_declared_retry_waits_until_the_site_may_be_tried_again(rule: dict[str, Any]) -> None:
    sites = Sites()
    opened(sites)
    result = sites.run(error_recovery={"on_network_error": rule}, steps=[OPEN, OPEN])
    assert result.ok, result.failure
    assert codes(result) == ["CIRCUIT_OPEN", "passed", "passed"]
    assert REST <= sites.clock.time < REST + 1
    assert [(each.type, each.step_index) for each in result.warnings] == [
        ("network_error_recovered", 0),
        ("circuit_closed", 1),
    ]
    assert "The task waited for a site whose circuit was open" in result.warnings[0].message


def test_nobody_waits_again_for_a_site_that_failed_when_it_was_tried() -> None:
    """Else each task on a dead site would cost that time; one whose rule says so pays it."""
    sites = Sites()
    first = [sites.run(*[down()] * 9, error_recovery=RETRY) for _ in range(3)]
    spent = sites.clock.time
    assert REST <= spent < REST + 20, "one rest, and the delays of the retries"
    later = [sites.run(*[down()] * 9, error_recovery=RETRY) for _ in range(5)]
    assert not any(result.ok for result in (*first, *later))
    assert sites.clock.time <= spent + 5 * 3
    assert sites.calls <= 5 + 2
    patient = {"on_network_error": {"max_retries": 1, "wait_for_circuit": True}}
    assert sites.run(error_recovery=patient).ok


@pytest.mark.parametrize(
    ("rules", "state", "seconds"),
    [
        ({}, "failed", 3),
        ({"on_network_error": {"max_retries": 2, "wait_for_circuit": False}}, "failed", 2),
        ({"on_network_error": {"strategy": "exponential_backoff", "wait_for_circuit": False}}, "failed", 7),
        ({"on_network_error": "abort"}, "aborted", 0),
    ],
)
def test_who_does_not_wait_keeps_the_times_of_its_retries_and_sends_nothing(
    rules: Any, state: str, seconds: float
) -> None:
    sites = Sites()
    opened(sites)
    result = sites.run(error_recovery=rules)
    assert (result.final_state, set(codes(result)), sites.calls) == (state, {"CIRCUIT_OPEN"}, 0)
    assert sites.clock.time == seconds


def test_nobody_waits_longer_than_the_task_has() -> None:
    sites = Sites()
    opened(sites)
    result = sites.run(error_recovery=WAIT, timeout=20)
    assert (codes(result), sites.clock.time) == (["CIRCUIT_OPEN"], 0)
    assert result.failure is not None
    assert "no time left for a retry in 30s, the task has 20s" in result.failure.message


@pytest.mark.parametrize("budget", [{}, {"max_retries": 1}])
def test_waiting_uses_up_no_retry_and_no_budget(budget: dict[str, Any]) -> None:
    sites = Sites()
    opened(sites)
    once = {"on_network_error": {"max_retries": 1, "wait_for_circuit": True}}
    result = sites.run(down(), error_recovery=once, budget=budget)
    assert codes(result) == ["CIRCUIT_OPEN", "NET_CONNECTION_REFUSED", "CIRCUIT_OPEN", "passed"]
    assert result.ok
    assert 2 * REST <= sites.clock.time < 2 * REST + 2
    (recovered,) = [each for each in result.warnings if each.type == "network_error_recovered"]
    assert recovered.details["retries"] == 1


def test_while_another_task_is_the_probe_its_end_is_waited_for() -> None:
    sites = Sites()
    opened(sites)
    sites.clock.time = REST
    probe = sites.shop.admit()
    sleep = sites.clock.sleep

    async def answered_later(seconds: float) -> None:
        await sleep(seconds)
        if sites.clock.time >= REST + 3:
            probe.succeeded()

    sites.clock.sleep = answered_later  # type: ignore[method-assign]
    result = sites.run(error_recovery=RETRY)
    assert (result.ok, codes(result)) == (True, ["CIRCUIT_OPEN", "passed"])
    assert 3 <= sites.clock.time - REST < 4


@pytest.mark.parametrize("code", ["HTTP_RATE_LIMITED", "HTTP_SERVER_ERROR", "HTTP_NOT_FOUND", "ELEMENT_NOT_FOUND"])
def test_an_answer_and_a_missing_element_open_no_circuit(code: str) -> None:
    sites = Sites()
    for _ in range(3):
        sites.run(*[down(code=code)] * 9, error_recovery=RETRY)
    assert sites.shop.state is CircuitState.CLOSED
    assert sites.shop.failures == 0


def test_a_success_ends_the_row() -> None:
    sites = Sites()
    for _ in range(3):
        assert sites.run(*[down()] * 3, error_recovery=RETRY).ok
    assert sites.shop.state is CircuitState.CLOSED


def test_the_host_that_failed_is_blamed_and_not_the_one_that_was_asked() -> None:
    """A page of the shop leads on to the bank, which is down."""
    sites = Sites()
    for _ in range(2):
        sites.run(*[down(BANK)] * 4, error_recovery=RETRY)
    bank = sites.breaker(BANK)
    assert bank is not None
    assert (sites.shop.state, bank.state) == (CircuitState.CLOSED, CircuitState.OPEN)
    assert sites.run().ok
    assert codes(sites.run(steps=[{"act": "open", "url": BANK}], error_recovery={"on_network_error": "abort"})) == [
        "CIRCUIT_OPEN"
    ]


def test_http_that_leads_on_to_a_https_that_is_down_is_left_alone_too() -> None:
    sites = Sites()
    for _ in range(2):
        sites.run(*[down("https://shop.local/")] * 9)
    assert sites.calls == 5
    assert sites.shop.state is CircuitState.OPEN


def test_a_click_that_finds_the_host_down_counts_and_is_not_held_back() -> None:
    sites = Sites()
    click = {"act": "click", "selector": "#buy"}
    result = sites.run(*[down()] * 6, steps=[click], error_recovery={"on_network_error": {"max_retries": 5}})
    assert codes(result) == ["NET_CONNECTION_REFUSED"] * 6
    assert sites.shop.state is CircuitState.OPEN
    (warning,) = [each for each in sites.run(*[down()], steps=[click]).warnings if each.type == "circuit_opened"] or [
        None
    ]
    assert warning is None  # it was open already


def test_the_step_that_opens_it_says_so() -> None:
    sites = Sites()
    rules = {"on_network_error": {"max_retries": 9}}
    result = sites.run(*[down()] * 5, error_recovery=rules)
    assert result.ok, result.failure
    assert [each.type for each in result.warnings] == ["circuit_opened", "network_error_recovered"]
    assert result.warnings[0].details["reason"] == "consecutive_failures_5"


def test_a_cancelled_attempt_counts_as_nothing() -> None:
    sites = Sites()
    opened(sites)
    sites.clock.time = REST

    def interrupted(_step: Any) -> Passed:
        raise asyncio.CancelledError

    assert sites.run(interrupted).final_state == "aborted"
    assert sites.shop.state is CircuitState.HALF_OPEN
    sites.shop.admit().succeeded()


@pytest.mark.parametrize(
    ("url", "base", "origin"),
    [
        ("http://Shop.Local/a?b#c", None, "http://shop.local"),
        ("http://shop.local:80/", None, "http://shop.local"),
        ("https://shop.local:443/", None, "https://shop.local"),
        ("http://shop.local:8080/", None, "http://shop.local:8080"),
        ("/cart", "http://shop.local/start", "http://shop.local"),
        ("/cart", None, None),
        ("about:blank", None, None),
        ("http://b\u00fccher.local./", None, "http://xn--bcher-kva.local"),
        ("http://[::1]:9/", None, "http://[::1]:9"),
        ("http://[broken/", None, None),
        ("http://shop.local:99999/", None, None),
    ],
)
def test_origins(url: str, base: str | None, origin: str | None) -> None:
    assert origin_of(url, base) == origin


def test_who_waits_goes_on_as_soon_as_the_circuit_is_closed() -> None:
    """As when the service behind it is there again."""
    sites = Sites()
    opened(sites)
    sleep = sites.clock.sleep

    async def until_reset(seconds: float) -> None:
        await sleep(seconds)
        if sites.clock.time >= 4 and sites.shop.state is CircuitState.OPEN:
            sites.shop.reset()

    sites.clock.sleep = until_reset  # type: ignore[method-assign]
    result = sites.run(error_recovery=WAIT)
    assert (codes(result), result.ok) == (["CIRCUIT_OPEN", "passed"], True)
    assert 4 <= sites.clock.time < 5


@pytest.mark.parametrize(("code", "waits"), [("NET_CONNECTION_REFUSED", True), ("HTTP_RATE_LIMITED", False)])
def test_a_service_of_ours_is_waited_for_before_a_retry(code: str, waits: bool) -> None:
    theatre = Theatre()
    theatre.session.script = [down(code=code)]
    assert asyncio.run(theatre.play(steps=[OPEN])).ok
    assert theatre.recovered == [SHOP] * waits
