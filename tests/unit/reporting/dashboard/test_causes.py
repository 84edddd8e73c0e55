"""Failures grouped by cause: which belong together, in which order, and what is told of each."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from harness.reporting.dashboard.causes import NO_FAILURE, NO_RECORD, UNEXPECTED, causes, grouped, history_text
from harness.reporting.dashboard.evidence import FoundEvidence
from harness.reporting.dashboard.view import CauseView
from harness.reporting.history.record import Execution, Happening, RunRecord, TaskPoint
from harness.reporting.task_record import AttemptLine, StepLine
from tests.unit.reporting.history.runs import BEGAN, execution, failed, nodeid, record, run, skipped


def causes_of(found: RunRecord, points: dict[str, tuple[TaskPoint, ...]] | None = None) -> list[CauseView]:
    return list(causes(found, grouped(found), points or {}, lambda _record: FoundEvidence()))


def run_of(*parts: Execution, **fields: Any) -> RunRecord:
    return run(parts=parts, **{"happenings": (), **fields})


def opened(code: str, url: str, message: str) -> dict[str, Any]:
    attempt = AttemptLine(t=1, seconds=0.2, passed=False, code=code, note=f"ATTEMPT 1: FAILED - {message}")
    step = StepLine(index=1, act="open", target=url, passed=False, attempts=(attempt,))
    return {"steps": (step,), "message": message}


def test_the_most_frequent_cause_comes_first_and_what_failed_first_is_marked() -> None:
    early = failed("T-1", "ASSERTION_FAILED", at=1)
    later = [failed(f"T-{n}", "ELEMENT_NOT_FOUND", at=10 * n) for n in (2, 3)]
    found = causes_of(run_of(*map(execution, (early, *later))))
    assert [(cause.codes, cause.first) for cause in found] == [
        ({"ELEMENT_NOT_FOUND": 2}, False),
        ({"ASSERTION_FAILED": 1}, True),
    ]


def test_a_long_task_that_began_early_did_not_fail_first() -> None:
    long = failed("T-1", "ASSERTION_FAILED", at=0, seconds=60)
    short = failed("T-2", "ELEMENT_NOT_FOUND", at=20, seconds=2)
    found = causes_of(run_of(execution(long), execution(short)))
    assert [cause.title for cause in found if cause.first] == ["Element not found: #checkout"]


def test_only_failures_that_count_are_causes() -> None:
    declared = failed("T-1", "STEP_TIMEOUT", expected=True)
    again = failed("T-2", "STEP_TIMEOUT")
    found = run_of(
        execution(declared, "passed"), execution(again, "rerun"), execution(record("T-2"), number=2), skipped("T-3")
    )
    assert causes_of(found) == []


def test_a_site_that_is_down_is_one_cause_with_its_circuit() -> None:
    refused = opened("NET_CONNECTION_REFUSED", "http://bank.local/login", "net::ERR_CONNECTION_REFUSED")
    alone = opened("CIRCUIT_OPEN", "http://bank.local/pay?x=1", "left alone")
    other = opened("NET_CONNECTION_REFUSED", "http://shop.local/", "net::ERR_CONNECTION_REFUSED")
    found = causes_of(
        run_of(
            execution(failed("T-1", "NET_CONNECTION_REFUSED", **refused)),
            execution(failed("T-2", "CIRCUIT_OPEN", at=5, **alone)),
            execution(failed("T-3", "NET_CONNECTION_REFUSED", at=9, **other)),
        )
    )
    assert [(cause.title, cause.codes) for cause in found] == [
        ("bank.local: net::ERR_CONNECTION_REFUSED", {"NET_CONNECTION_REFUSED": 1, "CIRCUIT_OPEN": 1}),
        ("shop.local: net::ERR_CONNECTION_REFUSED", {"NET_CONNECTION_REFUSED": 1}),
    ]


def test_what_was_done_on_purpose_is_a_cause_of_its_own() -> None:
    struck = failed("T-1", "STEP_TIMEOUT", faults={"hang": "struck"})
    unmet = failed("T-2", "STEP_TIMEOUT", faults={"hang": "never struck"})
    found = causes_of(run_of(*map(execution, (struck, unmet, failed("T-3", "STEP_TIMEOUT")))))
    assert [(len(cause.occurrences), cause.faulted) for cause in found] == [(2, False), (1, True)]


def test_a_failure_tells_its_step_its_attempts_and_the_steps_before() -> None:
    (cause,) = causes_of(run_of(execution(failed("T-1", "ELEMENT_NOT_FOUND"), worker="gw1")))
    (found,) = cause.occurrences
    assert found.step == "step 1 (of 0-2): click #s1"
    assert (found.message, found.worker) == ("Element not found: #checkout", "gw1")
    assert found.before == ("0 open #s0 (ok, 0.5 s)",)
    assert found.attempts[0] == "at 1.0 s, 0.5 s long: RETRY (after 1s): FAILED"
    assert cause.hint.startswith("Compare the selector")


def test_an_attempt_does_not_repeat_the_message() -> None:
    fields = opened("STEP_TIMEOUT", "http://shop.local/", "too long")
    (cause,) = causes_of(run_of(execution(failed("T-1", "STEP_TIMEOUT", **fields))))
    assert cause.occurrences[0].attempts == (), "a single attempt is told by the message"


def test_what_has_no_record_or_no_failure_is_said() -> None:
    broken = Execution(nodeid="a", task_id="T-1", outcome="failed", reason="fixture 'x' raised")
    silent = Execution(nodeid="b", task_id="T-2", outcome="failed")
    fine = execution(record("T-3", unexpected=True), "failed")
    messages = {each.message for cause in causes_of(run_of(broken, silent, fine)) for each in cause.occurrences}
    assert messages == {"fixture 'x' raised", NO_RECORD, NO_FAILURE}


def test_a_fixture_that_failed_afterwards_and_an_outcome_that_was_not_shown_are_said() -> None:
    torn = execution(record("T-1", torn=True, message="teardown: RuntimeError: no"), "failed")
    other = execution(failed("T-2", "STEP_TIMEOUT", message="too long", unexpected=True), "failed")
    found = {each.task_id: each.message for cause in causes_of(run_of(torn, other)) for each in cause.occurrences}
    assert found == {"T-1": "teardown: RuntimeError: no", "T-2": f"{UNEXPECTED} too long"}


def happening(seconds: float, kind: str, level: str = "ERROR", **details: str) -> Happening:
    at, text = BEGAN + timedelta(seconds=seconds), f"{kind} {seconds}"
    return Happening(at=at, type=kind, level=level, text=text, details=details)


def test_services_and_the_sites_own_circuit_are_told_around_a_failure() -> None:
    told = (
        happening(1, "service-status"),
        happening(90, "service-status"),
        happening(99, "service-status", "INFO"),
        happening(100, "circuit-state-change", circuit="origin:http://bank.local"),
        happening(101, "circuit-state-change", circuit="origin:http://shop.local"),
        happening(102, "threshold"),
        happening(200, "service-status"),
    )
    fields = opened("NET_CONNECTION_REFUSED", "http://bank.local/", "refused")
    part = execution(failed("T-1", "NET_CONNECTION_REFUSED", at=100, seconds=5, **fields))
    (cause,) = causes_of(run_of(part, happenings=told))
    assert cause.around == (
        "15.0 s before the failure: service-status 90",
        "5.0 s before the failure: circuit-state-change 100",
    )


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("", ""),
        ("s", ""),
        ("ppp", "new: passed in the 3 runs before"),
        ("p", "new: passed in the run before"),
        ("pff", "also failed in the 2 runs before"),
        ("pfpf", "flaky: failed in 2 of the 4 runs before"),
    ],
)
def test_how_long_a_task_has_been_failing(before: str, words: str) -> None:
    outcomes: dict[str, Any] = {"p": "passed", "f": "failed", "s": "skipped"}
    points = [
        TaskPoint(run=f"r{n}", started=BEGAN - timedelta(days=9 - n), outcome=outcomes[letter])
        for n, letter in enumerate(before)
    ]
    later = TaskPoint(run="later", started=BEGAN + timedelta(days=1), outcome="passed")
    own = TaskPoint(run=run().run, started=BEGAN, outcome="failed")
    assert history_text(run(), [*points, own, later]) == words


def test_the_words_reach_the_failure() -> None:
    points = {nodeid("T-1"): (TaskPoint(run="r", started=BEGAN - timedelta(days=1), outcome="passed"),)}
    (cause,) = causes_of(run_of(execution(failed("T-1", "STEP_TIMEOUT"))), points)
    assert cause.occurrences[0].since == "new: passed in the run before"


def test_what_was_skipped_because_of_a_cause_is_named_there() -> None:
    parts = [
        execution(failed("T-1", "STEP_TIMEOUT")),
        execution(failed("T-2", "PAGE_CRASHED")),
        skipped("T-3", "depends on T-1, which did not pass"),
        skipped("T-4", "depends on T-3, which did not pass"),
        skipped("T-5", "depends on T-9, which is not among the tasks of this run"),
    ]
    found = {cause.occurrences[0].task_id: cause.skipped for cause in causes_of(run_of(*parts))}
    assert found == {"T-1": ("T-3", "T-4"), "T-2": ()}
