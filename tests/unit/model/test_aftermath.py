"""What a fault led to, seen from the history."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from harness.model.diagnosis import fault_effect, responsible_faults, uninjected_fault, unmet_expectations
from harness.model.record import MetFault, StepRecord, TaskResult
from harness.recovery.failure import Failure, Passed
from harness.spec.faults import Fault
from harness.values import replace
from tests.unit.reporting.sample import START, attempt, step

CLICK = step(act="click", selector="#a")
REFUSED, LATE = Failure("NET_CONNECTION_REFUSED", "refused"), Failure("STEP_TIMEOUT", "late")


def fault(**expect: Any) -> Fault:
    found: Fault = TypeAdapter(Fault).validate_python({"kind": "page_crash", "expect": expect})
    return found


def met(*strikes: float, **expect: Any) -> MetFault:
    return MetFault("f", fault(**expect), len(strikes), strikes)


def record(index: int, *tries: tuple[float, Any], **fields: Any) -> StepRecord:
    """Attempts of one second each, at these times."""
    return StepRecord(index, CLICK, tuple(attempt(CLICK, t, 1, outcome) for t, outcome in tries), **fields)


def result(*history: StepRecord, failure: Failure | None = None) -> TaskResult:
    failed = None if failure is None else history[-1].index if history else 0
    return TaskResult("T", "T", "failed" if failure else "completed", history, START, 9.0, 3, failure, failed)


def test_the_first_failure_after_the_strike_is_its_doing() -> None:
    history = (record(0, (0, LATE), (1, Passed())), record(1, (3, REFUSED), (5, LATE), (7, Passed())))
    found = fault_effect(met(3.2), result(*history))
    assert (found.struck, found.code, found.step, found.seconds) == (True, "NET_CONNECTION_REFUSED", 1, 4.8)


def test_a_fault_that_never_struck_led_to_nothing() -> None:
    found = fault_effect(met(), result(record(0, (0, LATE)), failure=LATE))
    assert (found.struck, found.code) == (False, None)


def test_a_strike_that_nothing_failed_after() -> None:
    found = fault_effect(met(2.0), result(record(0, (0, LATE), (1.5, Passed()))))
    assert (found.code, found.step, found.seconds) == (None, None, None)


def test_a_failure_without_an_attempt_is_the_tasks_own() -> None:
    found = fault_effect(met(0.5), result(failure=LATE))
    assert (found.code, found.step) == ("STEP_TIMEOUT", 0)


def test_recovery_may_come_after_going_back() -> None:
    history = (record(2, (1, LATE)), record(1, (3, Passed())), record(2, (4, Passed())))
    assert fault_effect(met(1.0), result(*history)).seconds == 4


def test_another_step_that_passes_is_no_recovery() -> None:
    assert fault_effect(met(1.0), result(record(2, (1, LATE), skipped=True), record(3, (3, Passed())))).seconds is None


def test_a_write_whose_effect_was_there_is_recovered_from() -> None:
    history = record(2, (1, REFUSED), effect_already_done=True)
    assert fault_effect(met(1.0), result(history)).seconds == 1


@pytest.mark.parametrize(
    ("expect", "reached", "said"),
    [
        ({}, False, []),
        ({"code": "STEP_TIMEOUT", "recovered": True}, True, []),
        ({"code": "NET_DNS"}, True, ["code: expected NET_DNS, was STEP_TIMEOUT"]),
        ({"code": None}, True, ["code: expected no failure, was STEP_TIMEOUT"]),
        ({"recovered": True}, False, ["was not recovered from"]),
        ({"recovered": False}, True, ["was recovered from, which was not expected"]),
    ],
)
def test_what_was_expected_and_did_not_happen(expect: dict[str, Any], reached: bool, said: list[str]) -> None:
    struck = met(1.0, **expect)
    found = fault_effect(struck, result(record(0, (1, LATE), (2, Passed()))))
    assert list(unmet_expectations(struck, found, reached=reached)) == said


def test_nothing_is_expected_of_a_fault_that_never_struck() -> None:
    silent = met(code="NET_DNS", recovered=True)
    assert list(unmet_expectations(silent, fault_effect(silent, result()), reached=False)) == []


@pytest.mark.parametrize(
    ("strikes", "healed", "follows"),
    [
        ((6.5,), (), True), ((5.0,), (), True), ((4.5,), (), True), ((3.6,), (), False),
        ((2.0,), (), False), ((2.0,), (4.0,), False), ((2.0,), (8.5,), True),
        ((), (8.5,), False), ((0.5, 6.9), (), True), ((8.2,), (), False),
    ],
)  # fmt: skip
def test_a_failure_follows_what_struck_in_its_step_or_the_one_before_or_stood_then(
    strikes: tuple[float, ...], healed: tuple[float, ...], follows: bool
) -> None:
    history = (record(0, (0, Passed())), record(1, (3, Passed())), record(2, (4, Passed())), record(3, (7, LATE)))
    ended = result(record(0, (2, Passed())), *history[1:], failure=LATE)
    struck = replace(met(*strikes), healed=healed)
    assert responsible_faults(replace(ended, faults=(struck,))) == ((struck,) if follows else ())
    assert responsible_faults(replace(ended, failure=None, faults=(struck,))) == ()


def test_a_failure_of_the_first_step_and_one_before_it_follow_what_struck_by_then() -> None:
    first = result(record(0, (1, LATE)), failure=LATE)
    assert responsible_faults(replace(first, faults=(met(0.2),)))
    assert responsible_faults(replace(result(failure=LATE), faults=(met(0.2),)))


def test_a_fault_that_could_not_be_done_is_the_failure() -> None:
    wrong, other = replace(met(), problem="late"), replace(met(), problem="else")
    ended = replace(result(record(0, (1, Passed())), failure=LATE), faults=(other, wrong))
    assert (responsible_faults(ended), uninjected_fault(ended)) == ((wrong,), wrong)
    assert uninjected_fault(replace(ended, faults=(other,))) is None
    assert uninjected_fault(replace(ended, faults=(met(0.5),))) is None
