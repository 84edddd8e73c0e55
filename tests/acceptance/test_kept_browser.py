"""`harness services start --persist`: a browser that waits for the next run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from harness.browser.chromium import kill_tree
from harness.cli.main import app
from tests.acceptance.conftest import Project
from tests.unit.services.conftest import eventually

BY_RUN = "started beforehand"


def says(*args: str) -> str:
    result = CliRunner().invoke(app, ["services", *args])
    assert result.exit_code in (0, 3), result.output
    return result.output


class Kept:
    """What is offered in a project."""

    def __init__(self, root: Path) -> None:
        self.file = root / ".harness" / "browser" / "ready.json"

    def offer(self) -> dict[str, Any]:
        assert eventually(self.file.exists), says("status")
        found: dict[str, Any] = json.loads(self.file.read_text())
        return found

    def kill_keeper(self) -> None:
        psutil.Process(json.loads((self.file.parent / "kept.json").read_text())["keeper"]["pid"]).kill()
        assert eventually(lambda: "browser: gone" in says("status"))


@pytest.fixture
def kept(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    monkeypatch.chdir(project.path)
    steps = [{"act": "open", "url": f"{scheme}://shop.local/"} for scheme in ("http", "https")]
    project.task("A-1", steps=steps)
    assert "browser: starting, kept by pid" in says("start", "--persist")
    yield Kept(project.path)
    says("stop")


def environment(project: Project, *args: str) -> str:
    project.run("--alluredir", "allure", *args).assert_outcomes(passed=1)
    lines = (project.path / "allure" / "environment.properties").read_text().splitlines()
    return next(line for line in lines if line.startswith("Browser="))


def test_a_run_takes_it_and_the_next_one_is_another(
    project: Project, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kept.offer()
    assert (kept.file.stat().st_mode & 0o777, kept.file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert "browser: ready, kept by pid" in says("status")
    assert f"{BY_RUN}, sandbox o" in environment(project)
    assert eventually(lambda: not psutil.pid_exists(first["server"]))
    second = kept.offer()
    assert not Path(first["traces"]).exists()
    assert not {first["url"], first["key"], first["mark"]} & {second["url"], second["key"], second["mark"]}
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert "not the browser kept by `harness services start --persist`: it differs in environment" in environment(
        project
    )
    assert kept.offer() == second
    family = [psutil.Process(second["server"]), *psutil.Process(second["server"]).children(recursive=True)]
    assert any(second["mark"] in process.cmdline() for process in family)
    assert "browser: stopped" in says("stop")
    assert not psutil.wait_procs(family, timeout=10)[1]
    assert not list(kept.file.parent.iterdir())
    assert "browser" not in says("status")


def test_one_that_is_asked_for_some_services_only_is_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.path)
    result = CliRunner().invoke(app, ["services", "start", "--persist", "--browser", "demo"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "a browser is kept for all services, not for some" in result.stderr


def test_one_that_is_gone_is_said_and_the_run_starts_its_own(project: Project, kept: Kept) -> None:
    offer = kept.offer()
    kept.kill_keeper()
    kill_tree(offer["server"])
    assert "not the browser kept by `harness services start --persist`: it has ended" in environment(project)


def test_what_a_killed_keeper_left_is_ended(kept: Kept) -> None:
    offer = kept.offer()
    server = psutil.Process(offer["server"])
    family = [server, *server.children(recursive=True)]
    temp = Path(json.loads((kept.file.parent / "kept.json").read_text())["temp"])
    assert temp.is_dir()
    kept.kill_keeper()
    says("stop")
    assert not psutil.wait_procs(family, timeout=10)[1]
    assert not temp.exists()
    assert not list(kept.file.parent.iterdir())
