"""`harness chaos`: what is refused before a trial is made, and what is told when all are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli import chaos as command
from harness.cli.chaos import given
from harness.cli.main import app
from harness.spec.problems import SpecError
from tests.unit.spec.files import HEAD, write

SETTINGS = """
[tool.harness.services.demo]
command = ["x"]
hosts = {"shop.local" = 1}
health = "http://shop.local/health"
"""
REFUSE = "faults:\n  - {kind: refuse, host: %s, connections: 1}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text(SETTINGS, "utf-8")
    write(tmp_path, HEAD)
    write(tmp_path, REFUSE % "shop.local", "p.faults.yaml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def chaos(*args: str) -> Any:
    return CliRunner().invoke(app, ["chaos", ".", "--faults", "p.faults.yaml", *args])


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--json", "gone/c.json"), "gone/c.json: there is no folder gone"),
        (("--markdown", "gone/c.md"), "gone/c.md: there is no folder gone"),
        (("--json", "."), ".: it cannot be written: Is a directory"),
        (("--json", "p.faults.yaml/c.json"), "there is no folder p.faults.yaml"),
        (("--markdown", "/proc/version"), "/proc/version: it cannot be written: "),
        (("--seed", "-5"), "Invalid value for '--seed'"),
    ],
)
@pytest.mark.usefixtures("project")
def test_what_cannot_be_written_is_refused_before_the_first_trial(
    args: tuple[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "make_trials", lambda *_: pytest.fail("trials were made"))
    done = chaos(*args)
    assert done.exit_code == 2
    assert said in done.stderr
    assert not Path("gone").exists()


def test_a_plan_that_does_not_fit_the_project(project: Path) -> None:
    write(project, REFUSE % "nosuch.example", "p.faults.yaml")
    with pytest.raises(SpecError, match="no service of"):
        given([project], project / "p.faults.yaml")


def test_two_campaigns_of_which_one_ends_services(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, "faults:\n  - {kind: service_killed, service: demo}\n", "p.faults.yaml")
    inner: list[Any] = []

    def run(*_: object) -> bool:
        if not inner:
            inner.append(chaos())
        return True

    monkeypatch.setattr(command, "make_trials", run)
    assert chaos("--json", "c.json").exit_code == command.INTERRUPTED
    assert inner[0].exit_code == 2
    assert "another campaign runs in this project (pid " in inner[0].stderr


def test_the_table_comes_before_the_file_that_cannot_be_written(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> bool:
        (project / "c.json").mkdir()
        return True

    monkeypatch.setattr(command, "make_trials", run)
    done = chaos("--json", "c.json")
    assert isinstance(done.exception, IsADirectoryError)
    assert "interrupted after 0 of 2 trials" in done.stdout
