"""`harness history`: text for people, one JSON document for programs, and what it says when there is nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.cli.main import app
from harness.model.tool_use import ToolFigures
from harness.reporting.dashboard.build import dashboard
from harness.reporting.dashboard.evidence import FoundEvidence
from harness.reporting.dashboard.page import page
from harness.reporting.history.reading import load_run, recent_runs
from harness.reporting.history.writing import RunWriter, save_run
from harness.resilience.owner import Owner
from harness.spec.names import blank_unprintable
from harness.values import replace
from tests.unit.reporting.history.runs import execution, failed, nodeid, record, run, several

RUN = CliRunner()


def told(root: Path, *arguments: str, code: int = 0) -> str:
    result: Result = RUN.invoke(app, ["history", *arguments, "--project", str(root)])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve days of one project, then a run with all kinds of tasks."""
    folder = tmp_path_factory.mktemp("project")
    for each in several(12):
        save_run(folder, each)
    save_run(folder, run())
    return folder


def test_list(root: Path) -> None:
    head, newest, *_ = told(root, "list").splitlines()
    columns = "run began ended seconds passed failed not judged skipped flaky healed retries commit"
    assert " ".join(head.split()) == columns
    assert newest.split()[0] == "20251116T090000-4711"
    assert newest.split()[3:] == ["finished", "90.0", "7", "10", "0", "1", "1", "1", "14", "66beb88d9b", "main"]
    assert told(root) == told(root, "list")
    assert len(told(root, "--limit", "3").splitlines()) == 4


def test_the_list_has_columns_of_tools_if_a_run_has_called_some(tmp_path: Path) -> None:
    calls = {"mail": {"get_code": ToolFigures(calls=3, errors=1), "send": ToolFigures(calls=2, failed=2)}}
    save_run(tmp_path, run(parts=[execution(record("T-1", tools=calls)), execution(record("T-2", tools=calls))]))
    save_run(tmp_path, run("20251117T090000-1", parts=[execution(record("T-1"))]))
    head, without, called, *_ = told(tmp_path, "list").splitlines()
    assert " ".join(head.split()).endswith(" retries tool calls tool errors unanswered commit")
    assert called.split()[-5:-2] == ["10", "2", "4"]
    assert without.split()[-3] == "0", "and no zeros"


def test_list_for_programs(root: Path) -> None:
    (found,) = json.loads(told(root, "list", "--limit", "1", "--json"))
    keys = "run started finished ending seconds passed expected failed not_judged skipped flaky healed retries commit"
    assert [*found] == [
        *keys.split(),
        "branch",
        "shard",
        "failure_rate",
        "recovery_rate",
        "used",
        "cost_per_success",
        "takeovers",
        "tool_calls",
        "tool_errors",
        "tool_failures",
        "note",
        "running",
    ]
    assert json.loads(told(root, "--limit", "1", "--json")) == [found]


def test_show(root: Path) -> None:
    text = told(root, "show")
    assert text.startswith("run 20251116T090000-4711: ")
    assert "  ci: tests #12 https://github.com/o/r/actions/runs/1\n" in text
    rows = [line.split()[:4] for line in text.splitlines()]
    assert ["failed", "T-FAILED-0", "4.5", "ELEMENT_NOT_FOUND"] in rows
    assert "\x1b" not in text
    assert "<script>alert(1)</script> wants a login  [31m" in text
    assert "WARNING service demo: up -> down (exit code 1)" in text
    assert text.index("T-FAILED-9") < text.index("T-SKIPPED") < text.index("T-PASSED-0")


def test_what_was_cut_off_from_outside_is_not_called_failed(tmp_path: Path) -> None:
    save_run(tmp_path, run(parts=[execution(failed("T-1", "INTERRUPTED"))], ending="interrupted"))
    assert "not judged  T-1" in told(tmp_path, "show")
    assert "  not judged  " in told(tmp_path, "task", "T-1")
    assert told(tmp_path, "list").splitlines()[1].split()[5:8] == ["0", "0", "1"]


def test_show_for_programs(root: Path) -> None:
    found = json.loads(told(root, "show", "last", "--json"))
    assert found["executions"][0]["record"]["steps"][0]["attempts"][0]["passed"] is True
    assert [*found][:6] == ["run", "started", "finished", "ending", "exit_status", "project"]


def test_compare(root: Path) -> None:
    lines = told(root, "compare", "last-3", "last-1").splitlines()
    assert lines[0] == "20251110T090000-4720 -> 20251112T090000-4722"
    assert lines[1:3] == [
        "newly failing: 1",
        f"  {nodeid('T-BROKEN')}  ELEMENT_NOT_FOUND: Element not found: #checkout",
    ]
    assert "slower: 1" in lines
    assert f"  {nodeid('T-SLOWER')}  2.0 -> 9.2 s (usual: 1.7 to 2.5 s, of 10 runs)" in lines
    assert told(root, "compare", "last", "last").splitlines()[1] == "still failing: 10"


def test_compare_what_is_the_same(tmp_path: Path) -> None:
    one, two = several(2)
    save_run(tmp_path, one.model_copy(update={"executions": two.executions[:1]}))
    save_run(tmp_path, two.model_copy(update={"executions": two.executions[:1]}))
    assert told(tmp_path, "compare").splitlines()[1:] == ["no difference beyond the usual variation"]
    assert json.loads(told(tmp_path, "compare", "--json"))["newly_failing"] == []


def test_compare_names_new_tasks_with_their_outcome_and_what_is_not_judged(tmp_path: Path) -> None:
    first, second = [execution(record(name)) for name in "ab"], [execution(failed("b", "INTERRUPTED"))]
    save_run(tmp_path, run("20251101T090000-1", first))
    save_run(tmp_path, run("20251102T090000-1", [*second, execution(failed("c", "STEP_TIMEOUT"))]))
    lines = told(tmp_path, "compare").splitlines()
    assert [line.removesuffix(" (Ctrl-C, or its process was ended).") for line in lines[1:5]] == [
        "new tasks: 1",
        f"  failed  {nodeid('c')}  STEP_TIMEOUT: the step took longer than 10 s",
        "not judged (stopped from outside): 1",
        f"  {nodeid('b')}  INTERRUPTED: The run was interrupted",
    ]


def triage_notes(root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (root / "pyproject.toml").write_text("", "utf-8")
    monkeypatch.chdir(root)
    return RUN.invoke(app, ["triage"]).stderr


def test_a_run_under_way_is_still_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = run(parts=(), ending="unfinished", finished=None, exit_status=None)
    writer = RunWriter(tmp_path, begun, Owner.this())
    try:
        for name in "abc":
            writer.add(execution(record(name)))
        assert "  still running (3 tasks so far)  " in told(tmp_path, "list")
        assert told(tmp_path, "show").splitlines()[0].endswith(", still running (3 tasks so far)")
        assert triage_notes(tmp_path, monkeypatch) == "still running (3 tasks so far)\n"
        view = dashboard(load_run(tmp_path), recent_runs(tmp_path), {}, lambda _record: FoundEvidence())
        assert view.notices == (
            "The run is still running (3 tasks so far). The page shows what it has written so far.",
        )
        assert "<strong>still running</strong>" in page(view)
    finally:
        writer.close()


def test_a_run_whose_process_is_gone_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = run(parts=(), ending="unfinished", finished=None, exit_status=None)
    RunWriter(tmp_path, begun, replace(Owner.this(), birth=1.0)).close()
    assert "  killed  " in told(tmp_path, "list")
    assert told(tmp_path, "show").splitlines()[0].endswith(", killed")
    assert triage_notes(tmp_path, monkeypatch) == "the run was killed\n"
    view = dashboard(load_run(tmp_path), recent_runs(tmp_path), {}, lambda _record: FoundEvidence())
    assert view.notices == ("The run was killed: its process is gone; the page shows what it had written.",)
    assert "<strong>killed</strong>" in page(view)


def test_a_run_of_another_machine_may_be_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = run(parts=(), ending="unfinished", finished=None, exit_status=None)
    RunWriter(tmp_path, begun, replace(Owner.this(), host="another")).close()
    assert not load_run(tmp_path).running
    assert triage_notes(tmp_path, monkeypatch) == "the run did not reach its end\n"


def test_compare_for_programs(root: Path) -> None:
    found = json.loads(told(root, "compare", "last-3", "last-1", "--json"))
    names = "old new why newly_failing fixed still_failing slower faster undecided flakier new_tasks not_judged not_run"
    assert [*found] == names.split()
    (slower,) = found["slower"]
    assert slower["usual"] == {"median": 2.1, "low": 1.655, "high": 2.545, "runs": 10}


def test_one_task(root: Path) -> None:
    title, head, *rows = told(root, "task", "T-FLAKY", "--runs", "5").splitlines()
    assert title == f"{nodeid('T-FLAKY')}: failed 3/6 (95 %: 0.19-0.81)"
    assert head.split()[0] == "run"
    assert [row.split()[3] for row in rows] == ["passed", "failed", "passed", "failed", "passed"]
    assert [*json.loads(told(root, "task", nodeid("T-FLAKY"), "--json"))] == [nodeid("T-FLAKY")]
    assert told(root, "task", "T-FLAKI", code=1) == "no task 'T-FLAKI' in the last 30 runs; did you mean `T-FLAKY`?\n"


def test_flaky(root: Path, tmp_path: Path) -> None:
    assert told(root, "flaky").splitlines()[1].startswith(nodeid("T-FLAKY"))
    (found,) = json.loads(told(root, "flaky", "--json"))
    assert (found["flips"], found["reruns_that_passed"], found["last"]) == (12, 1, "passed")
    save_run(tmp_path, run(parts=[execution(failed("T-1", "STEP_TIMEOUT"))]))
    assert told(tmp_path, "flaky") == "no flaky tasks in the last 30 runs\n"


def test_prune(tmp_path: Path) -> None:
    for each in several(4):
        save_run(tmp_path, each)
    assert told(tmp_path, "prune", "--keep", "3") == "1 run dropped\n"
    assert json.loads(told(tmp_path, "prune", "--keep", "2", "--json")) == {"dropped": ["20251102T090000-4712"]}
    assert len(recent_runs(tmp_path)) == 2


@pytest.mark.parametrize("command", ["list", "show", "compare", "task T-1", "flaky", "prune --keep 1"])
def test_no_history(tmp_path: Path, command: str) -> None:
    assert "history.sqlite3: no history yet; a run of pytest" in told(tmp_path, *command.split(), code=1)
    assert not (tmp_path / ".harness").exists()


@pytest.mark.parametrize("option", ["--json", "--limit=3", "--project=."])
def test_an_option_in_the_wrong_place(option: str) -> None:
    result: Result = RUN.invoke(app, ["history", option, "show"])
    assert result.exit_code == 2
    assert "options go after the command: harness history show" in result.stderr


def test_notes_of_runs(tmp_path: Path) -> None:
    save_run(tmp_path, run(note="its process (pid 1) is gone", ending="unfinished", finished=None, parts=[]))
    assert told(tmp_path).splitlines()[-1] == "20251116T090000-4711: its process (pid 1) is gone"
    assert "  note: its process (pid 1) is gone" in told(tmp_path, "show")


def test_what_others_wrote_does_not_steer_the_terminal() -> None:
    assert blank_unprintable("a\x1b[31mb\nc\u202ed") == "a [31mb c d"


@pytest.mark.thorough
def test_the_command_starts_without_the_history() -> None:
    code = "import sys, harness.cli.main; print('harness.reporting.history' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert found.stdout == "False\n"
