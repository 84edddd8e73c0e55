"""Fault plans with pytest, and campaigns of `harness chaos`, with a real browser and real sites."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Project
from tests.acceptance.warm import harness

REFUSE = {"kind": "refuse", "host": "shop.local", "connections": 1}
RECOVERED = {"code": "NET_CONNECTION_REFUSED", "recovered": True}
FAST = {"on_network_error": {"strategy": "retry", "max_retries": 2, "retry_delay_ms": 100}}
CHAOS = [sys.executable, "-c", "from harness.cli import main; main()", "chaos"]


def plan(project: Project, *faults: dict[str, Any], name: str = "small", **more: Any) -> Path:
    path = project.path / f"{name}.faults.yaml"
    path.write_text(json.dumps({"name": name, "seed": 3, "faults": faults, **more}), "utf-8")
    return path


def two_tasks(project: Project) -> None:
    """One outlasts a refused connection, the other gives up at once."""
    project.task("TOUGH", error_recovery=FAST, success_criteria=["exists('#search-box')"])
    project.task("SOFT", error_recovery={"on_network_error": "abort"}, success_criteria=["exists('#search-box')"])


def chaos(project: Project, *args: str) -> subprocess.CompletedProcess[str]:
    return harness("chaos", *args, cwd=project.path, timeout=180, COLUMNS="100")


def document(project: Project, name: str = "c.json") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project.path / name).read_text("utf-8"))
    return found


def test_a_campaign_in_which_all_is_as_declared(project: Project) -> None:
    two_tasks(project)
    gives_up = {**REFUSE, "tasks": "SOFT", "expect": {**RECOVERED, "recovered": False}}
    plan(project, {**REFUSE, "tasks": "TOUGH", "expect": RECOVERED}, gives_up)
    args = (".", "--faults", "small.faults.yaml", "--trials", "2", "--json", "c.json", "--markdown", "c.md")
    done = chaos(project, *args, "--task-workers", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    found = document(project)
    cells = {cell["task_id"]: cell for cell in found["cells"]}
    assert [cells[name]["classified"]["share"] for name in ("TOUGH", "SOFT")] == [1, 1]
    assert [cells[name]["recovered"]["good"] for name in ("TOUGH", "SOFT")] == [2, 0]
    assert 0.1 <= cells["TOUGH"]["recovery"]["median"] <= 20
    assert cells["SOFT"]["artifacts"] == {"of": 2, "good": 2, "share": 1}
    assert [trial["seed"] for trial in cells["TOUGH"]["trials"]] == [3, 4]
    assert found["totals"]["clean"]["pass_hat"] == [1, 1]  # of each task
    assert "recovered: 100 % (2/2) of the transient faults with `recovered: true`" in done.stdout
    assert "8/8 " in done.stderr
    assert (project.path / "c.md").read_text("utf-8").startswith("# Campaign small: as expected")
    assert max(map(len, done.stdout.partition("recovered:")[0].splitlines())) <= 100


@pytest.mark.thorough
def test_failures_are_kept_apart_from_the_projects_own(project: Project) -> None:
    project.task("SOFT", error_recovery={"on_network_error": "abort"})
    plan(project, {**REFUSE, "expect": {"recovered": False}})
    assert chaos(project, ".", "--faults", "small.faults.yaml", "--json", "c.json").returncode == 0
    found = document(project)
    (trial,) = found["cells"][0]["trials"]
    kept = project.path / found["artifacts"] / trial["artifacts"]
    assert (kept / "error_report.json").is_file()
    assert not list((project.path / "errors").glob("SOFT*"))


@pytest.mark.thorough  # tests/unit/runner/campaign/test_trials.py
def test_what_is_not_as_declared_is_named(project: Project) -> None:
    two_tasks(project)
    never = {"kind": "hang", "url": "http://shop.local/never", "tasks": "TOUGH"}
    plan(project, {**REFUSE, "tasks": "SOFT", "expect": RECOVERED}, never, {**REFUSE, "tasks": "GONE"})
    done = chaos(project, ".", "--faults", "small.faults.yaml", "--clean-trials", "0")
    assert done.returncode == 1
    assert "faults[2].tasks: no task matches `GONE`" in done.stderr
    assert "SOFT refuse-0 (trial 0, seed 3): was not recovered from" in done.stdout
    assert "TOUGH hang-1 (trial 0, seed 3): the fault never struck" in done.stdout
    (written,) = (project.path / ".harness" / "chaos").glob("small-*.json")
    assert json.loads(written.read_text("utf-8"))["version"] == 2


def test_files_that_are_wrong_are_usage_errors(project: Project) -> None:
    two_tasks(project)
    plan(project, {"kind": "refus"})
    plan(project, {**REFUSE, "tasks": "GONE"}, name="idle")
    wrong, absent = chaos(project, ".", "--faults", "small.faults.yaml"), chaos(project, ".", "--faults", "no.yaml")
    idle, empty = (
        chaos(project, ".", "--faults", "idle.faults.yaml"),
        chaos(project, "x", "--faults", "idle.faults.yaml"),
    )
    assert [each.returncode for each in (wrong, absent, idle, empty)] == [2, 2, 2, 2]
    assert "did you mean `refuse`?" in wrong.stderr
    assert "no.yaml" in absent.stderr
    assert "none of its faults strikes one of these tasks" in idle.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_campaign_writes_what_there_is(project: Project, sent: signal.Signals) -> None:
    wait = [
        {"act": "open", "url": "http://shop.local/"},
        {"act": "wait", "selector": "#nothing-like-it", "timeout": 60},
    ]
    project.task("A-QUICK")
    project.task("B-STUCK", steps=wait, timeout=90)
    plan(project, REFUSE)
    command = [*CHAOS, ".", "--faults", "small.faults.yaml", "--json", "c.json"]
    process = subprocess.Popen(command, cwd=project.path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    seen = [process.stderr.readline(), process.stderr.readline()]
    process.send_signal(sent)
    seen.append(process.stderr.readline())
    while process.poll() is None:  # whoever presses Ctrl-C once more loses nothing by it
        process.send_signal(sent)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (seen, out, err)
    assert seen[2] == "interrupted after 2 of 4 trials\n"
    assert seen[1].startswith("2/4 A-QUICK refuse-0: completed")
    found = document(project)
    assert (found["interrupted"], found["totals"]["faulted"]["good"]) == (True, 1)


@pytest.mark.thorough
def test_a_plan_with_pytest(project: Project) -> None:
    project.task("TOUGH", error_recovery=FAST, inputs={"host": "shop.local"})
    project.task("OTHER")
    file = plan(project, {**REFUSE, "tasks": "TOUGH", "host": "${inputs.host}", "expect": RECOVERED})
    result = project.run("--faults", file.name, ".", "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["taskspec faults: small.faults.yaml (1 fault, 1 task)", "*1 of them recovered*"])


@pytest.mark.thorough
def test_a_plan_under_xdist(project: Project) -> None:
    for name in ("A", "B"):
        project.task(name, error_recovery={"on_network_error": "abort"})
    file = plan(project, {**REFUSE, "tasks": "B"})
    result = project.run("--faults", file.name, "-n", "2", ".")
    result.assert_outcomes(passed=1, failed=1)
    assert project.report("B")["code"] == "NET_CONNECTION_REFUSED"


@pytest.mark.thorough
def test_what_a_plan_expects_and_does_not_happen_is_a_warning(project: Project) -> None:
    project.task("SOFT", error_recovery={"on_network_error": "abort"})
    file = plan(project, {**REFUSE, "expect": {"code": "NET_DNS", "recovered": True}})
    project.run("--faults", file.name, ".").assert_outcomes(failed=1)
    (warning,) = project.report("SOFT")["warnings"]
    assert (warning["type"], warning["fault"]) == ("fault_not_as_expected", "small/refuse-0")
    assert "expected NET_DNS, was NET_CONNECTION_REFUSED; was not recovered from" in warning["message"]


def test_a_plan_that_cannot_be_read_ends_pytest(project: Project) -> None:
    project.task("A")
    result = project.run("--faults", plan(project, {"kind": "refus"}).name, ".")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*faults[[]0[]].kind: not a known kind"])


def test_a_fault_at_a_host_that_there_is_not_ends_the_collection(project: Project) -> None:
    project.task("A", faults=[{**REFUSE, "host": "nosuch.example"}])
    result = project.run("--collect-only", ".")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*A.task.json:*: faults[[]0[]].host: the task cannot start: no service of*"])


@pytest.mark.thorough
def test_a_plan_is_not_run_as_a_task(project: Project) -> None:
    project.task("A")
    file = plan(project, REFUSE)
    project.run("-o", "taskspec_files=*.yaml", ".").assert_outcomes(passed=1)
    named = project.run(file.name)
    assert named.ret != 0
    assert "is a fault plan, not a task" in named.stdout.str() + named.stderr.str()


def test_plans_are_validated_with_the_tasks(project: Project) -> None:
    project.task("A")
    plan(project, {**REFUSE, "tasks": "B"})
    plan(project, {"kind": "refus"}, name="wrong")
    done = harness("validate", ".", cwd=project.path)
    assert done.returncode == 1
    assert "faults[0].tasks: no task matches `B`" in done.stdout
    assert "did you mean `refuse`?" in done.stdout
    assert "1 task file, 1 loaded, 2 fault plans, 1 with errors, " in done.stdout
