"""The first thing to look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.recovery.catalog import CATALOG
from harness.reporting.task_record import TaskRecord
from harness.reporting.triage import Trouble, causes, first_look, of_record


def look(trouble: Trouble, *there: str) -> str:
    (cause,) = causes([trouble])
    return first_look(cause, lambda path: path.name in there)


ALL = (
    "error_report.json", "screenshot.png", "memory_snapshot.json", "env_snapshot.json", "console_logs.txt",
    "network_logs.har", "partial_trace.json",
)  # fmt: skip


@pytest.mark.parametrize(
    ("code", "file"),
    [
        ("ELEMENT_NOT_FOUND", "screenshot.png"),
        ("ASSERTION_FAILED", "screenshot.png"),
        ("TASK_TIMEOUT", "partial_trace.json"),
        ("HTTP_SERVER_ERROR", "network_logs.har"),
        ("PAGE_CRASHED", "console_logs.txt"),
        ("PRECONDITION_NOT_MET", "memory_snapshot.json"),
        ("STATE_INCONSISTENT", "env_snapshot.json"),
    ],
)
def test_the_artifact_that_shows_most(code: str, file: str) -> None:
    assert look(Trouble("T", code, "m", artifacts="errors/T"), *ALL) == str(Path("errors/T", file))


@pytest.mark.parametrize(
    ("message", "file"),
    [
        ("mem('orders.last.id') == 'A-1': expected 'A-1', actual null", "memory_snapshot.json"),
        ("1 of 3 criteria: EVENTUALLY(json('env', 'gov.status') == 'booked')", "env_snapshot.json"),
        ("text('#id') == mem('orders.last.id')", "screenshot.png"),
        ("WITHIN(3, exists('#done'))", "screenshot.png"),
    ],
)
def test_a_failed_criterion_is_looked_at_where_it_reads(message: str, file: str) -> None:
    for code in ("CRITERIA_UNMET", "ASSERTION_FAILED"):
        assert look(Trouble("T", code, message, artifacts="errors/T"), *ALL) == str(Path("errors/T", file))


def test_of_a_look_what_differs_is_looked_at_first(tmp_path: Path) -> None:
    place = tmp_path / "files" / "comparisons" / "1-card-linux"
    place.mkdir(parents=True)
    for name in ("expected.png", "actual.png"):
        (place / name).touch()
    failed = Trouble("T", "ASSERTION_FAILED", "#card does not look like card-linux.png: ...", artifacts=str(tmp_path))
    assert look(failed, "actual.png", *ALL).endswith("1-card-linux/actual.png")
    (place / "diff.png").touch()
    assert look(failed, "diff.png", *ALL).endswith("1-card-linux/diff.png")
    other = Trouble("T", "ASSERTION_FAILED", "#card = 'x'", artifacts=str(tmp_path))
    assert look(other, "diff.png", *ALL).endswith("screenshot.png")


def test_every_code_has_one() -> None:
    full = (Trouble("T", code, "m", artifacts="errors/T", location="tasks/t.task.yaml") for code in CATALOG)
    assert [each.code for each in full if not look(each, *ALL)] == []
    assert [code for code in CATALOG if not look(Trouble("T", code, "m"))] == []


def test_what_is_not_there_is_not_pointed_at() -> None:
    lost = Trouble("T 1", "ELEMENT_NOT_FOUND", "m", artifacts="errors/T")
    assert look(lost, "error_report.json") == "harness show 'T 1'"
    assert look(lost) == "harness explain ELEMENT_NOT_FOUND"
    assert look(Trouble("T", "", "m", nodeid="tasks/t.task.yaml::T")) == "tasks/t.task.yaml::T"


def test_of_several_tasks_the_first_that_has_it() -> None:
    several = [Trouble(task, "ELEMENT_HIDDEN", "m", artifacts=f"errors/{task}") for task in ("A", "B")]
    (cause,) = causes(several)
    assert first_look(cause, lambda path: "B" in path.parts) == "errors/B/screenshot.png"


def test_a_service_that_is_down_has_a_log_and_a_bad_file_is_to_be_mended() -> None:
    down = Trouble("T", "SERVICE_DOWN", "service `shop` ended", service="shop", artifacts="errors/T")
    assert look(down, *ALL) == "harness services logs shop"
    record = TaskRecord(task_id="T", key="T", final_state="failed", code="INVALID_INPUT", source="t/task_spec.json")
    assert look(of_record(record), *ALL) == "t/task_spec.json"
    in_the_trace = record.model_copy(update={"location": "t/oracle_trace.json:12"})
    assert look(of_record(in_the_trace), *ALL) == "t/oracle_trace.json:12", "where the step stands"
