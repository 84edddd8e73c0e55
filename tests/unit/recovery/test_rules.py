"""Every strategy, as the list of remedies it yields; every setting changes that list."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.recovery import (
    FULL,
    NOTHING,
    Capture,
    GiveUp,
    NoRecovery,
    Remedy,
    RepairPrecondition,
    Retry,
    Rewind,
    Rulebook,
    Skip,
    Substitute,
    Trust,
)
from harness.recovery.catalog import CATALOG
from harness.recovery.failure import Failure
from harness.spec.validation import RULES

REFUSED = Failure("NET_CONNECTION_REFUSED", "refused")
DNS = Failure("NET_DNS", "no such name")
TLS = Failure("NET_TLS", "bad certificate")
MISSING = Failure("ELEMENT_NOT_FOUND", "no #a", selector="#a")
AMBIGUOUS = Failure("SELECTOR_AMBIGUOUS", "two", selector=".x")
COVERED = Failure("ELEMENT_COVERED", "covered", selector="#a")
WRONG = Failure("ASSERTION_FAILED", "wrong")
SLOW = Failure("STEP_TIMEOUT", "slow")
UNREADY = Failure("PRECONDITION_NOT_MET", "not ready")
DIFFERENT = Failure("STATE_INCONSISTENT", "different")
TASK_LATE = Failure("TASK_TIMEOUT", "over")


def remedies(rules: dict[str, Any], failure: Failure, random: float = 0.5) -> list[Any]:
    return list(Rulebook.model_validate(rules).remedies(failure, lambda: random))


@pytest.mark.parametrize(
    ("rules", "failure", "expected"),
    [
        ({}, SLOW, [GiveUp("failed", FULL)]),
        ({"on_timeout": "capture_state_and_abort"}, SLOW, [GiveUp("failed", FULL)]),
        ({"on_timeout": "abort"}, SLOW, [GiveUp("aborted")]),
        ({"on_timeout": {"strategy": "abort"}}, SLOW, [GiveUp("aborted")]),
        ({}, REFUSED, [Retry(1), Retry(1), Retry(1), GiveUp()]),
        ({}, DNS, [Retry(1), Retry(1), GiveUp()]),
        ({}, TLS, [GiveUp()]),
        ({"on_network_error": "retry_2_times"}, REFUSED, [Retry(1), Retry(1), GiveUp()]),
        ({"on_network_error": {"max_retries": 1}}, DNS, [Retry(1), GiveUp()]),
        ({"on_network_error": {"max_retries": 0}}, REFUSED, [GiveUp()]),
        ({"on_network_error": {"max_retries": 1, "retry_delay_ms": 250}}, REFUSED, [Retry(0.25), GiveUp()]),
        (
            {"on_network_error": {"strategy": "retry", "max_retries": 3, "backoff_multiplier": 3}},
            REFUSED,
            [Retry(1), Retry(3), Retry(9), GiveUp()],
        ),
        ({"on_network_error": "exponential_backoff"}, REFUSED, [Retry(1), Retry(2), Retry(4), GiveUp()]),
        (
            {"on_network_error": {"strategy": "exponential_backoff", "max_retries": 4, "max_delay_ms": 3000}},
            REFUSED,
            [Retry(1), Retry(2), Retry(3), Retry(3), GiveUp()],
        ),
        ({"on_network_error": "abort"}, REFUSED, [GiveUp("aborted")]),
        ({}, MISSING, [GiveUp()]),
        (
            {"on_element_not_found": {"fallback_selectors": {"#a": ["#b", "#c"], "#z": ["#y"]}}},
            MISSING,
            [Substitute("#b", 5), Substitute("#c", 5), GiveUp()],
        ),
        (
            {
                "on_element_not_found": {
                    "strategy": "try_fallback_selector",
                    "fallback_wait_seconds": 2,
                    "fallback_selectors": {"#a": ["#b"]},
                }
            },
            MISSING,
            [Substitute("#b", 2), GiveUp()],
        ),
        ({"on_element_not_found": "abort"}, MISSING, [GiveUp("aborted")]),
        ({}, AMBIGUOUS, [GiveUp("aborted")]),
        ({"on_selector_ambiguous": "use_first"}, AMBIGUOUS, [Substitute(".x >> nth=0"), GiveUp()]),
        (
            {"on_selector_ambiguous": "use_visible"},
            AMBIGUOUS,
            [Substitute(".x >> visible=true >> nth=0"), GiveUp()],
        ),
        ({}, COVERED, [Retry(), GiveUp()]),
        ({"on_action_failed": "abort"}, COVERED, [GiveUp("aborted")]),
        ({}, WRONG, [GiveUp("failed", FULL)]),
        (
            {"on_assertion_fail": {"capture_screenshot": False, "capture_dom": False, "capture_memory": False}},
            WRONG,
            [GiveUp("failed", Capture(screenshot=False, dom=False, memory=False))],
        ),
        ({"on_assertion_fail": "retry_after_wait"}, WRONG, [Retry(5), GiveUp()]),
        (
            {
                "on_assertion_fail": {
                    "strategy": "retry_after_wait",
                    "wait_before_retry_seconds": 2,
                    "capture_dom": False,
                }
            },
            WRONG,
            [Retry(2), GiveUp("failed", Capture(dom=False))],
        ),
        ({"on_assertion_fail": "abort_silent"}, WRONG, [GiveUp("aborted", NOTHING)]),
        (
            {"on_assertion_fail": {"strategy": "abort_silent", "capture_screenshot": True}},
            WRONG,
            [GiveUp("aborted", Capture(dom=False, memory=False, environment=False, logs=False))],
        ),
        ({}, UNREADY, [GiveUp("aborted", FULL)]),
        ({}, Failure("OUTCOME_UNKNOWN", "?"), [GiveUp()]),
        ({}, Failure("BROWSER_CRASHED", "gone"), [Rewind(restart=True), GiveUp()]),
        ({"on_browser_crash": "abort"}, Failure("BROWSER_CRASHED", "gone"), [GiveUp("aborted")]),
        ({"on_timeout": "retry_from_checkpoint"}, SLOW, [Rewind(stretch=1.5), GiveUp()]),
        ({"on_timeout": "retry_from_checkpoint"}, TASK_LATE, [Rewind(stretch=1.5), GiveUp()]),
        ({"on_timeout": "skip_step"}, SLOW, [Skip("step"), GiveUp()]),
        ({"on_timeout": "skip_step"}, TASK_LATE, [GiveUp()]),
        ({"on_precondition_fail": "attempt_repair"}, UNREADY, [RepairPrecondition(), GiveUp("aborted")]),
        ({"on_precondition_fail": "skip_task"}, UNREADY, [Skip("task")]),
        ({}, DIFFERENT, [Trust("environment"), GiveUp()]),
        ({"on_state_inconsistency": "trust_memory"}, DIFFERENT, [Trust("memory"), GiveUp()]),
        ({"on_state_inconsistency": "manual_resolution"}, DIFFERENT, [Trust("person"), GiveUp()]),
        ({"on_state_inconsistency": "abort"}, DIFFERENT, [GiveUp("aborted")]),
    ],
)
def test_a_rule_yields_these_remedies(rules: dict[str, Any], failure: Failure, expected: list[Any]) -> None:
    assert remedies(rules, failure) == expected


@pytest.mark.parametrize(("random", "delay"), [(0.0, 0.8), (0.5, 1.0), (1.0, 1.2)])
def test_jitter_moves_a_delay_either_way(random: float, delay: float) -> None:
    first, *_ = remedies({"on_network_error": {"jitter": 0.2}}, REFUSED, random)
    assert first.after == pytest.approx(delay)


@pytest.mark.parametrize(("rules", "patience"), [({}, 10), ({"wait_seconds": 3}, 3), ("abort", None)])
def test_how_long_the_first_attempt_looks(rules: Any, patience: float | None) -> None:
    assert Rulebook.model_validate({"on_element_not_found": rules}).on_element_not_found.patience == patience


@pytest.mark.parametrize(
    "rules",
    [
        {"on_timeout": "abrot"},
        {"on_network_error": {"strategy": "abort", "max_retries": 3}},
        {"on_network_error": {"max_retrys": 3}},
        {"on_network_error": {"max_retries": -1}},
        {"on_element_not_found": {"wait_seconds": "soon"}},
        {"on_assertion_fail": {"strategy": "save_trace_and_report", "wait_before_retry_seconds": 1}},
        {"on_tiemout": "abort"},
    ],
)
def test_a_rule_refuses_what_it_would_ignore(rules: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Rulebook.model_validate(rules)


def test_no_recovery_only_gives_up() -> None:
    assert list(NoRecovery().remedies(REFUSED, lambda: 0.5)) == [GiveUp("failed")]


@pytest.mark.parametrize(
    ("rule", "code", "end"),
    [
        ({}, "PRECONDITION_NOT_MET", GiveUp("aborted")),
        ({"on_precondition_fail": "attempt_repair"}, "PRECONDITION_NOT_MET", GiveUp("aborted")),
        ({"on_precondition_fail": "skip_task"}, "PRECONDITION_NOT_MET", Skip("task")),
        ({"on_timeout": "abort"}, "STEP_TIMEOUT", GiveUp("aborted")),
        ({"on_timeout": "retry_from_checkpoint"}, "STEP_TIMEOUT", GiveUp("failed")),
        ({"on_timeout": "skip_step"}, "STEP_TIMEOUT", GiveUp("failed")),
        ({"on_network_error": "retry_3_times"}, "NET_DNS", GiveUp("failed")),
    ],
)
def test_without_recovery_a_task_ends_as_its_rule_says(rule: dict[str, Any], code: str, end: Remedy) -> None:
    book = NoRecovery.model_validate(rule)
    (remedy,) = book.remedies(Failure(code, "m"), lambda: 0.5)
    assert (type(remedy), getattr(remedy, "final_state", None)) == (type(end), getattr(end, "final_state", None))


@given(st.sampled_from(sorted(CATALOG)))
def test_every_code_has_finitely_many_remedies_and_ends_by_giving_up(code: str) -> None:
    found = list(Rulebook().remedies(Failure(code, "x", selector="#a"), lambda: 0.5))
    assert len(found) <= 10
    assert isinstance(found[-1], GiveUp)


@pytest.mark.parametrize(
    ("rules", "failure", "kept"),
    [
        ({}, SLOW, FULL),
        ({"on_timeout": "abort"}, SLOW, FULL),
        ({"capture": "none"}, SLOW, NOTHING),
        ({"capture": "none"}, Failure("BUDGET_EXCEEDED", "over"), NOTHING),
        ({"capture": "none", "on_timeout": {"strategy": "abort", "capture": "all"}}, SLOW, FULL),
        ({"capture": "none", "on_timeout": {"strategy": "abort", "capture": "all"}}, REFUSED, NOTHING),
        ({"on_network_error": {"strategy": "abort", "capture": "none"}}, REFUSED, NOTHING),
        ({"on_network_error": {"capture": "none"}}, REFUSED, NOTHING),
        ({"on_network_error": {"strategy": "abort", "capture": "none"}}, SLOW, FULL),
    ],
)
def test_capture_none_keeps_no_evidence(rules: dict[str, Any], failure: Failure, kept: Capture) -> None:
    book = Rulebook.model_validate(rules)
    *_, end = book.remedies(failure, lambda: 0.5)
    assert book.evidence(failure, end.capture) == kept


@pytest.mark.parametrize(("rule", "strategy"), [(rule, each) for rule, named in RULES.items() for each in named])
def test_every_strategy_can_be_told_to_keep_no_evidence(rule: str, strategy: str) -> None:
    code = next(row.code for row in CATALOG.values() if row.family.value == rule)
    book = Rulebook.model_validate({rule: {"strategy": strategy, "capture": "none"}})
    assert book.evidence(Failure(code, "so"), FULL) == NOTHING
    assert Rulebook.model_validate({rule: strategy}).evidence(Failure(code, "so"), FULL) == FULL


@pytest.mark.parametrize("strategy", ["save_trace_and_report", "retry_after_wait", "abort_silent"])
def test_capture_none_and_a_capture_key_of_its_own_contradict_each_other(strategy: str) -> None:
    rule = {"strategy": strategy, "capture": "none", "capture_dom": True}
    with pytest.raises(ValidationError, match="`capture: none` keeps nothing, so `capture_dom: true` has no effect"):
        Rulebook.model_validate({"on_assertion_fail": rule})
    assert Rulebook.model_validate({"on_assertion_fail": {**rule, "capture_dom": False}}).on_assertion_fail


def test_how_many_remedies_of_a_kind_are_planned() -> None:
    rules = Rulebook()
    assert (rules.planned(REFUSED, Retry), rules.planned(DNS, Retry), rules.planned(TLS, Retry)) == (3, 2, 0)
    assert (rules.planned(REFUSED, Rewind), rules.planned(REFUSED, GiveUp)) == (0, 1)
    assert NoRecovery().planned(REFUSED, Retry) == 0
