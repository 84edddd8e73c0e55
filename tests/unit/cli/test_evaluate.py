"""`harness eval`: what is refused before a trial is made."""

from __future__ import annotations

import json
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli import evaluate as command
from harness.cli.main import app
from harness.runner.evaluation.run import TRIALS, TrialJournal
from tests.unit.runner.evaluation.lines import PASSED, VOID, line
from tests.unit.spec.files import HEAD, write

SETTINGS = """
[tool.harness.services.demo]
command = ["x"]
hosts = {"shop.local" = 1}
health = "http://shop.local/health"
[tool.harness.agents.mine]
python = "mine:Mine"
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text(SETTINGS, "utf-8")
    write(tmp_path, HEAD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "make_trials", lambda *_: pytest.fail("trials were made"))
    return tmp_path


def evaluate(*args: str, agents: str = "scripted,mine") -> Any:
    return CliRunner().invoke(app, ["eval", ".", "--agents", agents, *args])


@pytest.mark.parametrize(
    ("agents", "said"),
    [
        ("mien", "--agents: there is no agent `mien`: expected"),
        ("mine,", "--agents: an empty name in 'mine,'"),
        ("mine,mine", "--agents: `mine` is there twice"),
        ("manual", "--agents: `manual` cannot be evaluated"),
        ("bridge", "--agents: `bridge` cannot be evaluated"),
    ],
)
def test_agents_that_cannot_be_evaluated(agents: str, said: str) -> None:
    done = evaluate(agents=agents)
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def test_scripted_needs_steps(project: Path) -> None:
    goal = "task_id: T-2\ngoal: buy\nagent: mine\nsuccess_criteria: [\"exists('#a')\"]\n"
    write(project, goal, "two.task.yaml")
    done = evaluate()
    assert (done.exit_code, "`scripted` does the steps of the file, and T-2 has none" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--summary", "gone/s.md"), "gone/s.md: there is no folder gone"),
        (("--gate", "g.yaml"), "`nobody` is not evaluated: --agents has scripted, mine"),
        (("--faults", "gone.yaml"), "gone.yaml"),
        (("--resume",), "--resume: there is no evaluation in .harness/eval: begin one without --resume"),
        (("--resume", "--output", "out"), "--resume: there is no evaluation in out: begin one without --resume"),
        (("--output", "made"), "made has an evaluation: go on with it (--resume), or name another folder"),
        (("--resume", "--output", "made"), "made cannot go on, because its trials would not be comparable:"),
        (("--resume", "--output", "broken"), "is no lock file of an evaluation"),
        (("--output", "unlocked"), "unlocked has trials.jsonl without lock.json, so nobody knows what they depend on"),
        (("--resume", "--output", "unlocked"), "unlocked has trials.jsonl without lock.json"),
        (("--output", "g.yaml"), "g.yaml is a file: name a folder"),
        (("--trials", "0"), "Invalid value for '--trials'"),
    ],
)
def test_what_is_wrong_is_told_before_the_first_trial(project: Path, args: tuple[str, ...], said: str) -> None:
    write(project, "agents: [nobody]\nmin_pass: 1\n", "g.yaml")
    write(project, '{"version": 1, "depends_on": {"--trials": "9"}}', "made/lock.json")
    write(project, "", f"made/{TRIALS}")
    write(project, "[]", "broken/lock.json")
    write(project, "{}\n", f"unlocked/{TRIALS}")
    done = evaluate(*args)
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def test_changes_are_named(project: Path) -> None:
    write(
        project, '{"version": 1, "depends_on": {"--trials": "9", "task OLD (old.task.yaml)": "ab"}}', "made/lock.json"
    )
    done = evaluate("--resume", "--output", "made")
    assert "\n  --trials: was 9, is 5\n" in done.stderr
    assert "\n  task OLD (old.task.yaml): is gone\n" in done.stderr


def test_a_task_that_its_file_skips_is_named(project: Path) -> None:
    (project / "pyproject.toml").write_text(SETTINGS + '[tool.harness.extra_keys]\nlater = "skip"\n', "utf-8")
    write(project, HEAD + "later: not now\n")
    done = evaluate()
    assert done.exit_code == 2
    assert "skipped: T-1 (not now)" in done.stderr
    assert "there is nothing to evaluate" in done.stderr


def test_what_is_odd_is_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "make_trials", lambda *_: False)
    write(project, HEAD + "dependencies: [GONE]\n")
    write(project, "faults:\n  - {kind: refuse, host: shop.local, connections: 1, tasks: NOBODY}\n", "f.faults.yaml")
    done = evaluate("--faults", "f.faults.yaml")
    assert "warning: t.task.yaml:5:16: dependencies[0]: `GONE` is not among these tasks" in done.stderr
    assert "no task matches `NOBODY`" in done.stderr


def test_a_command_that_was_killed_before_it_had_begun_is_begun_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "make_trials", lambda *_: True)
    write(project, "", f"killed/{TRIALS}")
    assert evaluate("--output", "killed").exit_code == 130
    assert (project / "killed/lock.json").is_file()


def test_trials_of_something_else_are_refused_when_it_goes_on(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "make_trials", lambda *_: True)
    assert evaluate("--output", "out").exit_code == 130
    write(project, line("OTHER", "mine", 0, PASSED).model_dump_json() + "\n", f"out/{TRIALS}")
    done = evaluate("--output", "out", "--resume")
    assert (done.exit_code, f"{TRIALS}:1: trial 0 of OTHER by mine, clean, is none" in done.stderr) == (2, True)


def test_a_full_disk_loses_no_trial(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def makes_one(folder: Path, _: object, __: object, journal: TrialJournal) -> bool:
        journal.add(line("T-1", "mine", 0, PASSED))
        raise OSError(ENOSPC, "No space left on device", str(folder / "errors/x"))

    monkeypatch.setattr(command, "make_trials", makes_one)
    done = evaluate("--output", "out")
    said = "out/errors/x: No space left on device. The trials so far are kept: go on with --resume\n"
    assert (done.exit_code, done.stderr) == (2, said)
    monkeypatch.setattr(command, "make_trials", lambda *_: False)
    (project / "out/evaluation.json").mkdir()
    done = evaluate("--output", "out", "--resume")
    assert (done.exit_code, "The trials so far are kept" in done.stderr) == (2, True), done.stderr


def test_what_an_agent_prints_is_not_in_the_document(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def makes_one(_: object, __: object, ___: object, journal: TrialJournal) -> bool:
        print("hello from the agent")
        journal.add(line("T-1", "mine", 0, PASSED))
        return False

    monkeypatch.setattr(command, "make_trials", makes_one)
    done = evaluate("--json", "--trials", "1", agents="mine")
    assert json.loads(done.stdout)["made"] == 1
    assert "hello from the agent" in done.stderr


def test_without_a_verdict_it_is_told_how_to_go_on(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def makes_one(_: object, __: object, ___: object, journal: TrialJournal) -> bool:
        journal.add(line("T-1", "mine", 0, VOID))
        return False

    monkeypatch.setattr(command, "make_trials", makes_one)
    done = evaluate("--trials", "1", agents="mine")
    assert (done.exit_code, "--resume makes them once more" in done.stderr) == (3, True)
