"""From directories of evidence and task files to one document."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from harness.reporting.regrade import TaskFiles, regrade

REPORT = {
    "task_id": "T", "error_type": "assertion_failed", "timestamp": "2025-11-16T09:00:00Z", "step_index": 1,
    "code": "CRITERIA_UNMET",
}  # fmt: skip


def evidence(folder: Path, final_state: str, **grading: Any) -> Path:
    """What a run has left of T, whose memory held one entry."""
    folder.mkdir()
    ran = [{"text": "mem('a') == 0", "held": final_state == "completed"}, {"text": "mem('b') == 1", "held": True}]
    told = {"success_criteria": ran, "score": 1.0, **grading}
    manifest = {"task_id": "T", "final_state": final_state, "source": "t.task.json", "grading": told}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "memory_snapshot.json").write_text('{"a": {"key": "a", "value": 1}}')
    if final_state == "failed":
        (folder / "error_report.json").write_text(json.dumps(REPORT))
    return folder


def regraded(root: Path, *folders: Path, environ: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    (root / "t.task.json").write_text(json.dumps({"task_id": "T", **spec}))
    files = TaskFiles([root], None, lambda _file: ())
    return asyncio.run(regrade(folders, files, environ or {}, at_failure=False))


def test_each_task_is_judged_by_the_criteria_of_its_file(tmp_path: Path) -> None:
    folders = [evidence(tmp_path / state, state) for state in ("completed", "failed")]
    found = regraded(tmp_path, *folders, success_criteria=["mem('a') == 1"])
    assert [(task["before"], task["now"], task["score"]) for task in found["tasks"]] == [
        ("pass", "pass", None),
        ("fail", "pass", None),
    ]
    assert found["tasks"][0]["gone"] == ["mem('a') == 0", "mem('b') == 1"]
    assert found["tasks"][0]["criteria"][0] | {"why": ""} == {
        "text": "mem('a') == 1", "relaxed": False, "new": True, "before": None, "now": "held",
        "part": "mem('a') == 1", "why": "", "expected": 1, "actual": 1,
    }  # fmt: skip
    assert found["counts"] == {
        "tasks": 2, "pass": 2, "fail": 0, "undecided": 0, "newly_failing": 0, "newly_passing": 1, "left_out": 0,
    }  # fmt: skip
    failing = regraded(tmp_path, *folders, success_criteria=["mem('b') == 1"])
    assert [each["before"] for task in failing["tasks"] for each in task["criteria"]] == ["held", "held"]
    assert (failing["counts"]["fail"], failing["counts"]["newly_failing"]) == (2, 1)


def test_a_task_that_failed_by_its_criteria_has_waited_for_them_and_one_that_passed_has_not(tmp_path: Path) -> None:
    folders = [evidence(tmp_path / state, state) for state in ("completed", "failed")]
    found = regraded(tmp_path, *folders, success_criteria=["mem('a') == 2"], expect_timeout=5)
    assert [task["now"] for task in found["tasks"]] == ["undecided", "fail"]
    assert "one moment" in found["tasks"][0]["why"]


def test_relaxed_criteria_and_the_score_are_judged_too(tmp_path: Path) -> None:
    relaxed = {"enabled": True, "relaxed_success_criteria": ["mem('a') == 1"]}
    parts = [{"id": "p", "assertion": "mem('a') == 2"}, {"id": "q", "assertion": "mem('a') == 1"}]
    spec = {"success_criteria": ["mem('a') == 2"], "scoring_checkpoints": parts}
    folder = evidence(tmp_path / "failed", "failed")
    (task,) = regraded(tmp_path, folder, fallback_plan=relaxed, **spec)["tasks"]
    assert (task["now"], [each["relaxed"] for each in task["criteria"]]) == ("pass", [False, True])
    assert task["score"] == {"before": 1.0, "now": 0.5, "parts": {"p": "unmet", "q": "held"}, "why": ""}
    (task,) = regraded(tmp_path, folder, fallback_plan={**relaxed, "enabled": False}, **spec)["tasks"]
    assert task["now"] == "fail"


def test_what_success_weighs_is_not_known_of_a_task_that_declares_an_outcome(tmp_path: Path) -> None:
    attempts = {"planned": 1, "made": 1, "passed": 1}
    folder = evidence(tmp_path / "completed", "completed", attempts=attempts)
    spec = {"success_criteria": ["mem('a') == 1"], "rubrics": {"SR": 1.0}}
    assert regraded(tmp_path, folder, **spec)["tasks"][0]["score"]["now"] == 1.0
    declared = regraded(tmp_path, folder, **spec, expect={"final_state": "completed"})
    assert declared["tasks"][0]["score"]["now"] is None


def test_secrets_of_the_file_are_not_told(tmp_path: Path) -> None:
    folder, environ = evidence(tmp_path / "completed", "completed"), {"PIN": "hush-hush"}
    found = regraded(tmp_path, folder, environ=environ, success_criteria=["mem('a') == '${env:PIN}'"])
    assert found["tasks"][0]["now"] == "fail"
    assert "hush-hush" not in json.dumps(found)


def test_what_cannot_be_judged_is_left_out_with_the_reason(tmp_path: Path) -> None:
    folder = evidence(tmp_path / "completed", "completed")
    found = regraded(tmp_path, folder, tmp_path / "none", inputs={"x": "${env:NO_SUCH_NAME}"}, success_criteria=[])
    assert [each["folder"] for each in found["left_out"]] == [str(folder), str(tmp_path / "none")]
    assert "NO_SUCH_NAME" in found["left_out"][0]["why"]
    assert found["left_out"][1]["why"] == "manifest.json was not found"
    assert found["counts"]["left_out"] == 2
