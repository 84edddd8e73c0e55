"""`--task-cluster` with `--task-store`: what has ended outlasts the driver, and no run does a written task again."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.clusters import ClusterProject, OrderSite, children, until
from tests.acceptance.preempted import ends_in, merged_store, storage_of_s3

pytestmark = pytest.mark.thorough
ON = ("--task-cluster", "local:2", "--task-store=../store")


@pytest.fixture
def site() -> Iterator[OrderSite]:
    found = OrderSite()
    yield found
    found.close()


@pytest.fixture
def project(tmp_path: Path, site: OrderSite) -> ClusterProject:
    return ClusterProject(tmp_path / "project", site)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_directories_are_stored_by_the_slots_and_come_here_too(project: ClusterProject, store: Path) -> None:
    project.task("A")
    project.task("BAD", success_criteria=["text('#done') == 'never'"])
    project.task("NEXT", dependencies=["A"])
    code, out = project.run(*ON, "--alluredir", "allure")
    assert (code, "1 failed, 2 passed" in out) == (pytest.ExitCode.TESTS_FAILED, True), out
    (stored,) = store.glob("whole/errors/*.1/BAD")
    here = project.path / "errors" / "BAD"
    assert sorted(each.name for each in stored.iterdir()) == sorted(each.name for each in here.iterdir())
    assert len(list(store.glob("whole/errors/*/*"))) == 1  # the driver has not stored it again
    assert len(list(store.glob("whole/allure-results/*-result.json"))) == 3
    assert not (project.path / ".harness" / "cluster").exists()
    project.task("LATE", dependencies=["A", "BAD"])
    code, out = project.run(*ON, "-rs")
    assert "3 tasks ended in earlier processes of this part (1 failed: BAD), 1 to run" in out
    assert "depends on BAD, which did not pass" in out
    code, out = project.run("--task-store=../store", "--deselect", "LATE.task.json::LATE")  # and without a cluster
    assert (code, "4 deselected" in out) == (pytest.ExitCode.TESTS_FAILED, True), out
    merged, said = merged_store(store, project.path / "merged", "--strict")
    assert (sorted(each.task_id for each in merged.executions), said) == (["A", "BAD", "LATE", "NEXT"], "")
    assert (project.path / "merged" / "errors" / "BAD" / "screenshot.png").is_file()
    assert project.site.orders == {"A": 1, "BAD": 1, "NEXT": 1}


def test_a_run_whose_driver_and_machine_are_gone_goes_on(project: ClusterProject, store: Path) -> None:
    for number in range(8):
        slow = number >= 4
        project.task(f"T{number}", 2.0 * slow, hold=6.0 * slow, priority=1 + slow)
    project.task("FIRST", priority=1, episode_id="E")
    project.task("SECOND", 30, writes=False, priority=1, episode_id="E")
    process = project.start(*ON)
    until(lambda: ends_in(store, "FIRST") and ends_in(store) >= 4 and sum(project.site.orders.values()) >= 5, WHILE)
    process.kill()
    process.wait(10)
    until(lambda: not children(project.path))
    before = project.site.orders
    for name in (".harness", "errors"):
        shutil.rmtree(project.path / name)
    code, out = project.run(*ON)
    assert code == pytest.ExitCode.TESTS_FAILED, out
    assert "ended in earlier processes of this part" in out
    names = sorted([*(f"T{number}" for number in range(8)), "FIRST", "SECOND"])
    merged, said = merged_store(store, project.path / "merged", "--strict")
    assert (sorted(each.task_id for each in merged.executions), said) == (names, ""), out
    assert set(project.site.orders.values()) == {1}, (before, out)
    passed = {each.task_id for each in merged.executions if each.outcome == "passed"}
    assert passed <= set(project.site.orders), (before, out)
    lost = [each for each in merged.executions if each.outcome != "passed"]
    codes = {each.task_id: each.record.code for each in lost if each.record}
    assert codes.pop("SECOND") == "EPISODE_STATE_LOST"
    assert set(codes.values()) == {"WORKER_CRASHED"}, out
    assert all((project.path / "merged" / "errors" / each.task_id).is_dir() for each in lost)
    code, out = project.run(*ON)
    assert (code, "10 deselected" in out) == (pytest.ExitCode.TESTS_FAILED, True), out


def test_a_store_that_fails_is_told_once_and_nothing_is_written_without_it(
    project: ClusterProject, store: Path
) -> None:
    for number in range(3):
        project.task(f"T{number}", 3.0 * bool(number))
    project.task("READS", 3.0, writes=False)
    process = project.start(*ON)
    until(lambda: ends_in(store) >= 1, WHILE)
    (store / "whole").rename(store / "away")
    (store / "whole").write_text("no folder")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 75, out
    assert out.count("not everything is stored") == 1, out
    assert "WORKER_CUT_OFF" in out
    before = project.site.orders
    (store / "whole").unlink()
    (store / "away").rename(store / "whole")
    code, out = project.run(*ON)
    assert code == pytest.ExitCode.OK, (before, out)
    merged, said = merged_store(store, project.path / "merged", "--strict")
    assert (len(merged.executions), said) == (4, "")
    assert project.site.orders == {f"T{number}": 1 for number in range(3)}


def test_a_click_of_a_slot_that_the_store_does_not_know_asks_for_no_repetition(
    project: ClusterProject, store: Path
) -> None:
    """Neither its slot nor the driver could note the click, which its file does not declare."""
    page = {"act": "open", "url": "http://shop.test/?order=SEEN&slow=6&hold=0"}
    project.task("SEEN", steps=[page, {"act": "click", "selector": "#buy"}, {"act": "wait", "selector": "#done"}])
    project.task("READS", writes=False)
    process = project.start(*ON)
    until(lambda: ends_in(store, "READS") >= 1, WHILE)
    (store / "whole").rename(store / "away")
    (store / "whole").write_text("no folder")
    out, _ = process.communicate(timeout=120)
    assert project.site.orders == {"SEEN": 1}, out
    assert (process.returncode, "what these tasks have done: SEEN." in out) == (1, True), out


WHILE = 120.0
"""Seconds for slots to start and do something on a machine that is busy."""
SMALL = "import harness.cluster.slot\n\nharness.cluster.slot.MOST_BYTES = 2000\n"
"""A plugin: a little is too large to travel."""


def test_parts_of_a_run_in_a_storage_that_gets_what_is_too_large_to_travel(
    project: ClusterProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        project.task(f"T{number}", 0.2)
    project.task("BAD", success_criteria=["text('#done') == 'never'"])
    with storage_of_s3(monkeypatch) as bucket:
        stored = f"--task-store={bucket}/run-42"
        code, out = project.run("--task-cluster", "local:2", stored, "--task-shard", "1/2", plugin=SMALL)
        assert (code, "2 deselected" in out) == (pytest.ExitCode.TESTS_FAILED, True), out
        lost = r"these files were too large to travel: .*trace\.zip.*; they are only in the store, in errors/\S+/BAD"
        assert re.search(rf"BAD: {lost}", out)
        assert not (project.path / "errors" / "BAD" / "trace.zip").exists()
        code, out = project.run(stored, "--task-shard", "2/2")
        assert (code, "2 passed, 2 deselected" in out) == (pytest.ExitCode.OK, True), out
        code, out = project.run("--task-cluster", "local:2", stored, "--task-shard", "2/2")
        assert (code, "4 deselected" in out) == (pytest.ExitCode.OK, True), out
        merged, said = merged_store(f"{bucket}/run-42", project.path / "merged", "--strict")
    assert (len(merged.executions), said) == (4, "")
    assert (project.path / "merged" / "errors" / "BAD" / "trace.zip").is_file()


def test_a_signal_to_the_driver_asks_for_a_repetition(project: ClusterProject, store: Path) -> None:
    project.task("FAST", 0.1)
    project.task("LONG", 60, writes=False)
    process = project.start(*ON)
    until(lambda: ends_in(store) >= 1, WHILE)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=90)
    assert (process.returncode, "interrupted: LONG" in out) == (75, True), out
    project.task("LONG", 0.1, writes=False)
    code, out = project.run(*ON)
    assert (code, "1 passed, 1 deselected" in out) == (pytest.ExitCode.OK, True), out


def test_a_slot_that_sees_another_store_is_refused(project: ClusterProject) -> None:
    project.task("A")
    code, out = project.run("--task-cluster", "local:1", "--task-store", "memory://own")
    assert "memory://own/whole is not the store of the run, seen from this machine" in out
    assert code == pytest.ExitCode.INTERRUPTED, out
    assert project.site.orders == {}
