"""pytest's reports as executions of tasks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.pytest_plugin.history import Executions
from harness.reporting.history.record import Execution
from harness.reporting.task_record import TaskRecord
from tests.unit.reporting.history.runs import BEGAN, failed, nodeid, record

NODE = nodeid("T-1")


def report(when: str, outcome: str = "passed", document: TaskRecord | None = None, **more: Any) -> Any:
    """Of a task, as xdist's controller or the only process has it."""
    facts = {"nodeid": NODE, "when": when, "outcome": outcome, "longrepr": None, "duration": 0.25, "taskspec_id": "T-1"}
    facts |= {name: outcome == name for name in ("passed", "failed", "skipped")}
    if document is not None:
        facts["taskspec"] = document.model_dump(mode="json")
    return SimpleNamespace(**{**facts, "start": BEGAN.timestamp(), **more})


def of(*reports: Any) -> list[Execution]:
    executions = Executions(Path("/project"))
    return [found for each in reports if (found := executions.of(each))]


def test_a_task_that_passed() -> None:
    (found,) = of(report("setup"), report("call", document=record("T-1")), report("teardown"))
    assert found == Execution(nodeid=NODE, task_id="T-1", outcome="passed", seconds=2.0, at=BEGAN, record=record("T-1"))


def test_its_artifacts_are_kept_relative_to_the_project() -> None:
    (found,) = of(report("call", "failed", failed("T-1", "STEP_TIMEOUT", artifacts="/project/errors/T-1")))
    assert found.record is not None
    assert found.record.artifacts == "errors/T-1"


def test_run_again() -> None:
    wrong = failed("T-1", "STEP_TIMEOUT")
    found = of(
        report("setup", worker_id="gw1"),
        report("call", "rerun", wrong, worker_id="gw1"),
        report("setup", worker_id="gw1"),
        report("call", document=record("T-1"), worker_id="gw1"),
        report("teardown", worker_id="gw1"),
    )
    assert [(each.number, each.outcome, each.worker) for each in found] == [(1, "rerun", "gw1"), (2, "passed", "gw1")]


def test_left_out() -> None:
    longrepr = ("T-1.task.yaml", 1, "Skipped: depends on T-0, which did not pass")
    (found,) = of(report("setup"), report("call", "skipped", longrepr=longrepr), report("teardown"))
    assert (found.outcome, found.reason, found.record) == ("skipped", "depends on T-0, which did not pass", None)
    assert (found.at, found.seconds) == (BEGAN, 0.25)


def test_expected_to_fail() -> None:
    (found,) = of(report("call", "skipped", failed("T-1", "STEP_TIMEOUT"), wasxfail="known"))
    assert (found.outcome, found.reason) == ("skipped", "xfail: known")


@pytest.mark.parametrize(("when", "numbers"), [("setup", [1]), ("teardown", [1, 1])])
def test_a_fixture_that_fails(when: str, numbers: list[int]) -> None:
    crash = SimpleNamespace(reprcrash=SimpleNamespace(message="RuntimeError: no\nsecond line"))
    before = [] if when == "setup" else [report("call", document=record("T-1"))]
    found = of(*before, report(when, "failed", longrepr=crash))
    assert [each.number for each in found] == numbers
    assert (found[-1].outcome, found[-1].reason) == ("failed", f"{when}: RuntimeError: no")
    told = [each.record.message for each in found if each.record]
    assert told == ["", "teardown: RuntimeError: no"][-len(told) :] if when == "teardown" else told == []


def test_what_a_fixture_says_is_redacted() -> None:
    executions = Executions(Path("/project"), redacted=lambda text: text.replace("hunter2", "[redacted]"))
    found = executions.of(report("setup", "failed", longrepr="no login as hunter2"))
    assert found is not None
    assert found.reason == "setup: no login as [redacted]"


def test_a_fixture_that_fails_after_a_failed_task_changes_nothing() -> None:
    found = of(report("call", "failed", failed("T-1", "STEP_TIMEOUT")), report("teardown", "failed", longrepr="no"))
    assert len(found) == 1


def test_a_worker_that_crashed() -> None:
    """The report that xdist makes of it has no phase, and only the record says that it is a task."""
    lost = report("???", "failed", failed("T-1", "WORKER_CRASHED"))
    del lost.taskspec_id
    (found,) = of(lost)
    assert (found.outcome, found.task_id) == ("failed", "T-1")


def test_tests_that_are_no_tasks() -> None:
    other = report("call")
    del other.taskspec_id
    assert of(other) == []


def test_interrupted() -> None:
    executions = Executions(Path("/project"), [NODE])
    found = executions.interrupted(failed("T-1", "INTERNAL_ERROR", artifacts="/project/errors/T-1"))
    assert (found.nodeid, found.outcome, found.number, found.at) == (NODE, "failed", 1, BEGAN)
    assert found.record is not None
    assert found.record.artifacts == "errors/T-1"
    assert executions.interrupted(record("T-2", source="t.yaml")).nodeid == "t.yaml::T-2"
    assert found.outcome == "failed"


def test_a_task_that_had_just_passed_when_the_run_was_interrupted_has_passed() -> None:
    assert Executions(Path("/project")).interrupted(record("T-1")).outcome == "passed"
