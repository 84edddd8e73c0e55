"""Warnings are derived from what happened, whole and in order."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.record import MetFault, Rewound, StepRecord, TaskResult
from harness.model.warnings import warnings
from harness.recovery import RepairPrecondition, Trust
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure, Passed
from harness.spec.faults import BrowserKill, Fault, Missing, Status
from tests.unit.reporting.sample import START, attempt, step

CLICK = step(act="click", selector="#a")
LATE = Failure("STEP_TIMEOUT", "too late")


def record(*outcomes: Any, index: int = 2, of: Any = CLICK, **fields: Any) -> StepRecord:
    tries = tuple(attempt(of, number, 1, outcome) for number, outcome in enumerate(outcomes))
    return StepRecord(index, of, tries, **fields)


def told(*records: StepRecord) -> list[tuple[str, str]]:
    return [(warning.type, warning.message) for warning in warnings(records)]


def test_a_rewind_is_told_with_its_cause() -> None:
    back = record(LATE, rewound=Rewound(1))
    assert told(back, record(Passed())) == [
        ("checkpoint_restored", "The task went back from step 2 to the checkpoint before step 1: too late")
    ]


def test_a_new_browser_and_what_differs_are_told_too() -> None:
    back = record(LATE, rewound=Rewound(0, stretch=1.5))
    assert told(back)[1:] == [("timeout_escalated", "`timeout` and `step_timeout` are 1.5 times as long from here on")]
    back = record(LATE, rewound=Rewound(0, ("#qty: was '2', is '1'",), restart=True))
    assert [kind for kind, _ in told(back)] == ["browser_restarted", "checkpoint_restored", "restore_incomplete"]
    assert told(back)[2][1] == "1 difference to the checkpoint: #qty: was '2', is '1'"


def test_skipped_steps_say_whether_they_were_optional() -> None:
    optional = step(act="click", selector="#a", optional=True)
    messages = [text for _, text in told(record(LATE, skipped=True), record(LATE, of=optional, skipped=True))]
    assert messages == ["Step 2 was skipped: too late", "Optional step 2 was skipped: too late"]


def test_a_skipped_write_says_that_its_outcome_is_not_known() -> None:
    write = step(act="submit", selector="#form")
    late = Failure("STEP_TIMEOUT", "too late", effect=Effect.POSSIBLE)
    (found,) = told(record(late, of=write, skipped=True))
    assert found[1] == "Step 2 was skipped: too late; whether it took effect is not known"


def test_a_repaired_precondition_is_named() -> None:
    of = step(act="assert", expr="mem('a') == 1")
    tries = (
        attempt(of, 0, 1, Failure("PRECONDITION_NOT_MET", "no")),
        attempt(of, 1, 1, Passed(), RepairPrecondition()),
    )
    assert told(StepRecord(-1, of, tries)) == [("precondition_repaired", "Repaired: mem('a') == 1")]


@pytest.mark.parametrize(
    ("code", "warning", "words"),
    [
        ("ELEMENT_COVERED", "action_retry_success", "action_failed recovered after 0 retries"),
        ("ELEMENT_NOT_FOUND", "element_appeared_late", "element_not_found recovered after 0 retries"),
        ("PAGE_CRASHED", "page_recovered", "oh; the page was freed or opened again"),
        ("CIRCUIT_OPEN", "network_error_recovered", "The task waited for a site whose circuit was open: oh"),
    ],
)
def test_a_failure_that_was_got_over_is_told_as_its_family_says(code: str, warning: str, words: str) -> None:
    assert told(record(Failure(code, "oh"), Passed())) == [(warning, words)]


def test_each_family_that_was_got_over_is_told_by_its_own_failure() -> None:
    failures = (Failure("ELEMENT_NOT_FOUND", "no element"), Failure("PAGE_CRASHED", "the page crashed"))
    assert told(record(*failures, Passed()))[1] == (
        "page_recovered",
        "the page crashed; the page was freed or opened again",
    )


def test_an_inconsistency_says_who_was_trusted() -> None:
    of = step(act="assert", expr="mem('a') == json('env', 'a')")
    tries = (attempt(of, 0, 1, Failure("STATE_INCONSISTENT", "differ")), attempt(of, 1, 1, Passed(), Trust("memory")))
    (found,) = warnings((StepRecord(2, of, tries),))
    assert (found.type, found.details["trusted"]) == ("state_inconsistency_resolved", "memory")


def test_refused_hosts_are_told_once_for_the_whole_task() -> None:
    seen = Passed({"refused_hosts": ["ads.test", "cdn.test"]})
    assert told(record(seen), record(seen), record(Passed({"refused_hosts": ["x.test"]}))) == [
        (
            "domain_refused",
            "Pages requested hosts outside `allowed_domains`; nothing was sent to: ads.test, cdn.test, x.test",
        )
    ]


def test_a_forced_act_on_a_covered_element_is_told() -> None:
    of = step(act="click", selector="#go", force=True)
    done = attempt(of, 0, 1, Passed({"covered_by": "<div id=veil>"}))
    words = "<div id=veil> covers #go: it got the click of step 2 (`force`)"
    assert told(StepRecord(2, of, (done,))) == [("forced_on_covered", words)]


def test_steps_done_again_count_once() -> None:
    history = (record(Passed(), index=0), record(LATE, index=1, rewound=Rewound(0)), record(Passed(), index=0))
    result = TaskResult("T", "T", "failed", history, START, 1.0, 2)
    assert result.steps_completed == 1


GONE = Missing(id="gone", selector=".item")


@pytest.mark.parametrize(
    ("met", "words"),
    [
        (
            MetFault("n/gone", GONE.with_source("n.faults.yaml:5"), 1, (1.5,), steps=(2,)),
            "gone (missing .item from step 0 on, n.faults.yaml:5): struck once in step 2 at 1.5 s",
        ),
        (MetFault("gone", GONE, 1, (1.5,)), "gone (missing .item from step 0 on): struck once at 1.5 s"),
        (
            MetFault("status-0", Status(url="*", status=503), 4, (0.3,) * 4, steps=(1, 1, 1, 1)),
            "status * from step 0 on, status 503: struck 4 times, first in step 1 at 0.3 s",
        ),
        (
            MetFault("browser_kill-0", BrowserKill(step=1, delay=1.5).with_source("t.yaml:7"), why="it ended before"),
            "browser_kill at step 1, delay 1.5 (t.yaml:7): never struck: it ended before",
        ),
        (
            MetFault("k", BrowserKill(act="click"), problem="it is down"),
            "browser_kill at click steps from step 0 on: it is down",
        ),
        (MetFault("k", BrowserKill(times=2)), "browser_kill from step 0 on, times 2: never struck"),
        (
            MetFault("s", Status(url="*", status=500, body="x" * 99)),
            f"status * from step 0 on, status 500, body {'x' * 40}…: never struck",
        ),
    ],
)
def test_a_fault_says_its_name_what_it_is_where_it_stands_and_what_became_of_it(met: MetFault, words: str) -> None:
    assert met.describe() == words


def test_a_fault_keeps_its_own_title() -> None:
    faults: list[Fault] = [GONE, BrowserKill()]
    assert [fault.title for fault in faults] == ["gone", "browser_kill"]
