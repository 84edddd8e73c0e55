"""The results as Allure is given them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.reporting.allure.results import flaky_tests, read_results, stage, trace_files
from harness.reporting.files import TRACE_MIME as TRACE
from tests.unit.reporting.test_allure_results import result


def staged(folder: Path) -> dict[str, Any]:
    """Name of the file -> its document, of what Allure is given."""
    target = folder.parent / "staged"
    target.mkdir()
    found = read_results(folder)
    stage(found, target, trace_files(found))
    return {path.name: json.loads(path.read_text()) for path in target.glob("*.json")}


def test_a_test_that_passed_when_it_was_run_again_is_flaky(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    result(folder, "a1", 1, historyId="h", status="broken")
    result(folder, "a2", 2, historyId="h")
    result(folder, "b1", 1, historyId="i")
    result(folder, "b2", 2, historyId="i", status="failed")
    result(folder, "c", 1, historyId=None, status="failed")
    assert flaky_tests(read_results(folder)) == {"a2-result.json"}
    documents = staged(folder)
    assert documents["a2-result.json"]["statusDetails"] == {"flaky": True}
    assert "statusDetails" not in documents["b2-result.json"]


def test_another_run_makes_no_test_flaky(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    for second, status in enumerate(("failed", "passed")):
        labels = [{"name": "run", "value": f"20260501T12000{second}-7"}]
        result(folder, status, second, historyId="h", status=status, labels=labels)
    found = read_results(folder, all_runs=True)
    assert len(found.tests) == 2
    assert flaky_tests(found) == set()
    assert staged(folder)["passed-result.json"]["labels"] == []


def test_expected_and_actual_stand_beside_the_failure(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    attached = [{"name": name, "source": f"{name}-attachment.txt"} for name in ("expected", "actual")]
    step = {"name": "criterion", "status": "failed", "attachments": attached}
    result(folder, "a", status="failed", steps=[step], statusDetails={"message": "no"})
    result(folder, "b", status="passed", steps=[step])
    (folder / "expected-attachment.txt").write_text("approved")
    (folder / "actual-attachment.txt").write_text("processing")
    documents = staged(folder)
    assert documents["a-result.json"]["statusDetails"] == {
        "message": "no", "expected": "approved", "actual": "processing",
    }  # fmt: skip
    assert "statusDetails" not in documents["b-result.json"]


def test_a_value_too_large_to_compare_stays_in_its_attachment(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    attached = [{"name": name, "source": f"{name}-attachment.txt"} for name in ("expected", "actual")]
    result(folder, "a", status="failed", attachments=attached)
    for each in attached:
        (folder / each["source"]).write_text("x" * 100_001)
    assert "statusDetails" not in staged(folder)["a-result.json"]


def test_a_trace_has_a_link_that_opens_it_before_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    attached = [{"name": "t", "type": TRACE, "source": "t-attachment.zip"}]
    result(folder, "a", attachments=attached, links=[{"url": "https://x.test/"}])
    (folder / "t-attachment.zip").write_bytes(b"PK")
    links = staged(folder)["a-result.json"]["links"]
    address = "http://report.invalid/trace-viewer/index.html?trace=../traces/t-attachment.zip"
    assert links == [{"type": "link", "name": "Open trace", "url": address}, {"url": "https://x.test/"}]
