"""Where a task's file can be read on the web."""

from __future__ import annotations

from pathlib import Path

from harness.reporting.allure.categories import source_url


def test_github(tmp_path: Path) -> None:
    environ = {"GITHUB_SERVER_URL": "https://g.test", "GITHUB_REPOSITORY": "a/b", "GITHUB_SHA": "c0"}
    environ["GITHUB_WORKSPACE"] = str(tmp_path)
    assert source_url(tmp_path / "tasks/a b.task.yaml", environ) == "https://g.test/a/b/blob/c0/tasks/a%20b.task.yaml"
    assert source_url(tmp_path.parent / "else.task.yaml", environ) is None


def test_gitlab(tmp_path: Path) -> None:
    environ = {"CI_PROJECT_URL": "https://l.test/a/b", "CI_COMMIT_SHA": "c0", "CI_PROJECT_DIR": str(tmp_path)}
    assert source_url(tmp_path / "t.task.yaml", environ) == "https://l.test/a/b/-/blob/c0/t.task.yaml"


def test_elsewhere(tmp_path: Path) -> None:
    assert source_url(tmp_path / "t.task.yaml", {}) is None
    assert source_url(tmp_path / "t.task.yaml", {"GITHUB_SHA": "c0", "CI_COMMIT_SHA": ""}) is None
