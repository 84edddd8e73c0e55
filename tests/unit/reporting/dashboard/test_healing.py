"""Healed selectors and flaky tasks, and that what is proposed is a task file that loads."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.model.report import FaultReport
from harness.reporting.dashboard.causes import flaky, healed_selectors
from harness.reporting.healings import under_fault
from harness.reporting.history.record import Outcome, TaskPoint
from tests.unit.reporting.dashboard.pages import page_of
from tests.unit.reporting.history.runs import BEGAN, CODES, HEALED, execution, failed, nodeid, record, run
from tests.unit.spec.files import loaded


def test_one_change_is_proposed_for_all_places_of_a_selector() -> None:
    found = healed_selectors([record("T-1", warnings=(HEALED,)), record("T-2", warnings=(HEALED,))])
    (each,) = found
    assert each.places == ("tasks/T-1.task.yaml, step 1", "tasks/T-2.task.yaml, step 1")
    assert each.what == "button 'Buy'"
    assert each.change == '- act: click\n  selector: "[data-test=buy]"   # was "#buy"'


@pytest.mark.parametrize(
    ("fault", "struck"),
    [
        ({"steps": (HEALED["step_index"],), "struck": 1}, True),
        ({"steps": (0,), "struck": 1}, False),
        ({"steps": (0,), "struck": 1, "target": HEALED["original_selector"]}, True),
        ({"target": HEALED["original_selector"]}, False),
    ],
)
def test_only_a_fault_that_struck_the_healed_step_or_element_excuses_its_selector(fault: Any, struck: bool) -> None:
    met = FaultReport(id="f", title="f", kind="missing", **fault)
    told = under_fault(HEALED, [met])
    (each,) = healed_selectors([record("T-1", warnings=(told,), faults={"f": "struck"})])
    assert (bool(each.settled), bool(each.change)) == (struck, not struck)
    assert under_fault({**HEALED, "type": "step_skipped"}, [met])["type"] == "step_skipped"


@pytest.mark.parametrize("selector", ["a: b # c", "'\"\n- act: api", "ü \\ x", "text=Ja, bitte", "{x}", "[a] > b"])
def test_any_selector_is_proposed_as_yaml_that_says_it(selector: str) -> None:
    warning = {**HEALED, "successful_fallback": selector, "original_selector": selector + "\n#"}
    (each,) = healed_selectors([record("T-1", warnings=(warning,))])
    assert yaml.safe_load(each.change) == [{"act": "click", "selector": selector}]


@pytest.mark.parametrize(
    ("warning", "fields", "why"),
    [
        (HEALED, {"declared": ("fallback_selector_used",)}, "healed as the task declares"),
        ({**HEALED, "under_fault": True}, {}, "healed under an injected fault"),
        ({**HEALED, "successful_fallback": "#buy >> nth=0"}, {}, "one of the selector's own matches was used"),
        ({**HEALED, "successful_fallback": "#buy >> visible=true >> nth=0"}, {}, "one of the selector's own matches"),
    ],
)
def test_what_needs_no_change_is_told_without_one(warning: dict[str, Any], fields: dict[str, Any], why: str) -> None:
    """The tile counts it, so the section says what it was."""
    parts = [record("T-1", warnings=(warning,), **fields), record("T-2", warnings=(HEALED,))]
    other, settled = healed_selectors(parts)
    assert (settled.change, other.settled, bool(other.change)) == ("", "", True)
    assert settled.settled.startswith(why)
    text = page_of(run(parts=[execution(parts[0])]))
    assert "nothing to change." in text
    assert "Proposed change" not in text
    assert "no healed selector" not in text


def test_another_warning_is_no_healing() -> None:
    assert healed_selectors([record("T-1", warnings=({**HEALED, "type": "step_skipped"},))]) == []
    assert healed_selectors([record("T-1", warnings=(HEALED,), faults={"late": "never struck"})])[0].change


def points(outcomes: str, task_id: str = "T-1") -> dict[str, tuple[TaskPoint, ...]]:
    known: dict[str, Outcome] = {"p": "passed", "f": "failed", "s": "skipped"}
    return {
        nodeid(task_id): tuple(
            TaskPoint(
                run=f"r{n}",
                started=BEGAN - timedelta(days=40 - n),
                outcome=known[letter],
                code="STEP_TIMEOUT" if letter == "f" else None,
            )
            for n, letter in enumerate(outcomes)
        )
    }


@pytest.mark.parametrize(
    ("before", "is_flaky"),
    [("ppp", False), ("pff", False), ("fpf", True), ("pfpp", False), ("fpfp", True), ("", False)],
)
def test_a_task_that_passes_and_fails_by_turns_is_flaky(before: str, is_flaky: bool) -> None:
    found = flaky(run(parts=[execution(record("T-1"))]), points(before))
    assert bool(found) is is_flaky


def test_a_task_that_passed_only_when_run_again_is_flaky() -> None:
    parts = [execution(failed("T-1", "STEP_TIMEOUT"), "rerun"), execution(record("T-1"), number=2)]
    (found,) = flaky(run(parts=parts), {})
    assert (found.reruns, found.outcomes, found.codes) == (1, ("passed",), ("STEP_TIMEOUT",))


def test_a_task_that_failed_each_time_it_was_run_again_is_not() -> None:
    parts = [execution(failed("T-1", "STEP_TIMEOUT"), "rerun"), execution(failed("T-1", "STEP_TIMEOUT"), number=2)]
    assert flaky(run(parts=parts), {}) == []


def test_the_most_restless_comes_first() -> None:
    parts = [execution(record("T-1")), execution(record("T-2"))]
    found = flaky(run(parts=parts), points("pppppfpf") | points("pfpfpf", "T-2"))
    assert [each.task_id for each in found] == ["T-2", "T-1"]
    assert (found[0].passed, found[0].runs) == (4, 7)


@pytest.mark.parametrize("code", [*CODES, "PAGE_CLOSED", "ACTION_FAILED", "UNKNOWN"])
def test_each_proposal_loads_as_part_of_a_task(tmp_path: Path, code: str) -> None:
    parts = [execution(failed("T-1", code), "rerun"), execution(record("T-1"), number=2)]
    (found,) = flaky(run(parts=parts), {})
    text = "task_id: T\nsteps:\n  - {act: open, url: 'http://shop.local/'}\n" + found.change
    spec = loaded(tmp_path, text).spec
    assert spec.task_id == "T"
    assert bool(found.change) is (code in text or "error_recovery" in text)


def test_a_wrong_login_is_not_outlasted() -> None:
    parts = [execution(failed("T-1", "AUTHENTICATION_FAILED"), "rerun"), execution(record("T-1"), number=2)]
    assert flaky(run(parts=parts), {})[0].change == ""
