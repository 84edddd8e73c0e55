"""`harness fmt`: what it writes, says and leaves alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.cli.main import app

LONG = "goal: g\nsteps:\n- {act: open, url: /}   # home\n- act: click\n  selector: '#a'\n"
SHORT = "goal: g\nsteps:\n  - open: /   # home\n  - click: '#a'\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    login = '[tool.harness.logins.ann]\ntask = "login.yaml"\ncheck_url = "/"\nholds = "exists(\'#out\')"\n'
    (tmp_path / "pyproject.toml").write_text(login)
    return tmp_path


def fmt(*args: str) -> Result:
    return CliRunner().invoke(app, ["fmt", *args])


def test_files_are_written_in_place_and_what_changed_is_said(project: Path) -> None:
    real = project / "shared" / "real.yaml"
    real.parent.mkdir()
    real.write_bytes(LONG.replace("\n", "\r\n").encode())
    real.chmod(0o640)
    (project / "a.task.yaml").symlink_to(real)
    (project / "b.steps.yaml").write_text("steps:\n- act: press\n  value: Enter\n")
    (project / "login.yaml").write_text(LONG)
    (project / "c.task.yaml").write_text(SHORT)
    (project / "d.task.json").write_text(json.dumps({"goal": "g", "steps": [{"act": "open", "url": "/"}]}))
    changed = ["a.task.yaml", "b.steps.yaml", "login.yaml"]
    told = fmt("--check")
    assert told.exit_code == 1
    assert told.stdout.splitlines()[:-1] == [f"would reformat {each}" for each in changed]
    assert real.read_text() == LONG
    told = fmt("--diff", "login.yaml")
    assert (told.exit_code, (project / "login.yaml").read_text()) == (0, LONG)
    assert "-- act: click\n" in told.stdout
    assert "+  - click: '#a'\n" in told.stdout
    told = fmt()
    assert told.exit_code == 0
    assert told.stdout.splitlines() == [
        *(f"reformatted {each}" for each in changed),
        "3 files reformatted, 2 files left unchanged",
    ]
    assert real.read_bytes() == SHORT.replace("\n", "\r\n").encode()
    assert (real.stat().st_mode & 0o777, (project / "a.task.yaml").is_symlink()) == (0o640, True)
    assert (project / "b.steps.yaml").read_text() == "steps:\n  - press: Enter\n"
    assert fmt("--check").stdout == "5 files would be left unchanged\n"
    assert fmt("d.task.json").stdout.startswith("d.task.json is JSON, and is left as it is\n")
    assert fmt("--long", "c.task.yaml").exit_code == 0
    assert "  - {act: click, selector: '#a'}\n" in (project / "c.task.yaml").read_text()


def test_a_broken_file_is_reported_with_its_place_and_left_alone(project: Path) -> None:
    broken = {
        "a.task.yaml": "goal: g\nsteps:\n  - {act: open, url: /\n",
        "b.task.yaml": "goal: g\nsteps:\n  - {act: clik, selector: '#a'}\n",
        "c.steps.yaml": "steps:\n  - {act: click}\n",
        "e.task.yaml": "goal: g\nsteps:\n  - act:\topen\n    url: /\n",
    }
    for name, text in broken.items():
        (project / name).write_text(text)
    (project / "d.task.yaml").write_text(LONG)
    told = fmt(".")
    assert told.exit_code == 1
    assert [(project / name).read_text() for name in broken] == list(broken.values())
    assert (project / "d.task.yaml").read_text() == SHORT
    for place in (
        "error: a.task.yaml:4:1: ",
        "error: b.task.yaml:3:11: ",
        "error: c.steps.yaml:2:5: ",
        "error: e.task.yaml:3:9: ",
    ):
        assert place in told.stderr
    assert told.stdout.splitlines()[-1] == "1 file reformatted, 4 files not formatted"


def test_no_file_is_lost_where_it_cannot_be_written(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = project / "a.task.yaml"
    file.write_text(LONG)
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)
    told = fmt("a.task.yaml")
    assert told.exit_code == 1
    assert "error: a.task.yaml cannot be written" in told.stderr
    assert file.read_text() == LONG
    assert fmt("missing.task.yaml").exit_code == 1
