"""A failure's directory is complete, or it is said what is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.reporting.files import NAMES
from harness.runner.campaign.trials import missing_artifacts

REPORT = {"task_id": "T", "error_type": "unknown", "timestamp": "2026-01-01T00:00:00Z", "step_index": 0}


def kept(folder: Path, **changed: dict[str, Any]) -> Path:
    entries = [{"name": name, "status": "taken", **changed.get(name.partition(".")[0], {})} for name in NAMES]
    for name in NAMES:
        (folder / name).write_text(json.dumps(REPORT), "utf-8")
    (folder / "manifest.json").write_text(json.dumps({"artifacts": entries}), "utf-8")
    return folder


def test_all_is_there(tmp_path: Path) -> None:
    why = {"status": "skipped", "reason": "`capture: none`"}
    assert missing_artifacts(kept(tmp_path, screenshot=why)) == ()


def test_no_directory() -> None:
    assert missing_artifacts(None) == ("no directory was written",)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"artifacts": [1]}'])
def test_a_manifest_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    kept(tmp_path)
    (tmp_path / "manifest.json").write_text(text, "utf-8")
    (said,) = missing_artifacts(tmp_path)
    assert said.startswith("manifest.json: ")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    kept(tmp_path, screenshot={"status": "missed"})
    (tmp_path / "trace.zip").unlink()
    (tmp_path / "error_report.json").write_text('{"task_id": 3}', "utf-8")
    assert missing_artifacts(tmp_path) == (
        "screenshot.png: missed, without a reason",
        "trace.zip: the manifest says that it was taken, but it is missing",
        "error_report.json: 4 values that its schema refuses",
    )
