"""A task that dies with its xdist worker is in the Allure report, as the same test as in other runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Project

CONFTEST = """
import os


def pytest_runtest_call(item):
    if item.name == "LOST" and "DIE" in os.environ:
        os._exit(1)
"""


def result_of(folder: Path) -> dict[str, Any]:
    (file,) = folder.glob("*-result.json")
    document: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return document


@pytest.mark.thorough
def test_it_has_a_result_with_its_history(project: Project, monkeypatch: Any) -> None:
    project.task("LOST", family="B", owner="checkout team")
    (project.path / "conftest.py").write_text(CONFTEST)
    usual = project.run("--alluredir=usual")
    usual.assert_outcomes(passed=1)
    monkeypatch.setenv("DIE", "1")
    project.run("-n", "1", "--alluredir=lost")
    before, lost = result_of(project.path / "usual"), result_of(project.path / "lost")
    assert (lost["status"], lost["statusDetails"]["message"].splitlines()[0]) == (
        "broken", "LOST aborted: WORKER_CRASHED at an unknown step",
    )  # fmt: skip
    for key in ("historyId", "testCaseId", "fullName", "titlePath", "name", "description"):
        assert lost[key] == before[key]
    labels = [{(label["name"], label["value"]) for label in each["labels"]} for each in (before, lost)]
    own = {pair for pair in labels[0] if pair[0] not in ("host", "thread", "language", "package", "run")}
    assert own <= labels[1]
    assert ("code", "WORKER_CRASHED") in labels[1]
    assert {attachment["name"] for attachment in lost["attachments"]} >= {"error report", "manifest"}
    assert "metrics" not in project.report("LOST")
    manifest = json.loads((project.path / "errors" / "LOST" / "manifest.json").read_text("utf-8"))
    why = {each["name"]: each["reason"] for each in manifest["artifacts"] if each["status"] == "missed"}
    assert (len(why), set(why.values())) == (5, {"its process died"})
