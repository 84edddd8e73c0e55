"""The last lines of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.reporting.summary import summary_lines
from harness.reporting.task_record import TaskRecord

HEALED = {
    "type": "fallback_selector_used", "step_index": 12, "message": "", "original_selector": "#a",
    "successful_fallback": "//td", "role": "button", "name": "Pay",
}  # fmt: skip

MISSING = {"type": "artifact_missing", "step_index": None, "message": "artifacts names 'x', which no step kept"}
SKIPPED = {"type": "step_skipped", "step_index": 2, "message": "Optional step 2 was skipped:\n no such element"}


def record(**fields: object) -> TaskRecord:
    return TaskRecord.model_validate({"task_id": "T", "key": "T", "final_state": "completed", **fields})


def test_everything() -> None:
    records = [
        record(), record(),
        record(recovered=2, warnings=[{"type": "network_error_recovered"}, HEALED], source="tasks/x.yaml"),
        record(warnings=[MISSING]),
        record(final_state="partial_success", warnings=[SKIPPED]),
        record(final_state="failed", warnings=[{"type": "network_error_recovered"}]),
        record(final_state="aborted", expected=True),
    ]  # fmt: skip
    assert summary_lines(records, Path("errors"), Path("allure-results"), more=["resilience: 1 retry (1 worked)"]) == [
        "tasks: 7: 4 completed (1 of them recovered), 1 partial success, 1 failed, 1 passed as declared",
        "warnings:",
        "  T: artifacts names 'x', which no step kept",
        "  T step 2: Optional step 2 was skipped: no such element",
        "healed selectors (update the spec):",
        "  tasks/x.yaml step 12: `#a` -> `//td` (button 'Pay')",
        "artifacts: errors; Allure results: allure-results (build the report: harness report)",
        "resilience: 1 retry (1 worked)",
        "look closer: harness triage, harness show T, harness dashboard",
    ]


def test_a_recovery_without_a_warning_of_its_own_is_counted() -> None:
    """An agent was told that its proposal is no step, and chose another one."""
    assert summary_lines([record(recovered=1)], Path("errors"))[0] == "tasks: 1: 1 completed (1 of them recovered)"


def test_what_a_task_that_passed_could_not_leave_is_told_once() -> None:
    """One that failed says it in its own text."""
    refused = {
        "type": "evidence_not_kept",
        "step_index": None,
        "message": "The evidence of the task could not be kept: no room",
    }
    lines = summary_lines([record(warnings=[refused]), record(final_state="failed", warnings=[refused])])
    assert lines[1:] == ["warnings:", "  T: The evidence of the task could not be kept: no room"]
    lost, kept = (record(final_state="failed", warnings=[refused], artifacts=each) for each in (None, "errors/T"))
    assert "artifacts: none could be kept in errors" in summary_lines([lost, lost], Path("errors"))
    assert "artifacts: errors" in summary_lines([lost, kept], Path("errors"))


def test_a_pass_without_a_required_part_of_the_score_is_not_quiet() -> None:
    unmet = {"type": "required_part_unmet", "step_index": None, "message": "`pay` is required, but not met"}
    lines = summary_lines([record(final_state="partial_success", score=0.0, warnings=[unmet])])
    assert lines[2:] == ["passed only in part: T, score 0: `pay` is required, but not met"]


def test_what_a_green_run_leaves_is_explained() -> None:
    expected = record(final_state="failed", expected=True)
    assert summary_lines([record(), expected], Path("errors"))[1:] == [
        "artifacts: errors (1 report: a failure that its task expects)"
    ]
    assert summary_lines([expected, expected], Path("errors"))[1:] == [
        "artifacts: errors (2 reports: failures that their tasks expect)"
    ]


def test_a_task_whose_fixture_failed_afterwards_is_called_that_and_has_nothing_to_show() -> None:
    torn, red = record(torn=True), record(task_id="RED", final_state="failed", recovered=1)
    assert summary_lines([torn], Path("errors")) == [
        "tasks: 1: 1 failed in teardown", "look closer: harness triage, harness dashboard",
    ]  # fmt: skip
    assert summary_lines([torn, red], Path("errors")) == [
        "tasks: 2: 1 failed, 1 failed in teardown", "artifacts: errors",
        "look closer: harness triage, harness show RED, harness dashboard",
    ]  # fmt: skip


def test_an_interrupted_task_is_nothing_else() -> None:
    ended = record(final_state="aborted", code="INTERRUPTED", unexpected=True)
    assert summary_lines([record(), ended], Path("errors")) == [
        "tasks: 2: 1 completed, 1 interrupted", "artifacts: errors",
    ]  # fmt: skip


def test_a_green_run_is_one_line() -> None:
    assert summary_lines([record()], Path("errors")) == ["tasks: 1: 1 completed"]


def test_no_tasks() -> None:
    assert summary_lines([], Path("errors")) == []


def test_each_task_is_counted_once() -> None:
    records = [
        *[record() for _ in range(4)],
        *[record(recovered=1, warnings=[{"type": "network_error_recovered"}]) for _ in range(3)],
        record(final_state="failed", expected=True),
        record(final_state="failed", unexpected=True),
        record(unexpected=True, warnings=[SKIPPED, {"type": "network_error_recovered"}]),
    ]
    assert summary_lines(records) == [
        "tasks: 10: 7 completed (3 of them recovered), 1 passed as declared, 2 unexpected outcomes",
    ]
    refused = record(final_state="partial_success", refused=True)
    crashed = record(final_state="failed", code="WORKER_CRASHED")
    assert summary_lines([refused, crashed]) == ["tasks: 2: 1 refused partial success, 1 not judged"]
    assert summary_lines([record(unexpected=True)]) == ["tasks: 1: 1 unexpected outcome"]


def test_ten_warnings_and_how_many_more() -> None:
    warning = {"type": "memory_key_missing", "message": "m " * 500}
    lines = summary_lines(
        [record(warnings=[warning] * 8), record(warnings=[{**warning, "type": "memory_differs"}] * 5)]
    )
    assert (lines[1], lines[-1], len(lines)) == ("warnings:", "  ... 3 more", 13)
    assert max(map(len, lines)) < 220
    assert len(summary_lines([record(warnings=[warning] * 10)])) == 12


def test_faults_that_were_not_met_are_one_line_for_each_task() -> None:
    unmet = [
        {"type": "fault_not_met", "step_index": None, "message": f"Fault refuse {host}.local at step 0: never met"}
        for host in ("shop", "bank", "gov")
    ]
    healed = {"type": "fault_not_healed", "step_index": None, "message": "Fault page_crash at step 0: it is down"}
    several = [record(warnings=unmet), record(task_id="U", warnings=[*unmet[:1], healed])]
    assert summary_lines(several)[1:] == [
        "warnings:",
        "  T: 3 faults never struck; the first: Fault refuse shop.local at step 0: never met",
        "  U: Fault page_crash at step 0: it is down",
        "  U: Fault refuse shop.local at step 0: never met",
    ]
    assert len(summary_lines([record(warnings=unmet, declared=["fault_not_met"])])) == 1


def test_a_failed_task_shows_its_warnings_itself() -> None:
    assert len(summary_lines([record(final_state="failed", warnings=[SKIPPED])])) == 1


@pytest.mark.parametrize(
    ("original", "used", "listed"),
    [
        ("#a", "#a >> nth=0", False), ("#a", "#a >> visible=true >> nth=0", False),
        ("#a-${memory.id}", "#a-7 >> nth=0", False), ("#a", "#b >> nth=0", True), ("#a", "#b", True),
    ],
)  # fmt: skip
def test_a_declared_choice_among_matches_is_not_healed(original: str, used: str, listed: bool) -> None:
    warning = {**HEALED, "original_selector": original, "successful_fallback": used}
    assert ("healed selectors (update the spec):" in summary_lines([record(warnings=[warning])])) is listed


def test_a_selector_that_an_injected_fault_took_away_needs_no_update() -> None:
    assert "healed selectors (update the spec):" in summary_lines([record(warnings=[HEALED])])
    faulted = record(warnings=[{**HEALED, "under_fault": True}], faults={"renamed 1": "struck"})
    assert summary_lines([faulted])[1:] == ["faults: 1 struck"]
    elsewhere = record(warnings=[HEALED], faults={"renamed 1": "struck"})
    assert "healed selectors (update the spec):" in summary_lines([elsewhere])


def test_whole_scores_are_not_told() -> None:
    assert summary_lines([record(score=1.0)]) == ["tasks: 1: 1 completed"]
    assert summary_lines([record(score=1.0), record(task_id="U", score=0.5)])[1:] == [
        "score: 0.75 on average of 2 tasks; below 1: U 0.5"
    ]


def test_a_folder_elsewhere_is_shown_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    lines = summary_lines([record(final_state="failed")], tmp_path / "errors", tmp_path / "project/..allure")
    assert lines[1].startswith(f"artifacts: {tmp_path}/errors; Allure results: ..allure ")


def test_tasks_that_were_left_out_are_counted_with_their_reasons() -> None:
    why = "depends on A, which is not among the tasks of this run; run: pytest 'a b.task.yaml::B' --task-with-deps"
    assert summary_lines([], skipped=[("B", why)]) == ["tasks: 1: 1 skipped", "skipped:", f"  B: {why}"]
    many = summary_lines([record()], skipped=[("B", why)] * 12)
    assert many[0] == "tasks: 13: 1 completed, 12 skipped"
    assert len(many) == 13
    assert many[-1] == "  ... 2 more (pytest -rs)"


UNLIKE = {"type": "fault_not_as_expected", "step_index": None, "message": "Fault slow: code: expected X, was Y"}
UNMET = {"type": "fault_not_met", "step_index": None, "message": "Fault reset: never struck"}


def test_faults_are_counted_and_those_not_as_they_should_be_are_told() -> None:
    green = record(faults={"a": "struck", "b": "never struck"}, warnings=[UNLIKE, UNMET])
    red = record(final_state="failed", faults={"a": "struck", "c": "could not be done"})
    assert summary_lines([green, red], idle=["n.faults.yaml: strikes no task of this run"])[1:] == [
        "faults: 2 struck, 1 never struck, 1 could not be done, 1 not as expected",
        "  n.faults.yaml: strikes no task of this run",
        "warnings:",
        "  T: Fault slow: code: expected X, was Y",
        "  T: Fault reset: never struck",
    ]


def test_a_plan_that_does_nothing_is_not_silent() -> None:
    assert summary_lines([record()], idle=[])[1:] == ["faults: none struck"]
    assert summary_lines([record()], idle=None)[1:] == []


def test_of_a_task_that_fails_as_it_declares_only_the_faults_are_told() -> None:
    expected = record(final_state="failed", expected=True, warnings=[SKIPPED, UNMET])
    assert summary_lines([expected])[1:] == ["warnings:", "  T: Fault reset: never struck"]
    assert summary_lines([record(final_state="failed", warnings=[UNMET])])[1:] == []
