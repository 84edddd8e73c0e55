"""Directories of evidence: ours, of older versions, half-written; and what is kept of tasks that pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.model.ports import Evidence, Snapshot
from harness.reporting.archive import EVIDENCE, PassedEvidence
from harness.reporting.redaction import MARK, Redactor
from harness.reporting.regrade import TaskFiles, evidence_folders
from harness.reporting.regrade.recorded import LARGEST, RecordedPage, UnusableEvidenceError, document, recorded
from harness.spec.problems import SpecError
from tests.unit.reporting import sample


def element(selector: str, holds: str | None, **attributes: str) -> dict[str, Any]:
    """What the browser tells of a field."""
    found = {"count": 1, "visible": True, "text": holds, "text_content": holds, "value": holds, "field": True}
    return {"selector": selector, "frame": None, **found, "attributes": attributes}


PAGE = {
    "version": 3,
    "url": "http://shop.local/done?pin=hush-hush",
    "title": "Done",
    "elements": [
        element("input", "typed", type="password", value="x"),
        element("form input", "y", name="csrf_token", value="y"),
        element("#userPin", "1234"),
        element("#way", "slow hush-hush", name="shipping", value="fast"),
        {**element("#pin-help", "four digits"), "field": False},
        element("#none", None),
    ],
}


def kept(root: Path, run: str = "20251116T090000-1", runs: int = 2, page: Any = PAGE, **spec: Any) -> Path:
    criteria = ("mem('a') == 1", "url() != ''")
    made = sample.plan(spec={"success_criteria": criteria, **spec}, secrets=("hush-hush",))
    scratch = root / "scratch"
    scratch.mkdir(exist_ok=True)
    (scratch / "dom_snapshot.html").write_text("<p>hush-hush</p><script>alert(1)</script>")
    evidence = Evidence(scratch, url="http://shop.local/done", page=page)
    state = Snapshot({"a": {"key": "a", "value": 1}, "pin": {"key": "pin", "value": "hush-hush"}}, {"env": {}})
    return PassedEvidence(root, run, Redactor(), runs).keep(made, sample.completed(made), evidence, state)


def test_what_is_kept_of_a_task_that_passed_can_be_judged(tmp_path: Path) -> None:
    folder = kept(tmp_path)
    assert folder == tmp_path / EVIDENCE / "20251116T090000-1" / "B1-2025-001"
    assert not (tmp_path / EVIDENCE / ".tmp").exists()
    assert not any("hush-hush" in path.read_text() for path in folder.iterdir())
    assert "<script" not in (folder / "dom_snapshot.html").read_text()
    found = recorded(folder)
    assert (found.passed_before, found.ended, found.ran) == (True, "", {"mem('a') == 1": True, "url() != ''": True})
    assert found.manifest.grading.attempts == {"planned": 6, "made": 6, "passed": 6}
    assert found.sources.entries == {"a": 1, "pin": MARK}
    assert found.sources.at is not None
    page = found.sources.recorded_page
    assert isinstance(page, RecordedPage)
    assert [each.value for each in page.elements] == [MARK, MARK, MARK, f"slow {MARK}", "four digits", None]
    assert [each.text for each in page.elements] == [each.value for each in page.elements]
    assert [each.text_content for each in page.elements] == [each.value for each in page.elements]
    assert [each.attributes.get("value") for each in page.elements] == [MARK, MARK, None, "fast", None, None]


@pytest.mark.parametrize(
    ("declared", "before"),
    [({"final_state": "failed", "code": "STEP_TIMEOUT"}, False), ({"final_state": "completed"}, True)],
)
def test_one_that_ended_well_though_its_file_declares_a_failure_had_not_passed(
    tmp_path: Path, declared: dict[str, str], before: bool
) -> None:
    assert recorded(kept(tmp_path, expect=declared)).passed_before is before


def test_only_the_newest_runs_are_kept_and_a_rerun_takes_the_place_of_the_first(tmp_path: Path) -> None:
    for number in (1, 2, 3, 3):
        kept(tmp_path, f"20251116T09000{number}-1")
    runs = sorted(path.name for path in (tmp_path / EVIDENCE).iterdir())
    assert runs == ["20251116T090002-1", "20251116T090003-1"]


def test_a_page_that_was_not_recorded_says_why(tmp_path: Path) -> None:
    assert recorded(kept(tmp_path, page="the page does not answer")).sources.recorded_page == "the page does not answer"


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 1, "url": "", "title": "", "elements": []}', "1" * 10_000])
def test_a_broken_page_is_no_reason_to_leave_the_rest_out(tmp_path: Path, content: str) -> None:
    folder = kept(tmp_path)
    (folder / "page_state.json").write_text(content)
    found = recorded(folder).sources
    assert isinstance(found.recorded_page, str)
    assert "page_state.json is not as this version writes it" in found.recorded_page
    assert found.entries == {"a": 1, "pin": MARK}


def failed(folder: Path, **report: Any) -> Path:
    """A directory of a failed task, of a version that kept no page."""
    artifacts = [{"name": "env_snapshot.json", "status": "skipped", "reason": "strategy"}]
    manifest = {"task_id": "T", "final_state": "failed", "artifacts": artifacts}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    whole = {"task_id": "T", "error_type": "assertion_failed", "timestamp": "2025-11-16T09:00:00Z", "step_index": 1}
    (folder / "error_report.json").write_text(json.dumps({**whole, **report}))
    return folder


def test_evidence_of_an_older_version_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    found = recorded(failed(tmp_path, code="CRITERIA_UNMET", context={"url": "http://x/"}))
    assert (found.ran, found.ended, found.manifest.grading.attempts, found.manifest.grading.score) == (
        None,
        "",
        None,
        None,
    )
    assert found.sources.url == "http://x/"
    assert found.sources.recorded_page == "the evidence is from an older version"
    assert found.sources.channels == "env_snapshot.json was not found (strategy)"


def test_a_number_that_was_redacted_is_not_known(tmp_path: Path) -> None:
    folder = kept(tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["grading"] |= {"attempts": {"planned": 6, "made": MARK, "passed": 6}, "score": MARK}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    told = recorded(folder).manifest.grading
    assert (told.attempts, told.score) == (None, None)


METRICS = {"steps_completed": 3, "steps_total": 3, "time_elapsed_seconds": 1.0, "retries_count": 0}


@pytest.mark.parametrize(
    ("report", "ended"),
    [
        ({"step_index": 2, "code": "STEP_TIMEOUT"}, "in step 2 (STEP_TIMEOUT)"),
        ({"step_index": -1, "code": "PRECONDITION_NOT_MET"}, "before its first step (PRECONDITION_NOT_MET)"),
        ({"step_index": 3, "code": "X", "metrics": METRICS}, "after its last step (X)"),
        ({"step_index": 3, "code": "CRITERIA_UNMET", "metrics": METRICS}, ""),
    ],
)
def test_where_it_ended(tmp_path: Path, report: dict[str, Any], ended: str) -> None:
    assert recorded(failed(tmp_path, **report)).ended == ended


def test_documents_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for content in ("[" * 300 + "]" * 300, "[" * 10**6, "7" * 9999, "{", "\xff"):
        path.write_text(content, "latin-1")
        with pytest.raises(UnusableEvidenceError, match="is not as this version writes it: Invalid JSON"):
            document(path, dict[str, Any])
    with path.open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(UnusableEvidenceError, match="larger than 32 MiB"):
        document(path, dict[str, Any])
    link = tmp_path / "link.json"
    link.symlink_to(path)
    with pytest.raises(UnusableEvidenceError, match="was not found"):
        document(link, dict[str, Any])


def test_folders_are_found_at_any_depth_and_links_are_not_followed(tmp_path: Path) -> None:
    for name in ("errors/A", "merged/one/errors/B", "errors/.previous/run/C", "errors/A/files/deep"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "manifest.json").write_text("{}")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "reportless").mkdir()
    (tmp_path / "reportless/error_report.json").write_text("{}")
    found = [str(path.relative_to(tmp_path)) for path in evidence_folders(tmp_path)]
    assert sorted(found) == ["errors/A", "merged/one/errors/B", "reportless"]
    assert list(evidence_folders(tmp_path / "errors/.previous/run")) == [tmp_path / "errors/.previous/run/C"]


def test_task_files_are_only_looked_for_where_they_may_be(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    outside = tmp_path / "t.task.json"
    outside.write_text('{"task_id": "B1-2025-001", "steps": [{"act": "open", "url": "http://x/"}]}')
    manifest = json.loads((kept(tmp_path) / "manifest.json").read_text())
    for source in ("../t.task.json", str(outside), "", "a\0b", "x" * 5000):
        with pytest.raises(UnusableEvidenceError, match="was not found; name it with --spec"):
            files(tmp_path / "project").of(recorded(naming(tmp_path, manifest, source)))
    here = recorded(naming(tmp_path, manifest, "t.task.json"))
    assert files(tmp_path).of(here).task_id == "B1-2025-001"
    assert files(tmp_path, [outside]).of(recorded(kept(tmp_path))).task_id == "B1-2025-001"
    outside.write_text('{"task_id": "OTHER"}')
    with pytest.raises(UnusableEvidenceError, match=r"its file t\.task\.json does not have this task any more"):
        files(tmp_path).of(here)
    with pytest.raises(UnusableEvidenceError, match="no file of --spec has its task_id"):
        files(tmp_path, [outside]).of(here)
    outside.write_text('{"task_id": 7}')
    with pytest.raises(UnusableEvidenceError, match="its file has errors"):
        files(tmp_path).of(here)
    with pytest.raises(SpecError):
        files(tmp_path, [outside])


def files(root: Path, named: list[Path] | None = None) -> TaskFiles:
    return TaskFiles([root], named, lambda _file: ())


def naming(root: Path, manifest: dict[str, Any], source: str) -> Path:
    (root / "evidence").mkdir(exist_ok=True)
    (root / "evidence/manifest.json").write_text(json.dumps({**manifest, "source": source}))
    return root / "evidence"
