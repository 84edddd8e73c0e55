"""`--task-store`: a part goes on after its machine was taken away. No write is done twice; each task has one report."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.acceptance.preempted import Suite, end, ends_in, merging, until
from tests.acceptance.warm import Forked


@pytest.fixture
def suite(tmp_path: Path) -> Iterator[Suite]:
    made = Suite(tmp_path / "project", 4)
    yield made
    made.close()


def kill(process: Forked, number: int = signal.SIGKILL) -> None:
    """As a machine that is taken away: everything that the process has started goes too."""
    if number == signal.SIGKILL:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)


def test_a_part_goes_on_after_a_signal_of_the_machine_and_after_it_was_taken_away(suite: Suite, tmp_path: Path) -> None:
    """A signal asks for a repetition. T-2 is killed after its order: it does not run again.

    What has an end is not run, the rest is.
    """
    suite.write(1, 5)
    suite.write(2, 5)
    store = tmp_path / "store"
    process = suite.start("--task-store", str(store))
    until(lambda: ends_in(store) == 1 and suite.asked("/slow?seconds=5"))
    kill(process, signal.SIGTERM)
    status, output = end(process)
    assert (status, "interrupted: T-1" in output) == (75, True), output
    assert "store: everything is stored, and this part is to be repeated (status 75)" in output
    suite.write(1, 0)
    process = suite.start("--task-store", str(store))
    until(lambda: suite.placed().get("i2"))
    kill(process)
    assert end(process)[0] == -signal.SIGKILL
    status, output = suite.run("--task-store", store.as_uri())
    assert status == 1, output
    assert "task store: 2 tasks ended in earlier processes of this part, 1 cannot run again, 1 to run" in output
    assert "WORKER_CRASHED" in output
    assert "1 failed, 1 passed, 2 deselected" in output
    again, output = suite.run("--task-store", str(store))
    assert (again, "4 deselected" in output) == (1, True), output
    assert "task store: 4 tasks ended in earlier processes of this part (1 failed: T-2), 0 to run" in output
    merged, said = suite.merge(store.as_uri(), tmp_path / "merged", "--strict")
    assert (said, merged.ending) == ("", "finished")
    outcomes = {each.task_id: each.record.code if each.record else None for each in merged.executions}
    assert outcomes == {"T-0": None, "T-1": None, "T-2": "WORKER_CRASHED", "T-3": None}
    assert len(merged.executions) == 4
    assert (tmp_path / "merged/errors/T-2/error_report.json").is_file()
    assert suite.placed() == {"i0": 1, "i2": 1}


@pytest.mark.thorough
@pytest.mark.parametrize("options", [("-n", "2"), ("-n", "2", "--task-workers", "2")], ids=["xdist", "ahead"])
def test_a_signal_loses_no_end_of_an_xdist_worker(suite: Suite, tmp_path: Path, options: tuple[str, ...]) -> None:
    """The workers end their tasks after the controller has stopped listening."""
    for number in (0, 2):
        suite.write(number, 1.5)
    store = tmp_path / "store"
    process = suite.start("--task-store", str(store), *options)
    until(lambda: suite.placed().get("i0"))
    kill(process, signal.SIGTERM)
    status, output = end(process)
    assert status == 75, output
    status, output = suite.run("--task-store", str(store), *options)
    assert status == 0, output
    merged, said = suite.merge(str(store), tmp_path / "merged", "--strict")
    assert (said, len(merged.executions)) == ("", 4)
    assert suite.placed() == {"i0": 1, "i2": 1}


def test_parts_have_places_of_their_own_and_an_empty_one_is_a_success(suite: Suite, tmp_path: Path) -> None:
    for number in ("T-1", "T-2", "T-3"):
        (suite.folder / "tasks" / f"{number}.task.json").unlink()
    store = tmp_path / "store"
    environ = {**os.environ, "TASK_SHARDS": "2"}
    for index in range(2):
        given = {**environ, "JOB_COMPLETION_INDEX": str(index)}
        status, output = suite.run("--task-shard", "env", "--task-store", "../store", environ=given)
        assert status == 0, output
    merged, said = suite.merge(str(store), tmp_path / "merged")
    assert sorted(each.task_id for each in merged.executions) == ["T-0"]
    assert said == "warning: part 2 of 2 is missing\n"


def test_the_store_of_another_run_is_refused(suite: Suite, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "run.json").write_text('{"parts": "3"}')
    status, output = suite.run("--task-store", str(tmp_path / "store"))
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "belongs to another run: it has a run in 3 part(s), and this one is in 1" in output
    status, output = suite.run("--task-store", "foo://x")
    assert (status, "--task-store: foo://x: Protocol not known: foo" in output) == (4, True)


@pytest.mark.parametrize("options", [(), pytest.param(("-n", "2"), marks=pytest.mark.thorough)], ids=["one", "xdist"])
def test_a_part_of_other_tasks_is_refused_before_anything_runs(
    suite: Suite, tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "divided").write_text("of others")
    status, output = suite.run("--task-shard", "1/2", "--task-store=../store", "-k", "T-0 or T-1", *options)
    assert (status, "its parts are of other tasks (of others) than those found here" in output) == (4, True), output
    assert not list((tmp_path / "store").rglob("*.jsonl"))


@pytest.mark.thorough
def test_a_store_that_fails_in_the_middle_is_told_once_and_nothing_is_written_without_it(
    suite: Suite, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    suite.write(1, 3)
    process = suite.start("--task-store", str(store))
    until(lambda: ends_in(store) == 1)
    (store / "whole").rename(store / "away")
    (store / "whole").write_text("no folder")
    status, output = end(process)
    assert status == 75, output
    assert output.count("not everything is stored") == 1
    assert "WORKER_CUT_OFF" in output
    assert suite.placed() == {"i0": 1}
    (store / "whole").unlink()
    (store / "away").rename(store / "whole")
    status, output = suite.run("--task-store", str(store))
    assert (status, "3 passed, 1 deselected" in output) == (0, True), output
    assert suite.placed() == {"i0": 1, "i2": 1}


def _empty_mount(store: Path) -> None:
    store.rename(store.with_name("away"))
    store.mkdir()


def _journal_deleted(store: Path) -> None:
    shutil.rmtree(store / "whole" / "journal")


def _journal_shorter(store: Path) -> None:
    for path in (store / "whole" / "journal").rglob("*.jsonl"):
        path.write_bytes(path.read_bytes()[:10])


LOSSES: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "deleted": (shutil.rmtree, ()),
    "deleted-n2": (shutil.rmtree, ("-n", "2")),
    "empty-mount": (_empty_mount, ()),
    "journal-deleted": (_journal_deleted, ()),
    "journal-shorter": (_journal_shorter, ()),
}


@pytest.mark.thorough
def test_a_store_that_vanishes_is_not_made_anew_and_its_part_orders_nothing_twice(tmp_path: Path) -> None:
    """T-0 has ordered and passed when the notes vanish. All losses at once, since each run waits for its store."""
    runs = {}
    with ExitStack() as stack:
        for name, (lose, options) in LOSSES.items():
            suite, store = Suite(tmp_path / name / "project", 5), tmp_path / name / "store"
            stack.callback(suite.close)
            for number in (1, 2, 3):  # whichever two run side by side, T-4 comes after the loss
                suite.write(number, 10)
            runs[name] = suite, store, lose, suite.start("--task-store", str(store), *options)
        for suite, store, lose, _ in runs.values():
            until(lambda suite=suite, store=store: ends_in(store, "T-0") and suite.asked("/slow?seconds=10"))
            lose(store)
        for name, (suite, store, _, process) in runs.items():
            status, output = end(process)
            assert (status, output.count("not everything is stored")) == (75, 1), (name, output)
            placed = suite.placed()
            assert placed["i0"] == 1, (name, output)
            assert "i4" not in placed, (name, output)
            assert "WORKER_CUT_OFF" in output, (name, output)
            assert store.exists() == (not name.startswith("deleted")), name
            assert merging(store, tmp_path / name / "merged")[0] == 1, name
            status, output = suite.run("--task-store", str(store))
            assert suite.placed() == placed, (name, output)
            assert status == (4 if name == "journal-shorter" else 75), (name, output)
        suite, store, _, _ = runs["empty-mount"]
        assert list(store.iterdir()) == []
        store.rmdir()
        store.with_name("away").rename(store)
        status, output = suite.run("--task-store", str(store))
        assert (status, suite.placed()) == (0, {"i0": 1, "i2": 1, "i4": 1}), output


@pytest.mark.thorough
@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["one", "xdist"])
def test_a_click_that_posts_unknown_to_the_store_asks_for_no_repetition(
    suite: Suite, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Its file does not say that it writes, so it does not ask; a repetition would place a second order."""
    store = tmp_path / "store"
    steps = [
        {"act": "open", "url": f"{suite.url}/slow?seconds=4"},
        {"act": "open", "url": f"{suite.url}/buy?item=i1&more="},
        {"act": "click", "selector": "#post"},
        {"act": "wait", "selector": "#order"},
    ]
    document = {"task_id": "T-1", "goal": "g", "timeout": 60, "step_timeout": 20, "steps": steps}
    (suite.folder / "tasks" / "T-1.task.json").write_text(json.dumps(document), "utf-8")
    process = suite.start("--task-store", str(store), "-k", "T-1", *options)
    until(lambda: suite.asked("/slow?seconds=4"))
    (store / "whole").rename(store / "away")
    (store / "whole").write_text("no folder")
    status, output = end(process)
    assert suite.placed() == {"i1": 1}
    assert (status, "what these tasks have done: T-1." in output) == (1, True), output


@pytest.mark.thorough
@pytest.mark.parametrize("options", [(), ("--task-workers", "3"), ("-n", "2")], ids=["one", "workers", "xdist"])
def test_the_same_part_twice_at_once_writes_once(suite: Suite, tmp_path: Path, options: tuple[str, ...]) -> None:
    store = tmp_path / "store"
    both = [suite.start("--task-store", str(store), *options) for _ in range(2)]
    found = [end(process) for process in both]
    statuses = sorted(status for status, _ in found)
    assert statuses in ([0, 75], [75, 75]), [output for _, output in found]
    status, output = suite.run("--task-store", str(store), *options)
    assert status == 0, output
    merged, said = suite.merge(str(store), tmp_path / "merged", "--strict")
    assert (said, len(merged.executions)) == ("", 4)
    assert suite.placed() == {"i0": 1, "i2": 1}
