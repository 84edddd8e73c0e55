"""A run that goes on: each task is kept when it is known; others in the way, processes that are gone."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from harness.reporting.history.file import HISTORY, HistoryError, open_writing
from harness.reporting.history.reading import load_run, recent_runs
from harness.reporting.history.record import RunRecord
from harness.reporting.history.writing import RunWriter, keep_beside, save_run
from harness.resilience import SystemClock
from harness.resilience.owner import Owner
from harness.values import replace
from tests.unit.reporting.history.runs import execution, executions, failed, many, record, run


def begun(name: str = "20251116T090000-4711") -> RunRecord:
    return run(name, [], ending="unfinished", finished=None, exit_status=None, happenings=(), metrics={})


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RunWriter]:
    found = RunWriter(tmp_path, begun(), Owner.this())
    yield found
    found.close()


def test_each_task_is_there_at_once(writer: RunWriter, tmp_path: Path) -> None:
    for number, each in enumerate(executions(), 1):
        writer.add(each)
        assert len(load_run(tmp_path).executions) == number
    assert load_run(tmp_path).ending == "unfinished"
    writer.finish(run(), 10)
    assert load_run(tmp_path) == run(parts=load_run(tmp_path).executions, metrics=run().metrics)
    assert [each.nodeid for each in load_run(tmp_path).executions] == [each.nodeid for each in executions()]


def test_a_later_version_adds_columns_meanwhile(writer: RunWriter, tmp_path: Path) -> None:
    """A process that has the file open does not look at its schema again."""
    assert recent_runs(tmp_path) != (), "it has the file open"
    with closing(sqlite3.connect(tmp_path / HISTORY)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        assert len(tables) == 7
        for table in tables:
            database.execute(f"ALTER TABLE {table} ADD COLUMN later TEXT NOT NULL DEFAULT 'x'")
    for each in executions():
        writer.add(each)
    writer.finish(run(), 10)
    save_run(tmp_path, run("20251116T100000-1"))
    assert [(each.passed, each.failed, each.ending) for each in recent_runs(tmp_path)] == [(7, 10, "finished")] * 2


def test_what_is_known_better_later(writer: RunWriter, tmp_path: Path) -> None:
    writer.add(execution(record("T-1")))
    writer.add(execution(record("T-1"), "failed"))
    assert [each.outcome for each in load_run(tmp_path).executions] == ["failed"]


def test_a_run_without_tasks_leaves_nothing(writer: RunWriter, tmp_path: Path) -> None:
    writer.finish(run(parts=[]), 10)
    assert recent_runs(tmp_path) == ()


def test_only_so_many_runs_are_kept(tmp_path: Path) -> None:
    for second in range(5):
        name = f"20251116T09000{second}-1"
        writer = RunWriter(tmp_path, begun(name), Owner.this())
        writer.add(execution(record("T-1")))
        writer.finish(run(name, []), 3)
        writer.close()
    assert [each.run[13:15] for each in recent_runs(tmp_path)] == ["04", "03", "02"]


def test_another_process_in_the_way_delays_a_row_and_loses_none(writer: RunWriter, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / HISTORY, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        writer.add(execution(record("T-1")))
        assert load_run(tmp_path).executions == ()
        other.execute("COMMIT")
    writer.add(execution(failed("T-2", "STEP_TIMEOUT")))
    assert [each.task_id for each in load_run(tmp_path).executions] == ["T-1", "T-2"]


@pytest.mark.parametrize("before", [0, 1])
def test_what_another_process_does_not_let_in_until_the_end_is_taken_in_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    for name in ("PATIENCE", "READER_PATIENCE", "QUICK", "FINAL"):
        monkeypatch.setattr(f"harness.reporting.history.writing.{name}", 0.05)
    parts = [
        execution(record("T-1")),
        execution(failed("T-2", "STEP_TIMEOUT")),
        execution(record("T-3", goal="\ud83d")),
    ]
    open_writing(tmp_path / HISTORY).close()
    with closing(sqlite3.connect(tmp_path / HISTORY, isolation_level=None)) as other:
        writer = RunWriter(tmp_path, begun(), Owner.this()) if before else None
        if writer:
            writer.add(parts[0])
        other.execute("BEGIN IMMEDIATE")
        writer = writer or RunWriter(tmp_path, begun(), Owner.this())
        for each in parts[before:]:
            writer.add(each)
        note = writer.finish(run(), 10)
        writer.close()
        assert "another process holds the history" in note
        assert f"({3 - before} tasks) are in history.sqlite3.unwritten-20251116T090000-4711.json" in note
        assert len([each.run for each in recent_runs(tmp_path)]) == before
    found = load_run(tmp_path)
    assert [each.task_id for each in found.executions] == ["T-1", "T-2", "T-3"]
    assert (found.ending, found.happenings) == ("finished", run().happenings)
    assert [*(tmp_path / ".harness").glob("*unwritten*")] == []


def test_what_a_full_disk_does_not_take_waits_and_is_kept_beside(
    databases: list[sqlite3.Connection], writer: RunWriter, tmp_path: Path
) -> None:
    database = databases[-1]
    pages = database.execute("PRAGMA page_count").fetchone()[0]
    database.execute(f"PRAGMA max_page_count = {pages}")
    parts = many(30).executions
    for each in parts:
        writer.add(each)
    assert "there is no space for the history" in writer.finish(run(), 10)
    writer.close()
    assert {each.nodeid for each in load_run(tmp_path).executions} == {each.nodeid for each in parts}


def test_where_there_is_no_room_beside_it_either_that_is_said(tmp_path: Path) -> None:
    (tmp_path / ".harness").write_text("", "utf-8")
    with pytest.raises(HistoryError, match="the rows that the history could not take cannot be written here either"):
        keep_beside(tmp_path, run())


def test_a_run_takes_in_what_an_earlier_one_could_not_write(tmp_path: Path) -> None:
    keep_beside(tmp_path, run())
    RunWriter(tmp_path, begun("20251117T090000-1"), Owner.this()).close()
    assert [(each.run, each.tasks) for each in recent_runs(tmp_path)] == [("20251117T090000-1", 0), (run().run, 18)]


def test_a_file_beside_it_that_is_none_of_ours_is_left_as_it_is(tmp_path: Path) -> None:
    broken = keep_beside(tmp_path, run("20251115T090000-1"))
    broken.write_text("{", "utf-8")
    keep_beside(tmp_path, run())
    assert [each.run for each in recent_runs(tmp_path)] == [run().run]
    assert broken.exists()


def test_a_table_that_is_gone_is_said(writer: RunWriter, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / HISTORY, isolation_level=None)) as other:
        other.execute("DROP TABLE attempts")
    with pytest.raises(HistoryError, match="the history cannot be used: no such table"):
        writer.add(execution(record("T-1")))


def test_two_runs_at_once(writer: RunWriter, tmp_path: Path) -> None:
    other = RunWriter(tmp_path, begun("20251116T090001-4712"), Owner.this())
    for each in executions():
        writer.add(each)
        other.add(each)
    other.close()
    assert [each.passed + each.failed + each.skipped for each in recent_runs(tmp_path)] == [18, 18]


def test_several_begin_one_history_at_the_same_moment(tmp_path: Path) -> None:
    barrier = threading.Barrier(4)

    def write(number: int) -> None:
        barrier.wait()
        name = f"20251116T09000{number}-1"
        writer = RunWriter(tmp_path, begun(name), Owner.this())
        for each in executions():
            writer.add(each)
        writer.finish(run(name), 10)
        writer.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert [(each.passed, each.failed, each.ending) for each in recent_runs(tmp_path)] == [(7, 10, "finished")] * 4


def test_a_later_run_says_that_a_process_is_gone(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    first = RunWriter(tmp_path, begun(), Owner(gone.pid))
    first.add(execution(record("T-1")))
    first.close()
    events = tmp_path / ".harness" / "events" / "20251116T090000-4711.jsonl"
    events.parent.mkdir()
    stamp = {"run": "20251116T090000-4711", "worker": "", "task_id": "", "step": None, "faulted": False}
    event = {"service": "demo", "from": "up", "to": "down", "reason": "exit code 1"}
    line = {"at": "2025-11-16T09:00:30+00:00", "level": "WARNING", "type": "service-status", **stamp, **event}
    events.write_text(json.dumps(line) + "\n", "utf-8")
    assert (load_run(tmp_path).ending, recent_runs(tmp_path)[0].ending) == ("killed", "killed"), "as its readers see it"
    RunWriter(tmp_path, begun("20251116T100000-1"), Owner.this()).close()
    with closing(sqlite3.connect(tmp_path / HISTORY)) as database:
        written = database.execute("SELECT ending FROM runs ORDER BY started").fetchall()
    assert written == [("killed",), ("unfinished",)], "for those who read it elsewhere"
    found = load_run(tmp_path, "last-1")
    assert found.note == f"its process (pid {gone.pid}) has died; what it had done until then is kept"
    assert (found.ending, len(found.executions), found.seconds) == ("killed", 1, 30)
    assert [each.text for each in found.happenings] == ["service demo: up -> down (exit code 1)"]
    assert [each.note for each in recent_runs(tmp_path)] == ["", found.note]


@pytest.mark.parametrize(
    "process",
    [
        Owner.this(),
        Owner(4711, host="another machine"),
        Owner(),
        replace(Owner.this(), birth=1.0, namespace=1),
    ],
    ids=["goes on", "of another machine", "of nobody", "of another pid namespace"],
)
def test_of_others_nothing_is_said(tmp_path: Path, process: Owner) -> None:
    assert not process.gone
    RunWriter(tmp_path, begun(), process).close()
    RunWriter(tmp_path, begun("20251116T100000-1"), Owner.this()).close()
    assert [(each.note, each.ending) for each in recent_runs(tmp_path)] == [("", "unfinished")] * 2


def test_a_clock_that_was_set_ends_no_process(
    writer: RunWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start in seconds since the epoch moves with the clock."""
    writer.add(execution(record("T-1")))
    began = psutil.Process().create_time()
    monkeypatch.setattr(psutil.Process, "create_time", lambda _process: began + 3600)
    found = load_run(tmp_path)
    assert (found.ending, found.running) == ("unfinished", True)
    RunWriter(tmp_path, begun("20251116T100000-1"), Owner.this()).close()
    assert [(each.note, each.ending) for each in recent_runs(tmp_path)] == [("", "unfinished")] * 2


def test_a_task_costs_little(writer: RunWriter, tmp_path: Path) -> None:
    """Under 5 ms; ten times that is allowed on a busy machine."""
    clock, parts = SystemClock(), many(100).executions
    began = clock.now()
    for each in parts:
        writer.add(each)
    assert (clock.now() - began) / len(parts) < 0.05
    assert len(load_run(tmp_path).executions) == 100


def test_a_run_that_no_task_ran_in_leaves_nothing_beside_it_either(writer: RunWriter, tmp_path: Path) -> None:
    writer.add(executions()[0])
    keep_beside(tmp_path, run("20251117T090000-1", []))
    assert [each.run for each in recent_runs(tmp_path)] == [begun().run]


def test_what_cannot_be_removed_is_taken_in_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    keep_beside(tmp_path, run())
    monkeypatch.setattr(Path, "unlink", refused)
    before = load_run(tmp_path)
    with closing(sqlite3.connect(tmp_path / HISTORY)) as database:
        seen = database.execute("PRAGMA data_version").fetchone()
        assert load_run(tmp_path) == before
        assert database.execute("PRAGMA data_version").fetchone() == seen, "another connection has written"
