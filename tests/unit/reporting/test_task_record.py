"""The small document of one task."""

from __future__ import annotations

from pathlib import Path

from harness.model.record import Answer, MetFault, StepRecord
from harness.recovery import Retry, Substitute
from harness.recovery.catalog import Family
from harness.recovery.failure import Failure, Passed
from harness.reporting.redaction import MARK
from harness.reporting.task_record import TaskRecord, task_record
from harness.reporting.telling import story_of
from harness.spec.faults import PageCrash
from harness.values import replace
from tests.unit.reporting import sample

REFUSED = Failure("NET_CONNECTION_REFUSED", "refused")
ABSENT = Failure("ELEMENT_NOT_FOUND", "not there")


def record(*outcomes: Failure | None) -> StepRecord:
    step = sample.step(act="click", selector="#a")
    tries = [
        sample.attempt(step, n, 0.1, outcome or Passed(), Retry(1) if n else None) for n, outcome in enumerate(outcomes)
    ]
    answers = tuple(Answer(outcome.family, Retry(1)) for outcome in outcomes[:-1] if outcome)
    return StepRecord(0, step, tuple(tries), answers=answers)


def test_a_failed_task() -> None:
    plan = sample.plan(secrets=("env-secret",))
    result = sample.failed(plan, Failure("NET_DNS", "no host env-secret"), artifacts=Path("errors/B1-2025-001"))
    made = task_record(story_of(plan, result))
    assert (made.final_state, made.code, made.error_type, made.family) == (
        "failed", "NET_DNS", "network_dns_failure", Family.NETWORK,
    )  # fmt: skip
    assert (made.step_index, made.seconds, made.artifacts) == (4, 32.5, "errors/B1-2025-001")
    assert made.message == f"no host {MARK}"
    assert not made.expected


def test_an_expected_failure() -> None:
    plan = sample.plan()
    result = sample.failed(plan)
    assert task_record(story_of(plan, replace(result, error=sample.report(plan, result, expected=True)))).expected


def test_it_survives_json() -> None:
    plan = sample.plan()
    made = task_record(story_of(plan, sample.completed(plan, [record(REFUSED, None)])))
    assert TaskRecord.model_validate_json(made.model_dump_json()) == made
    assert made.warnings[0]["type"] == "network_error_recovered"


def test_recoveries() -> None:
    plan = sample.plan()

    def recoveries(*outcomes: Failure | None) -> list[tuple[Family, bool]]:
        return list(task_record(story_of(plan, sample.completed(plan, [record(*outcomes)]))).recoveries)

    assert recoveries(None) == []
    assert recoveries(REFUSED) == []
    assert recoveries(REFUSED, None) == [(Family.NETWORK, True)]
    assert recoveries(REFUSED, REFUSED) == [(Family.NETWORK, False)]
    assert recoveries(REFUSED, ABSENT, ABSENT) == [(Family.NETWORK, False), (Family.ELEMENT, False)], "the step failed"


def test_a_substitute_is_told_with_both_selectors() -> None:
    plan = sample.plan()
    step = sample.step(act="click", selector="#a")
    tries = (
        sample.attempt(step, 0, 1, ABSENT),
        sample.attempt(step, 1, 1, Passed({"role": "button", "name": "Pay"}), Substitute("//b")),
    )
    made = task_record(story_of(plan, sample.completed(plan, [StepRecord(0, step, tries)])))
    assert made.warnings[0]["successful_fallback"] == "//b"


def test_an_outcome_that_was_not_shown() -> None:
    plan = sample.plan()
    assert task_record(story_of(plan, sample.completed(plan), unexpected=True)).unexpected
    assert not task_record(story_of(plan, sample.completed(plan))).unexpected


def test_faults_of_one_name_are_one_and_struck_if_one_did() -> None:
    crash = PageCrash()
    met = (
        MetFault("a", crash, 1, (1.0,)), MetFault("a", crash), MetFault("b", crash), MetFault("c", crash, problem="no"),
    )  # fmt: skip
    made = task_record(story_of(sample.plan(), replace(sample.completed(sample.plan()), faults=met)))
    assert made.faults == {"a": "struck", "b": "never struck", "c": "could not be done"}
