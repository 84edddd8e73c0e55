"""The history that runs of pytest leave: each kind of outcome, killed and interrupted runs, xdist, runs without any."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.reporting.history.file import HISTORY, open_writing
from harness.reporting.history.reading import load_run, recent_runs
from harness.reporting.history.record import Execution, RunRecord
from tests.acceptance.warm import harness, warm

INI = "[pytest]\naddopts = -p no:hypothesispytest -p no:faker -p no:cacheprovider\n"
CONFTEST = """
import os, pathlib, signal, threading
import pytest

@pytest.fixture(autouse=True)
def odd(request):
    name = request.node.name
    if name == "T-FLAKY" and not pathlib.Path("seen").exists():
        pathlib.Path("seen").touch()
        raise RuntimeError("only the first time")
    if name == "T-KILLED":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "T-INTERRUPTED":
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    yield
    if name == "T-TORN":
        raise RuntimeError("afterwards")
"""


def written(folder: Path, *names: str, **more: dict[str, Any]) -> Path:
    """A project with these tasks, which only open an empty page unless more is said of them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pytest.ini").write_text(INI, "utf-8")
    (folder / "conftest.py").write_text(CONFTEST, "utf-8")
    for priority, name in enumerate(names, 1):
        spec = {"task_id": name, "goal": f"goal of {name}", "timeout": 60, "priority": min(priority, 5)}
        steps = [{"act": "open", "url": "about:blank"}]
        document = {**spec, "steps": steps, **more.get(name.replace("-", "_"), {})}
        (folder / f"{name}.task.json").write_text(json.dumps(document), "utf-8")
    return folder


def pytest_in(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return warm().run("pytest", *arguments, cwd=folder, **environment)


def executions(run: RunRecord, name: str) -> list[Execution]:
    return [each for each in run.executions if each.task_id == name]


MISSING = {
    "steps": [{"act": "open", "url": "about:blank"}, {"act": "click", "selector": "#none"}],
    "error_recovery": {"on_element_not_found": {"wait_seconds": 0.2}},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a task of each kind, in a work tree of git."""
    folder = written(
        tmp_path_factory.mktemp("history") / "shop",
        "T-PASSED", "T-FAILED", "T-FLAKY", "T-TORN", "T-SKIPPED",
        T_FAILED=MISSING, T_SKIPPED={"dependencies": ["T-FAILED"]},
    )  # fmt: skip
    (folder / "test_other.py").write_text("def test_other():\n    pass\n", "utf-8")
    (folder / ".git" / "refs" / "heads").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    (folder / ".git" / "refs" / "heads" / "main").write_text("a" * 40, "utf-8")
    run = pytest_in(folder, "--reruns=1", "--junit-xml=s3cret.xml", "-o", "junit_family=xunit2", MY_TOKEN="s3cret")
    assert run.returncode == 1, run.stdout
    assert "history:" not in run.stdout
    return folder


@pytest.fixture(scope="module")
def run(project: Path) -> RunRecord:
    return load_run(project)


def test_the_run(run: RunRecord, project: Path) -> None:
    assert (run.ending, run.exit_status, run.project) == ("finished", 1, "shop")
    assert (run.commit, run.branch) == ("a" * 40, "main")
    assert run.arguments == ("--reruns=1", "--junit-xml=[redacted].xml", "-o", "junit_family=xunit2")
    assert run.environment["Browser"].startswith("Chrom")
    assert run.metrics["run"] == run.run
    assert run.finished is not None
    assert run.started < run.finished
    (summary,) = recent_runs(project)
    assert (summary.passed, summary.failed, summary.skipped, summary.flaky) == (2, 2, 1, 1)
    assert {path.name for path in (project / ".harness").iterdir()} >= {"history.sqlite3"}
    assert not list((project / ".harness").glob("history.sqlite3-*"))


def test_a_task_that_passed(run: RunRecord) -> None:
    (found,) = executions(run, "T-PASSED")
    assert (found.nodeid, found.outcome, found.number) == ("T-PASSED.task.json::T-PASSED", "passed", 1)
    assert found.record is not None
    assert found.at == found.record.started
    assert [step.act for step in found.record.steps] == ["open"]


def test_a_task_that_failed_twice(run: RunRecord, project: Path) -> None:
    first, second = executions(run, "T-FAILED")
    assert [(first.number, first.outcome), (second.number, second.outcome)] == [(1, "rerun"), (2, "failed")]
    assert [each.record and each.record.code for each in (first, second)] == ["ELEMENT_NOT_FOUND"] * 2
    kept = project / "errors" / ".previous" / run.run / "T-FAILED"
    assert first.record is not None
    assert second.record is not None
    assert (first.record.artifacts, second.record.artifacts) == (str(kept), str(project / "errors" / "T-FAILED"))
    assert kept.is_dir()


def test_a_fixture_that_failed_before_and_after(run: RunRecord) -> None:
    before, passed = executions(run, "T-FLAKY")
    assert (before.outcome, before.record) == ("rerun", None)
    assert before.reason == "setup: RuntimeError: only the first time"
    assert passed.outcome == "passed"
    assert [each.outcome for each in executions(run, "T-TORN")] == ["rerun", "failed"]
    after = executions(run, "T-TORN")[1]
    assert after.reason == "teardown: RuntimeError: afterwards"
    assert after.record is not None
    assert (after.record.ok, after.record.verdict) == (True, "failed")
    figures = run.metrics["error_metrics"]
    assert (figures["successful"], figures["failed"]) == (2, 2), "metrics.json calls it failed too"
    assert figures["error_breakdown"]["fixture_teardown"] == 1


def test_a_task_that_was_left_out(run: RunRecord) -> None:
    (found,) = executions(run, "T-SKIPPED")
    assert (found.outcome, found.record) == ("skipped", None)
    assert found.reason == "depends on T-FAILED, which did not pass"
    assert found.at is not None


def test_the_command_reads_it(run: RunRecord, project: Path) -> None:
    listed = harness("history", "--json", cwd=project)
    assert [each["run"] for each in json.loads(listed.stdout)] == [run.run]
    shown = harness("history", "show", cwd=project).stdout
    assert "failed   T-FAILED (execution 2)" in shown
    assert json.loads(harness("history", "task", "T-FAILED", "--json", cwd=project).stdout).keys() == {
        "T-FAILED.task.json::T-FAILED"
    }


def test_merged_with_itself_it_is_a_project(run: RunRecord, project: Path, tmp_path: Path) -> None:
    done = harness("merge", str(project), str(project), "--output", "whole", cwd=tmp_path)
    assert done.stdout.endswith("of 1 folder: 2 passed, 2 failed, 1 skipped\n")
    assert "T-FAILED" in harness("show", cwd=tmp_path / "whole").stdout
    assert len(load_run(tmp_path / "whole").executions) == len(run.executions)


@pytest.mark.thorough
def test_killed_in_the_middle_and_run_again(tmp_path: Path) -> None:
    folder = written(tmp_path / "p", "T-PASSED", "T-KILLED")
    assert pytest_in(folder).returncode == -9
    killed = load_run(folder)
    assert (killed.ending, [each.task_id for each in killed.executions]) == ("killed", ["T-PASSED"])
    assert pytest_in(folder, "-k", "PASSED").returncode == 0
    assert [each.ending for each in recent_runs(folder)] == ["finished", "killed"]
    assert "has died; what it had done until then is kept" in load_run(folder, "last-1").note


@pytest.mark.thorough
def test_interrupted(tmp_path: Path) -> None:
    waiting = {"steps": [{"act": "open", "url": "about:blank"}, {"act": "wait", "selector": "#none", "timeout": 30}]}
    folder = written(tmp_path / "p", "T-PASSED", "T-INTERRUPTED", T_INTERRUPTED=waiting)
    assert pytest_in(folder, "--task-shard=1/1").returncode == pytest.ExitCode.INTERRUPTED
    found = load_run(folder)
    assert (found.ending, found.exit_status, found.shard) == ("interrupted", 2, "1/1")
    (each,) = executions(found, "T-INTERRUPTED")
    assert (each.nodeid, each.outcome) == ("T-INTERRUPTED.task.json::T-INTERRUPTED", "failed")
    assert each.record is not None
    assert each.record.code == "INTERRUPTED"


@pytest.mark.thorough
def test_workers_and_one_that_crashes(tmp_path: Path) -> None:
    folder = written(tmp_path / "p", "T-PASSED", "T-KILLED")
    assert pytest_in(folder, "-n", "2", "-p", "no:terminal").returncode == 1
    found = load_run(folder)
    assert found.ending == "finished"
    (passed,), (killed,) = executions(found, "T-PASSED"), executions(found, "T-KILLED")
    assert (passed.outcome, passed.worker[:2]) == ("passed", "gw")
    assert killed.record is not None
    assert (killed.outcome, killed.record.code) == ("failed", "WORKER_CRASHED")


@pytest.mark.thorough
def test_a_broken_history_is_put_aside_and_said(tmp_path: Path) -> None:
    folder = written(tmp_path / "p", "T-PASSED")
    (folder / ".harness").mkdir()
    (folder / HISTORY).write_bytes(b"no database" * 999)
    run = pytest_in(folder)
    assert run.returncode == 0
    assert "history: .harness/history.sqlite3 was damaged: it is kept as history.sqlite3.broken-" in run.stdout
    assert len(load_run(folder).executions) == 1
    (folder / "pyproject.toml").write_text("[tool.harness]\nhistory_runs = 1\n", "utf-8")
    first = load_run(folder).run
    assert pytest_in(folder).returncode == 0
    assert [each.run == first for each in recent_runs(folder)] == [False]


@pytest.mark.thorough  # test_failing_outputs.py has one, too
def test_one_that_cannot_be_written_fails_no_run(tmp_path: Path) -> None:
    folder = written(tmp_path / "p", "T-PASSED")
    (folder / HISTORY).mkdir(parents=True)
    run = pytest_in(folder)
    assert run.returncode == 0
    assert "output failed: history: HistoryError: .harness/history.sqlite3: the history cannot be used" in run.stdout


@pytest.mark.thorough
def test_no_history_of_what_runs_no_task_and_where_none_is_wanted(tmp_path: Path) -> None:
    folder = written(tmp_path / "p", "T-PASSED")
    (folder / "test_other.py").write_text("def test_other():\n    pass\n", "utf-8")
    assert pytest_in(folder, "--collect-only").returncode == 0
    assert pytest_in(folder, "test_other.py").returncode == 0
    (folder / "pyproject.toml").write_text("[tool.harness]\nhistory_runs = 0\n", "utf-8")
    assert pytest_in(folder).returncode == 0
    assert not (folder / HISTORY).exists()


IMPATIENT = """
from harness.reporting.history import writing as unwritten, writing
unwritten._PATIENCE = 0.1
writing.PATIENCE = writing.QUICK = writing.FINAL = 0.1
"""


def test_what_a_run_cannot_write_because_another_process_holds_the_history_is_said_and_not_lost(tmp_path: Path) -> None:
    folder = written(tmp_path, "T-1", T_1={"dependencies": ["T-0"]})
    (folder / "conftest.py").write_text(IMPATIENT, "utf-8")
    open_writing(folder / HISTORY).close()
    with closing(sqlite3.connect(folder / HISTORY, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        done = pytest_in(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("history: ")]
    assert "another process holds the history" in line
    assert "the rows that it could not take (1 task) are in history.sqlite3.unwritten-" in line
    assert " finished " in harness("history", cwd=folder).stdout
    assert [each.outcome for each in load_run(folder).executions] == ["skipped"]


def test_a_file_that_cannot_be_written_at_the_end_is_said_and_the_rest_is_written(tmp_path: Path) -> None:
    folder = written(tmp_path, "T-1", T_1={"inputs": {"pin": "${env:NOBODY_HAS_SET_THIS}"}})
    (folder / ".harness" / "last-run.json").mkdir(parents=True)
    done = pytest_in(folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "output failed: last run: IsADirectoryError: " in done.stdout
    lost = "`harness show` and `harness triage` do not know"
    assert f".harness/last-run.json'; make the folder writable; {lost}" in done.stdout
    assert "INVALID_INPUT" in done.stdout
    assert [each.outcome for each in load_run(folder).executions] == ["failed"]
