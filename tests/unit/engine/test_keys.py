"""Keys of a task's file that no other test watches: each changes what the engine does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.criteria import PageQuery
from harness.model.record import TaskResult
from harness.recovery.failure import Failure, Passed
from tests.unit.fakes import Theatre

REFUSED = Failure("NET_CONNECTION_REFUSED", "refused")
CLICK = {"act": "click", "selector": "#a"}


def play(theatre: Theatre, **spec: Any) -> TaskResult:
    return asyncio.run(theatre.play(**{"steps": [CLICK], **spec}))


@pytest.mark.parametrize(
    ("strategy", "settings", "expected"),
    [
        ("retry", {"max_delay_ms": 2500, "backoff_multiplier": 2}, [0, 1, 3, 5.5]),
        ("exponential_backoff", {"max_retries": 1}, [0, 1]),
        ("exponential_backoff", {"retry_delay_ms": 500}, [0, 0.5, 1.5, 3.5]),
    ],
)
def test_retries_of_both_strategies(strategy: str, settings: dict[str, Any], expected: list[float]) -> None:
    theatre = Theatre()
    theatre.session.script = [REFUSED] * 9
    play(theatre, error_recovery={"on_network_error": {"strategy": strategy, **settings}})
    assert [round(at, 3) for at, *_ in theatre.session.acts] == expected


def test_jitter_of_exponential_backoff() -> None:
    theatre = Theatre()
    theatre.session.script = [REFUSED] * 9
    play(theatre, error_recovery={"on_network_error": {"strategy": "exponential_backoff", "jitter": 0.5}})
    times = [at for at, *_ in theatre.session.acts]
    assert times != [0, 1, 3, 7]
    assert 3.5 <= times[3] <= 10.5


@pytest.mark.parametrize(
    ("settings", "patience"), [({"wait_seconds": 3}, [3, 5]), ({"fallback_wait_seconds": 2}, [10, 2])]
)
def test_waits_of_try_fallback_selector(settings: dict[str, Any], patience: list[float]) -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("ELEMENT_NOT_FOUND", "no", "#a")] * 2
    rule = {"strategy": "try_fallback_selector", "fallback_selectors": {"#a": ["#b"]}, **settings}
    play(theatre, error_recovery={"on_element_not_found": rule})
    assert [seconds for *_, seconds in theatre.session.acts] == patience


@pytest.mark.parametrize(("strategy", "usual"), [("retry_after_wait", True), ("abort_silent", False)])
@pytest.mark.parametrize("flag", ["screenshot", "dom", "memory"])
def test_every_strategy_takes_the_evidence_it_declares(strategy: str, usual: bool, flag: str) -> None:
    theatre = Theatre()
    rule = {"strategy": strategy, f"capture_{flag}": not usual}
    play(theatre, success_criteria=["mem('x') == 1"], error_recovery={"on_assertion_fail": rule})
    wanted = theatre.session.wanted
    assert wanted is not None
    assert {name: getattr(wanted, name) for name in ("screenshot", "dom", "memory")} == {
        name: usual if name != flag else not usual for name in ("screenshot", "dom", "memory")
    }


def test_a_lost_browser_may_be_the_end() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("BROWSER_CRASHED", "gone", tainted=True)]
    result = play(theatre, error_recovery={"on_browser_crash": "abort"})
    assert (result.final_state, len(theatre.session.acts), theatre.session.restored) == ("aborted", 1, [])


@pytest.mark.parametrize(("enabled", "state"), [(True, "partial_success"), (False, "failed")])
def test_a_fallback_plan_is_followed_when_it_is_enabled(enabled: bool, state: str) -> None:
    theatre = Theatre()
    theatre.world.entries_ = {"a": 1}
    plan = {"enabled": enabled, "relaxed_success_criteria": ["mem('a') == 1"]}
    assert play(theatre, success_criteria=["mem('x') == 1"], fallback_plan=plan).final_state == state


FAILS = {"success_criteria": ["mem('x') == 1"]}
SHOWN = {"final_state": "failed", "error_type": "assertion_failed"}


@pytest.mark.parametrize(
    ("expect", "shown"),
    [
        (SHOWN, True),
        ({**SHOWN, "final_state": "aborted"}, False),
        ({**SHOWN, "error_type": "timeout_step"}, False),
        ({"final_state": "failed", "code": "CRITERIA_UNMET"}, True),
        ({"final_state": "failed", "code": "ASSERTION_FAILED"}, False),
        ({**SHOWN, "step_index": 1}, True),
        ({**SHOWN, "step_index": 0}, False),
        ({**SHOWN, "warnings": ["network_error_recovered"]}, True),
        ({**SHOWN, "warnings": ["step_skipped"]}, False),
    ],
)
def test_every_part_of_the_expected_outcome_counts(expect: dict[str, Any], shown: bool) -> None:
    theatre = Theatre()
    theatre.session.script = [REFUSED, Passed()]
    result = play(theatre, expect=expect, **FAILS)
    assert result.error is not None
    assert result.error.expected is shown


@pytest.mark.parametrize(("last4", "differs"), [("1234", False), ("7777", True)])
def test_memory_that_is_not_as_expected_is_a_warning(last4: str, differs: bool) -> None:
    theatre = Theatre()
    theatre.world.entries_ = {"card": "1234"}
    result = play(theatre, expected_memory={"card": last4})
    assert [warning.type for warning in result.warnings] == (["memory_differs"] if differs else [])


@pytest.mark.parametrize(("start", "holds"), [("2030-06-01T12:00:00Z", True), ("2030-06-01T13:00:00Z", False)])
def test_time_is_what_time_since_goes_by(start: str, holds: bool) -> None:
    theatre = Theatre()
    theatre.world.entries_ = {"ordered": "2030-06-01T11:00:00Z"}
    assert play(theatre, time=start, success_criteria=["time_since('ordered') < 2h"]).ok is holds


def test_a_binding_is_compared_in_its_channel() -> None:
    theatre = Theatre()
    theatre.world.entries_ = {"card": "1234"}
    channels = {"env": {"last4": "1234"}, "ledger": {"last4": "7777"}}

    async def channel(name: str) -> Any:
        return channels[name]

    theatre.world.channel = channel  # type: ignore[method-assign]
    rules = {"on_state_inconsistency": "abort"}
    assert play(theatre, state_bindings={"card": "env.last4"}, error_recovery=rules).ok
    bound = {"card": {"channel": "ledger", "path": "last4"}}
    assert play(theatre, state_bindings=bound, error_recovery=rules).final_state == "aborted"


def test_note_and_t_are_shown_in_the_report() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("INVALID_INPUT", "no")]
    result = play(theatre, steps=[{**CLICK, "note": "open the cart", "t": 4.5}])
    assert result.error is not None
    assert result.error.step == {"act": "click", "selector": "#a", "note": "open the cart", "t": 4.5}


def test_an_assertion_is_read_in_its_frame() -> None:
    theatre = Theatre()
    asked: list[Any] = []

    async def read(query: PageQuery, within: float) -> str:
        asked.append((query.selector, query.frame))
        return "done"

    theatre.session.read = read  # type: ignore[method-assign]
    assert play(theatre, steps=[{"act": "assert", "selector": "#x", "frame": "#inner", "value": "done"}]).ok
    assert asked == [("#x", "#inner")]
