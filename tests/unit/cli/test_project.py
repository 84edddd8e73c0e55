"""Which project a file belongs to."""

from __future__ import annotations

from pathlib import Path

from harness.cli.project import project_of, settings_at

SETTINGS = "[tool.harness]\nrecording = 'minimal'\n"


def test_the_nearest_one_with_settings(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(SETTINGS, "utf-8")
    inner = tmp_path / "a" / "tasks"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'a'\n", "utf-8")
    assert project_of(inner) == tmp_path
    assert settings_at(inner / "x.task.yaml").recording == "minimal"


def test_a_file_that_is_no_toml_counts(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[", "utf-8")
    assert project_of(tmp_path / "tasks" / "nowhere") == tmp_path


def test_outside_of_any_project(tmp_path: Path) -> None:
    assert project_of(tmp_path) is None
    assert settings_at(tmp_path).artifacts == tmp_path / "errors"
