"""What was tried, on a time axis."""

from __future__ import annotations

import re

from harness.model.record import MetFault, Rewound, StepRecord, TaskResult
from harness.recovery import Retry
from harness.recovery.failure import Failure, Passed
from harness.reporting.attachments import AttemptBar, attempt_lines, attempt_page
from harness.reporting.redaction import MARK, Redactor
from harness.reporting.story import TaskStory
from harness.reporting.telling import story_of
from harness.spec.faults import BrowserKill
from harness.values import replace
from tests.unit.reporting import sample

PLAN = sample.plan()
REFUSED = Failure("NET_CONNECTION_REFUSED", "connection refused")


def told(result: TaskResult, *secrets: str) -> TaskStory:
    return story_of(PLAN, result, Redactor(secrets))


def recovered() -> tuple[StepRecord, ...]:
    """Two steps at once, one at its second attempt, two at once."""
    step = PLAN.steps[2]
    tries = (sample.attempt(step, 1, 0.5, REFUSED), sample.attempt(step, 3.5, 0.5, Passed(), Retry(2.0)))
    rest = [StepRecord(i, PLAN.steps[i], (sample.attempt(PLAN.steps[i], 1.0 + i, 0.4),)) for i in (3, 4)]
    return (*sample.passed_records(PLAN, 2), StepRecord(2, step, tries), *rest)


def test_steps_that_went_at_once_are_one_line_between_those_that_did_not() -> None:
    lines = list(attempt_lines(told(sample.completed(PLAN, recovered())).steps))
    assert [(line.place, line.text) for line in lines] == [
        ("0 to 1", "2 steps passed at once"),
        ("2", "type #search-box = 'wireless mouse': ATTEMPT 1: FAILED - connection refused"),
        ("2", "RETRY (after 2s): SUCCESS"),
        ("3 to 4", "2 steps passed at once"),
    ]
    assert lines[2].bars == (AttemptBar("wait", 1.5, 2.0), AttemptBar("ok", 3.5, 0.5))


def test_the_axis_is_as_long_as_the_task() -> None:
    result = replace(sample.completed(PLAN, recovered()), elapsed=10.0)
    page = attempt_page(told(result))
    assert page is not None
    assert "0 to 10.0 s" in page
    assert re.findall(r'class="wait" style="left:([\d.]+)%;width:([\d.]+)%', page) == [("15.00", "20.00")]


def test_a_task_that_went_by_itself_has_none() -> None:
    assert attempt_page(told(sample.completed(PLAN))) is None


def test_going_back_and_faults_are_on_it() -> None:
    failing = StepRecord(2, PLAN.steps[2], (sample.attempt(PLAN.steps[2], 1, 0.5, REFUSED),), rewound=Rewound(1))
    met = MetFault("k", BrowserKill(id="k"), 2, (0.2, 0.4), steps=(0, 0))
    result = replace(sample.completed(PLAN, [*sample.passed_records(PLAN, 2), failing]), faults=(met,))
    page = attempt_page(told(result)) or ""
    assert "went back from step 2 to the checkpoint before step 1" in page
    assert page.count('<span class="fault" style') == 2


def test_secrets_and_markup_are_not_in_it() -> None:
    failure = Failure("NET_DNS", "<script>alert('hunter2')</script>")
    page = attempt_page(told(sample.failed(PLAN, failure), "hunter2")) or ""
    assert "<script" not in page
    assert "hunter2" not in page
    assert MARK in page
