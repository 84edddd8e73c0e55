"""docs/history.md: each command and each statement in it is run."""

from __future__ import annotations

import re
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli.main import app
from harness.model.settings import Settings, load_settings
from harness.reporting.history.file import HISTORY
from harness.reporting.history.writing import save_run
from tests.unit.reporting.history.runs import execution, executions, failed, run, several

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "history.md").read_text("utf-8")
COMMANDS = sorted(set(re.findall(r"(?:`|^\$ )(harness (?:history|merge)[^`\n]*)", TEXT, re.MULTILINE)))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for each in several(8):
        save_run(folder, each)
    save_run(folder, run("20251120T090000-1", [execution(failed("B1-2025-001", "STEP_TIMEOUT"))]))
    for number in (1, 2):
        save_run(folder / f"shard-{number}", run(f"20251116T09000{number}-1", executions()))
    return folder


def test_it_names_all_commands() -> None:
    assert {" ".join(each.split()[:3]) for each in COMMANDS} >= {
        f"harness history {name}" for name in ("show", "compare", "task", "flaky", "prune")
    }
    assert len(COMMANDS) >= 10


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_works(project: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(project)
    arguments = shlex.split(command)[1:]
    if "merged" in arguments and "merge" not in arguments:
        assert CliRunner().invoke(app, ["merge", "shard-1", "shard-2"]).exit_code == 0
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout


def test_its_statement_and_its_settings(project: Path, tmp_path: Path) -> None:
    (statement,) = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)
    with closing(sqlite3.connect(project / HISTORY)) as database:
        assert [row[1] for row in database.execute(statement)] == ["STEP_TIMEOUT"]
    (settings,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(settings, "utf-8")
    assert load_settings(tmp_path).history_runs == Settings().history_runs == 200
