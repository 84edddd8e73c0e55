"""What workers left that nobody heard of any more."""

from __future__ import annotations

import json
from pathlib import Path

from harness.model.diagnosis import error_report
from harness.model.report import Context
from harness.pytest_plugin.not_run import interrupted_by_manifest
from harness.recovery.failure import Failure
from tests.unit.reporting import sample


def left(folder: Path, key: str, code: str, run: str = "r1", *, expected: bool = False) -> None:
    plan = sample.plan()
    result = sample.failed(plan, Failure(code, "it broke"))
    report = result.error or error_report(plan, result, Context())
    (folder / key).mkdir(parents=True)
    (folder / key / "error_report.json").write_text(report.model_dump_json(), "utf-8")
    manifest = {"run": run, "code": code, "key": key, "expected": expected}
    (folder / key / "manifest.json").write_text(json.dumps(manifest), "utf-8")


def test_a_task_that_failed_when_nobody_listened_any_more_is_told_too(tmp_path: Path) -> None:
    """After Ctrl-C under -n, the task whose turn it was runs to its end, and its report reaches nobody."""
    left(tmp_path, "CUT", "INTERRUPTED")
    left(tmp_path, "UNHEARD", "ELEMENT_NOT_FOUND")
    left(tmp_path, "HEARD", "ELEMENT_NOT_FOUND")
    left(tmp_path, "EARLIER", "ELEMENT_NOT_FOUND", run="r0")
    left(tmp_path, "DECLARED", "ELEMENT_NOT_FOUND", expected=True)
    assert [record.key for record in interrupted_by_manifest(tmp_path, "r1", {"HEARD"})] == ["CUT", "UNHEARD"]
