"""How commands end that cannot be done: the words are on stderr, and a document on stdout where one was asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli.main import app
from harness.reporting.history.writing import save_run
from tests.unit.reporting.history.runs import run


def ended(*arguments: str) -> tuple[int, Any, str]:
    """Exit code, the document on stdout, stderr."""
    found = CliRunner().invoke(app, arguments)
    return found.exit_code, json.loads(found.stdout) if found.stdout else None, found.stderr


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("history", "show", "last-3"), "no history yet"),
        (("history",), "no history yet"),
        (("triage",), "no history yet"),
        (("dashboard",), "no history yet"),
        (("show", "T-1"), "no failure of 'T-1'"),
        (("explain", "X"), "no code, error_type or warning 'X'"),
        (("regrade",), "no evidence in"),
        (("merge", "nowhere"), "nothing was merged"),
        (("verify", "."), "nothing to verify"),
        (("report",), "no Allure results"),
    ],
)
def test_what_cannot_be_done_is_one_document(arguments: tuple[str, ...], words: str) -> None:
    code, found, told = ended(*arguments, "--json")
    assert (code, found["error"]["exit_code"]) == (1, 1)
    assert words in found["error"]["message"]
    assert words in told
    assert ended(*arguments)[:2] == (1, None)


def test_what_reads_line_by_line_gets_one_line(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.harness.services.shop]\ncommand = ["x"]\nhealth = "http://shop.local/"\nhosts = {"shop.local" = 1}\n',
        "utf-8",
    )
    found = CliRunner().invoke(app, ["services", "logs", "--json"])
    (line,) = found.stdout.splitlines()
    assert json.loads(line)["error"]["message"].startswith("no log yet: ")


def test_a_file_that_cannot_be_had_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/x/y")

    monkeypatch.setattr("harness.reporting.history.reading.recent_runs", refused)
    code, found, _ = ended("history", "--json")
    assert (code, found["error"]) == (
        1,
        {"message": "[Errno 13] Permission denied: '/x/y'", "file": "/x/y", "exit_code": 1},
    )


def test_other_exit_codes() -> None:
    code, found, _ = ended("chaos", ".", "--faults", "none.yaml", "--json", "-")
    assert (code, found["error"]["exit_code"]) == (2, 2)


def test_a_json_option_that_names_a_file_leaves_stdout_alone() -> None:
    assert ended("chaos", ".", "--faults", "none.yaml", "--json", "out.json")[:2] == (2, None)
    assert ended("run", "--", "--json")[1] is None


def test_a_report_that_a_disk_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("harness.reporting.allure.build.build_report", full)
    code, found, told = ended("report", "--json")
    words = (
        "allure-report cannot be written: No space left on device; free space there, or name another one with --output"
    )
    assert (code, found["error"]["message"], found["error"]["file"], told) == (1, words, "allure-report", f"{words}\n")


def test_a_merge_that_a_disk_does_not_take(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    save_run(tmp_path, run())
    monkeypatch.setattr("harness.reporting.history.merging.save_run", full)
    code, found, _ = ended("merge", ".", "--json")
    assert (code, found["error"]["file"]) == (1, "merged")
    assert "nothing was merged: [Errno 28] No space left on device; free space" in found["error"]["message"]
    assert [path.name for path in tmp_path.iterdir()] == [".harness"]
