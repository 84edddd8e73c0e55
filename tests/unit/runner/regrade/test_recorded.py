"""Directories of evidence: ours, of older versions, half-written; and what is kept of tasks that pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.model.outcome import reached
from harness.model.ports import Evidence, Snapshot
from harness.reporting.passing import EVIDENCE, PassedEvidence
from harness.reporting.redaction import MARK, Redactor
from harness.runner.regrade.page import RecordedPage
from harness.runner.regrade.recorded import LARGEST, UnusableEvidenceError, document, evidence_folders, recorded
from harness.runner.regrade.regrading import NamedTasks, OwnTasks
from tests.unit.reporting import sample

PAGE = {
    "version": 1, "url": "http://shop.local/done?pin=hush-hush", "title": "Done", "quirks": False, "shadows": 0,
    "whole": True, "nodes": [
        [-1, "html", {}, {}],
        [0, "input", {"type": "password", "value": "x"}, {"value": "typed"}],
        [0, "input", {"name": "csrf_token", "value": "y"}, {"value": "y"}],
        [0, "input", {"name": "shipping", "value": "fast"}, {"value": "slow hush-hush"}],
        [0, "p", {"title": "hush-hush"}, {}],
        [4, "hush-hush"],
    ],
}  # fmt: skip


def kept(root: Path, run: str = "20251116T090000-1", runs: int = 2, page: Any = PAGE, **spec: Any) -> Path:
    criteria = ("mem('a') == 1", "url() != ''")
    made = sample.plan(spec={"success_criteria": criteria, **spec}, secrets=("hush-hush",))
    scratch = root / "scratch"
    scratch.mkdir(exist_ok=True)
    (scratch / "dom_snapshot.html").write_text("<p>hush-hush</p><script>alert(1)</script>")
    evidence = Evidence(scratch, url="http://shop.local/done", extra={"page": page})
    state = Snapshot({"a": {"key": "a", "value": 1}, "pin": {"key": "pin", "value": "hush-hush"}}, {"env": {}})
    daemon = PassedEvidence(root, run, Redactor(), runs, reached)
    return daemon.keep(made, sample.completed(made), evidence, state)


def test_what_is_kept_of_a_task_that_passed_can_be_judged(tmp_path: Path) -> None:
    folder = kept(tmp_path)
    assert folder == tmp_path / EVIDENCE / "20251116T090000-1" / "B1-2025-001"
    assert not (tmp_path / EVIDENCE / ".tmp").exists()
    assert not any("hush-hush" in path.read_text() for path in folder.iterdir())
    assert "<script" not in (folder / "dom_snapshot.html").read_text()
    found = recorded(folder)
    assert (found.before, found.ended, found.ran) == (True, "", {"mem('a') == 1": True, "url() != ''": True})
    assert found.attempts == {"planned": 6, "made": 6, "passed": 6}
    assert found.sources.entries == {"a": 1, "pin": MARK}
    assert found.sources.at is not None
    page = found.sources.recorded_page
    assert isinstance(page, RecordedPage)
    assert [element.facts.get("value") for element in page.elements[1:4]] == [MARK, MARK, f"slow {MARK}"]
    assert [element.attributes.get("value") for element in page.elements[1:4]] == [MARK, MARK, "fast"]


@pytest.mark.parametrize(
    ("declared", "before"),
    [({"final_state": "failed", "code": "STEP_TIMEOUT"}, False), ({"final_state": "completed"}, True)],
)
def test_one_that_ended_well_though_its_file_declares_a_failure_had_not_passed(
    tmp_path: Path, declared: dict[str, str], before: bool
) -> None:
    assert recorded(kept(tmp_path, expect=declared)).before is before


def test_only_the_newest_runs_are_kept_and_a_rerun_takes_the_place_of_the_first(tmp_path: Path) -> None:
    for number in (1, 2, 3, 3):
        kept(tmp_path, f"20251116T09000{number}-1")
    runs = sorted(path.name for path in (tmp_path / EVIDENCE).iterdir())
    assert runs == ["20251116T090002-1", "20251116T090003-1"]


def test_a_page_that_was_not_recorded_says_why(tmp_path: Path) -> None:
    assert recorded(kept(tmp_path, page="the page does not answer")).sources.recorded_page == "the page does not answer"


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 3, "nodes": []}', "1" * 10_000])
def test_a_broken_page_is_no_reason_to_leave_the_rest_out(tmp_path: Path, content: str) -> None:
    folder = kept(tmp_path)
    (folder / "page_state.json").write_text(content)
    found = recorded(folder).sources
    assert isinstance(found.recorded_page, str)
    assert "page_state.json" in found.recorded_page
    assert found.entries == {"a": 1, "pin": MARK}


def test_evidence_of_an_older_version_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    manifest = {
        "task_id": "T", "final_state": "failed", "code": "CRITERIA_UNMET",
        "artifacts": [{"name": "env_snapshot.json", "status": "skipped", "reason": "strategy"}],
    }  # fmt: skip
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "error_report.json").write_text('{"code": "CRITERIA_UNMET", "context": {"url": "http://x/"}}')
    found = recorded(tmp_path)
    assert (found.ran, found.ended, found.attempts, found.score) == (None, "", None, None)
    assert found.sources.url == "http://x/"
    assert found.sources.recorded_page == "the evidence is of an older version"
    assert found.sources.channels == "env_snapshot.json is not there (strategy)"


@pytest.mark.parametrize(
    ("report", "ended"),
    [
        ({"step_index": 2, "code": "STEP_TIMEOUT"}, "in step 2 (STEP_TIMEOUT)"),
        ({"step_index": -1, "code": "PRECONDITION_NOT_MET"}, "before its first step (PRECONDITION_NOT_MET)"),
        ({"step_index": 3, "code": "X", "metrics": {"steps_total": 3}}, "after its last step (X)"),
        ({"step_index": 3, "code": "CRITERIA_UNMET", "metrics": {"steps_total": 3}}, ""),
    ],
)
def test_where_it_ended(tmp_path: Path, report: dict[str, Any], ended: str) -> None:
    (tmp_path / "manifest.json").write_text('{"task_id": "T", "final_state": "failed"}')
    (tmp_path / "error_report.json").write_text(json.dumps(report))
    assert recorded(tmp_path).ended == ended


def test_documents_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for content, why in {"[" * 200 + "]" * 200: "100 deep", "[" * 10**6: "deeply", "7" * 9999: "long"}.items():
        path.write_text(content)
        with pytest.raises(UnusableEvidenceError, match=why):
            document(path)
    with path.open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(UnusableEvidenceError, match="larger than 32 MiB"):
        document(path)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    with pytest.raises(UnusableEvidenceError, match="is not there"):
        document(link)


def test_folders_are_found_at_any_depth_and_links_are_not_followed(tmp_path: Path) -> None:
    for name in ("errors/A", "merged/one/errors/B", "errors/.previous/run/C", "errors/A/files/deep"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "manifest.json").write_text("{}")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.txt").write_text("")
    found = [str(path.relative_to(tmp_path)) for path in evidence_folders(tmp_path)]
    assert sorted(found) == ["errors/A", "merged/one/errors/B", "notes"]
    assert list(evidence_folders(tmp_path / "errors/.previous/run")) == [tmp_path / "errors/.previous/run/C"]


def test_task_files_are_only_looked_for_where_they_may_be(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    outside = tmp_path / "t.task.json"
    outside.write_text('{"task_id": "B1-2025-001", "steps": [{"act": "open", "url": "http://x/"}]}')
    manifest = json.loads((kept(tmp_path) / "manifest.json").read_text())
    for source, why in {
        "../t.task.json": "is not there",
        str(outside): "is not there",
        "": "does not say",
        "a\0b": "is not there",
    }.items():
        folder = tmp_path / "evidence"
        folder.mkdir(exist_ok=True)
        (folder / "manifest.json").write_text(json.dumps({**manifest, "source": source}))
        with pytest.raises(UnusableEvidenceError, match=why):
            OwnTasks([tmp_path / "project"]).of(recorded(folder))
    found = OwnTasks([tmp_path]).of(recorded(_naming(tmp_path, manifest, "t.task.json")))
    assert found.spec.task_id == "B1-2025-001"
    assert NamedTasks([outside]).of(recorded(kept(tmp_path))).spec.task_id == "B1-2025-001"


def _naming(root: Path, manifest: dict[str, Any], source: str) -> Path:
    (root / "evidence/manifest.json").write_text(json.dumps({**manifest, "source": source}))
    return root / "evidence"
