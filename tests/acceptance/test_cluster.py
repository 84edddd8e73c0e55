"""`--task-cluster`: a run on Ray is the run that it would have been here."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness.reporting.history.reading import load_run
from tests.acceptance.clusters import ClusterProject, OrderSite, children, ray_cluster, until
from tests.acceptance.documented import ROOT

pytestmark = pytest.mark.thorough
ON = ("--task-cluster", "local:2")


@pytest.fixture
def site() -> Iterator[OrderSite]:
    found = OrderSite()
    yield found
    found.close()


@pytest.fixture
def project(tmp_path: Path, site: OrderSite) -> ClusterProject:
    return ClusterProject(tmp_path / "project", site)


def test_tasks_and_ordinary_tests_run_and_are_reported_as_here(project: ClusterProject) -> None:
    for name in "ABCD":
        project.task(name)
    project.task("BAD", success_criteria=["text('#done') == 'never'"])
    (project.path / "test_ordinary.py").write_text(
        f"import os\nimport pytest\n\ndef test_good():\n    assert os.nice(0) == {os.nice(0)}, 'as urgent as here'\n\n"
        "def test_bad():\n    print('seen')\n    assert 0\n\n"
        "@pytest.mark.skip(reason='because')\ndef test_skipped():\n    pass\n",
        "utf-8",
    )
    code, out = project.run(*ON, "--junitxml", "junit.xml", "--alluredir", "allure", "-rs")
    assert code == pytest.ExitCode.TESTS_FAILED, out
    assert "2 failed, 5 passed, 1 skipped" in out
    assert "BAD failed: CRITERIA_UNMET" in out
    assert "artifacts: errors/BAD" in out
    assert "because" in out
    assert (project.path / "errors" / "BAD" / "screenshot.png").is_file()
    assert len(list((project.path / "allure").glob("*-result.json"))) == 8
    assert project.site.orders == dict.fromkeys(["A", "B", "C", "D", "BAD"], 1)
    results = project.results()
    assert all(len(each) == 1 for each in results.values())
    assert {name for name, (result,) in results.items() if result == "passed"} == {*"ABCD", "test_good"}
    assert not (project.path / ".harness" / "cluster" / "x").exists()
    assert list((project.path / ".harness" / "cluster").iterdir()) == []


STRANGE = r"""
import os
import sys

import pytest

@pytest.mark.parametrize("value", ["[a-b]", "a[b]", "new\nline", "::", "\x00", "x" * 300])
def test_id(value):
    pass

def test_huge():
    print("x" * 10_000_000)

def test_bytes():
    os.write(1, b"\xff\n")
    sys.stdout.buffer.write(b"\xfe\n")
    raise ValueError("half a character: \ud800")

def test_no_output():
    os.close(1)
"""


def test_strange_tests_and_output_travel_and_nothing_stays(
    project: ClusterProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.path / "test_strange.py").write_text(STRANGE, "utf-8")
    code, alone = project.run("--junitxml", "junit.xml")
    assert code == pytest.ExitCode.TESTS_FAILED, alone
    names = set(project.results())
    with TemporaryDirectory(prefix="r", dir="/tmp") as folder:  # sockets need a short path
        monkeypatch.setenv("RAY_TMPDIR", folder)
        code, out = project.run(*ON, "--junitxml", "junit.xml", f"--rootdir={project.path}")
        assert list(Path(folder).iterdir()) == []
    assert (code, "1 failed, 8 passed" in out) == (pytest.ExitCode.TESTS_FAILED, True), out
    assert set(project.results()) == names
    assert r"half a character: \ud800" in out


def test_dependencies_and_episodes_stay_together_and_in_order(project: ClusterProject) -> None:
    project.task("FIRST", success_criteria=["text('#done') == 'never'"])
    project.task("SECOND", dependencies=["FIRST"])
    project.task("E1", episode_id="E", priority=2)
    project.task("E2", episode_id="E", priority=3)
    code, out = project.run(*ON, "-rs", "-v")
    assert code == pytest.ExitCode.TESTS_FAILED, out
    assert "depends on FIRST, which did not pass" in out
    assert project.site.orders == dict.fromkeys(["FIRST", "E1", "E2"], 1)
    found = re.findall(r"^\[(slot\d+)\].*::(E\d)", out, re.MULTILINE)
    assert [name for _, name in found] == ["E1", "E2"]
    assert len({slot for slot, _ in found}) == 1


def test_maxfail_stops_and_says_how_to_go_on(project: ClusterProject) -> None:
    for number in range(12):
        project.task(f"T{number:02}", 0.5, success_criteria=["text('#done') == 'never'"])
    code, out = project.run(*ON, "-x")
    assert code == pytest.ExitCode.TESTS_FAILED, out
    assert "stopping after" in out
    assert len(project.site.orders) < 12
    assert "items have no result; to go on: pytest ... --task-cluster local:2 --task-resume" in out


def test_lf_reruns_and_selection_act(project: ClusterProject) -> None:
    flaky = (
        "import pathlib\n\ndef test_flaky():\n    seen = pathlib.Path('seen')\n    first = not seen.exists()\n"
        "    seen.touch()\n    assert not first\n\ndef test_bad():\n    assert 0\n\ndef test_good():\n    pass\n"
    )
    (project.path / "test_ordinary.py").write_text(flaky, "utf-8")
    (project.path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    code, out = project.run(*ON, "--reruns", "1")
    assert code == pytest.ExitCode.TESTS_FAILED, out
    assert "1 failed, 2 passed, 2 rerun" in out
    code, out = project.run(*ON, "--lf")
    assert "1 failed" in out
    assert "passed" not in out.splitlines()[-1]
    code, out = project.run(*ON, "-k", "good")
    assert (code, "1 passed, 2 deselected" in out) == (pytest.ExitCode.OK, True), out


def test_ctrl_c_ends_what_runs_with_reports_and_the_run_can_be_gone_on_with(project: ClusterProject) -> None:
    for number in range(4):
        project.task(f"T{number}", 0.2)
    project.task("LONG", 30, priority=1)
    project.task("NEVER", 30, priority=1, dependencies=["LONG"])
    process = project.start(*ON)
    until(lambda: sum(project.site.orders.values()) == 4)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, out
    assert "interrupted: LONG; its report: errors/LONG" in out
    assert project.report("LONG")["code"] == "INTERRUPTED"
    run = re.search(r"--task-resume (\S+)", out)
    assert run is not None, out
    project.task("LONG", 0.1, priority=1)
    code, out = project.run(*ON, "--task-resume", run[1], "--junitxml", "junit.xml")
    assert code == pytest.ExitCode.USAGE_ERROR, out  # its digest is another one: JSON tasks count
    assert "the project has changed since" in out


def test_a_run_whose_driver_was_killed_goes_on(project: ClusterProject) -> None:
    for number in range(6):
        project.task(
            f"T{number}", 0.2 if number < 3 else 3.0, hold=0.0 if number < 3 else 6.0, priority=min(number + 1, 5)
        )
    process = project.start(*ON)
    until(lambda: sum(project.site.orders.values()) >= 4)
    process.kill()
    process.wait(10)
    until(lambda: not children(project.path))  # nothing is left of its slots
    before = project.site.orders
    (left,) = (project.path / ".harness" / "cluster").glob("*.jsonl")
    code, out = project.run(*ON, "--task-resume", left.stem, "--junitxml", "junit.xml")
    results = project.results()
    assert sorted(results) == [f"T{number}" for number in range(6)], out
    assert all(len(each) == 1 for each in results.values()), out
    assert project.site.orders == dict.fromkeys(results, 1), (before, out)
    lost = [name for name, (result,) in results.items() if result != "passed"]
    assert lost, out
    assert all("had begun to write" in results[name][0] for name in lost)
    assert code == pytest.ExitCode.TESTS_FAILED
    code, out = project.run(*ON, "--task-resume", "no-such-run")
    assert (code, "there is no unfinished run of this name" in out) == (pytest.ExitCode.USAGE_ERROR, True)


def test_nodes_come_and_go_while_it_runs(project: ClusterProject) -> None:
    """A third node takes work; one that is removed with notice ends its item, and nothing is lost."""
    for number in range(24):
        project.task(f"T{number:02}", 1.0)
    with ray_cluster(nodes=2) as cluster:
        process = project.start("--task-cluster", cluster.address, "--task-cluster-slots", "1:3", "-v")
        until(lambda: len(project.site.orders) >= 2)
        cluster.add_node(num_cpus=1)
        until(lambda: len(project.site.orders) >= 10)
        for each in children(project.path):
            slot = each.parent().parent()
            if slot is not None and each.environ().get("TASKSPEC_SLOT") == "slot1":
                slot.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=120)
    assert process.returncode == pytest.ExitCode.OK, out
    assert "24 passed" in out
    assert project.site.orders == {f"T{number:02}": 1 for number in range(24)}
    assert {"slot1", "slot2", "slot3"} <= set(re.findall(r"^\[(slot\d+)\]", out, re.MULTILINE))
    assert "WORKER_" not in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--task-cluster", "nowhere"), "is no cluster: expected auto, HOST:PORT or local:N"),
        (("--task-cluster", "127.0.0.1:9"), "nothing answers at 127.0.0.1:9"),
        (("--task-cluster", "local:2", "-n", "2"), "-n cannot be used: the slots of the cluster take the place"),
        (("--task-cluster", "local:2", "--pdb"), "--pdb cannot be used"),
        (("--task-cluster", "local:2", "--task-update-baselines"), "--task-update-baselines cannot be used"),
        (("--task-cluster", "local:2", "--task-models", "record"), "--task-models cannot be used"),
        (("--task-cluster", "local:2", "--agent", "bridge"), "the agent `bridge` cannot be used"),
        (("--task-cluster-slots", "2"), "--task-cluster-slots acts only with --task-cluster"),
        (("--task-resume", "r"), "--task-resume acts only with --task-cluster"),
    ],
)
def test_what_cannot_act_is_refused(project: ClusterProject, arguments: tuple[str, ...], said: str) -> None:
    project.task("A")
    code, out = project.run(*arguments)
    assert code == pytest.ExitCode.USAGE_ERROR, out
    assert said in out


def test_several_tasks_at_once_in_each_slot_write_once(project: ClusterProject) -> None:
    for number in range(12):
        project.task(f"T{number:02}", 0.5, hold=0.5)
    code, out = project.run(*ON, "--task-workers", "3")
    assert code == pytest.ExitCode.OK, out
    assert project.site.orders == {f"T{number:02}": 1 for number in range(12)}
    assert "asks for no token" not in out  # Ray itself has made one


def test_variables_reach_the_slots(project: ClusterProject, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.path / "test_variable.py").write_text(
        "import os\n\ndef test_named():\n    assert os.environ['SENT_ALONG'] == 'yes'\n", "utf-8"
    )
    with ray_cluster(nodes=1) as cluster:
        monkeypatch.setenv("SENT_ALONG", "yes")
        _, without = project.run("--task-cluster", cluster.address)
        code, out = project.run("--task-cluster", cluster.address, "--task-cluster-env", "SENT_ALONG")
    assert "1 failed" in without
    assert "this Ray cluster asks for no token" in without
    assert code == pytest.ExitCode.OK, out


def test_a_process_that_dies_is_repeated_if_the_user_asks_for_it(project: ClusterProject) -> None:
    text = "import os\nimport pathlib\n\ndef test_dies():\n    seen = pathlib.Path('seen')\n"
    text += "    if not seen.exists():\n        seen.touch()\n        os._exit(9)\n"
    (project.path / "test_ordinary.py").write_text(text, "utf-8")
    code, out = project.run(*ON)
    assert code == pytest.ExitCode.TESTS_FAILED, out
    assert "what an ordinary test has done is unknown" in out
    (project.path / "seen").unlink()
    code, out = project.run(*ON, "--reruns", "1")
    assert code == pytest.ExitCode.OK, out
    assert "1 passed, 1 rerun" in out


def test_the_shipped_tasks_end_as_in_one_process(tmp_path: Path, site: OrderSite) -> None:
    project = ClusterProject(tmp_path / "shipped", site)
    for name in ("tasks", "examples"):
        shutil.copytree(ROOT / name, project.path / name)
    for name in ("pyproject.toml", "pytest.ini", "conftest.py"):
        shutil.copy(ROOT / name, project.path)
    for arguments in ((), ON):
        code, out = project.run("tasks/", "-p", "no:cacheprovider", *arguments, timeout=600)
        assert code == pytest.ExitCode.OK, out
    alone, together = (ends(project.path, run) for run in ("last-1", "last"))
    assert together == alone


def ends(root: Path, run: str) -> dict[str, object]:
    """Task -> how it ended in a run."""
    found: dict[str, object] = {}
    for each in load_run(root, run).executions:
        record = each.record
        assert record is not None
        warnings = sorted(str(warning.get("type")) for warning in record.warnings)
        steps = (record.steps_completed, record.retries, record.fallbacks)
        found[each.task_id] = (each.outcome, record.final_state, record.code, steps, warnings)
    return found
