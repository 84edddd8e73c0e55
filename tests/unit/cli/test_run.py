"""When `harness run` adds the default folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.run import names_tasks


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.task.yaml").write_text("task_id: A\n", "utf-8")
    (tmp_path / "results").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["flows"],
        ["nowhere", "-x"],
        ["--headed", "flows/"],
        ["-x", "--alluredir", "results", "flows/a.task.yaml"],
        ["--headed", "flows/a.task.yaml::A"],
    ],
)
def test_what_to_run_is_said(project: Path, arguments: list[str]) -> None:
    assert names_tasks(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-k", "flows"],
        ["--alluredir", "results"],
        ["--rootdir", "."],
        ["--headed", "-n", "2"],
        ["-m", "shop", "-x"],
    ],
)
def test_what_to_run_is_not_said(project: Path, arguments: list[str]) -> None:
    assert not names_tasks(arguments)
