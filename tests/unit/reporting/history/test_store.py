"""A run that was kept is read as it was, whatever is in it; the newest runs as a list, tasks over runs."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.recovery.catalog import Family
from harness.reporting.history.file import HISTORY, HistoryError
from harness.reporting.history.reading import load_run, recent_runs, task_points
from harness.reporting.history.record import Ending, Execution, Happening, Outcome, RunRecord
from harness.reporting.history.writing import drop_old_runs, save_run
from harness.reporting.task_record import AttemptLine, StepLine, TaskRecord
from tests.unit.conftest import examples
from tests.unit.reporting.history.runs import BEGAN, execution, executions, failed, many, nodeid, record, run, several

text = st.text(max_size=20)
seconds = st.floats(0, 1e6, allow_nan=False)
times = st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))
scalars = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | seconds | text
attempts = st.builds(AttemptLine, t=seconds, seconds=seconds, passed=st.booleans(), code=st.none() | text, note=text)
steps = st.builds(StepLine, index=st.integers(-1, 99), act=text, target=text, attempts=st.lists(attempts, max_size=3))
records = st.builds(
    TaskRecord,
    task_id=text,
    key=text,
    final_state=st.sampled_from(["completed", "partial_success", "failed", "aborted"]),
    code=st.none() | text,
    family=st.none() | st.sampled_from(list(Family)),
    step_index=st.none() | st.integers(-1, 99),
    message=text,
    seconds=seconds,
    warnings=st.lists(st.dictionaries(text, scalars, max_size=3), max_size=2),
    recoveries=st.lists(st.tuples(st.sampled_from(list(Family)), st.booleans()), max_size=2),
    started=st.none() | times,
    steps=st.lists(steps, max_size=3),
)
parts = st.builds(
    Execution,
    nodeid=st.sampled_from(["a::A", "b::B", "c::é\x00"]),
    task_id=text,
    number=st.integers(1, 9),
    outcome=st.sampled_from(get_args(Outcome)),
    seconds=seconds,
    at=st.none() | times,
    reason=text,
    record=st.none() | records,
)
around = st.builds(Happening, at=times, type=text, text=text, details=st.dictionaries(text, scalars, max_size=3))
runs = st.builds(
    RunRecord,
    run=text,
    started=times,
    finished=st.none() | times,
    ending=st.sampled_from(get_args(Ending)),
    exit_status=st.none() | st.integers(0, 5),
    arguments=st.lists(text, max_size=2),
    environment=st.dictionaries(text, text, max_size=2),
    ci=st.dictionaries(text, scalars, max_size=2),
    executions=st.lists(parts, max_size=4),
    happenings=st.lists(around, max_size=3),
    metrics=st.dictionaries(text, scalars, max_size=2),
)


@given(runs)
@settings(max_examples=examples(60), deadline=None)
def test_any_run_comes_back_as_it_was(kept: RunRecord) -> None:
    with tempfile.TemporaryDirectory() as folder:
        save_run(Path(folder), kept)
        assert load_run(Path(folder)) == kept
        (summary,) = recent_runs(Path(folder))
        assert summary.tasks == len(kept.last)
        assert set(task_points(Path(folder))) == {each.nodeid for each in kept.last}


def test_half_a_character_does_not_lose_the_task(tmp_path: Path) -> None:
    broken = record("T-1", message="half \ud83d of it", goal="\ud83d")
    save_run(tmp_path, run(parts=[execution(broken)], branch="\udcff"))
    found = load_run(tmp_path)
    assert (found.branch, found.executions[0].record and found.executions[0].record.message) == ("?", "half ? of it")


def test_a_run_is_there_once(tmp_path: Path) -> None:
    save_run(tmp_path, run())
    save_run(tmp_path, run(parts=executions()[:3], happenings=()))
    assert len(load_run(tmp_path).executions) == 3
    assert load_run(tmp_path).happenings == ()
    assert count(tmp_path, "documents") == 3


def count(root: Path, table: str) -> int:
    with closing(sqlite3.connect(root / HISTORY)) as database:
        return int(database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])


def test_rows_for_what_is_asked_for(tmp_path: Path) -> None:
    save_run(tmp_path, run())
    with closing(sqlite3.connect(tmp_path / HISTORY)) as database:
        codes = database.execute("SELECT code, message FROM failures ORDER BY execution").fetchall()
        tries = database.execute("SELECT act, attempts.number, passed FROM attempts JOIN executions ON id = execution "
                                 "WHERE task_id = 'T-RETRIED' ORDER BY position").fetchall()  # fmt: skip
        healed = database.execute("SELECT type, step FROM warnings").fetchall()
    assert len(codes) == 12
    assert codes[0] == ("ELEMENT_NOT_FOUND", "Element not found: #checkout")
    assert tries == [("open", 1, 0), ("open", 2, 0), ("open", 3, 1), ("click", 1, 1), ("type", 1, 1)]
    assert healed == [("fallback_selector_used", 1)]


def test_summary(tmp_path: Path) -> None:
    save_run(tmp_path, run())
    (found,) = recent_runs(tmp_path)
    counts = (found.passed, found.failed, found.skipped, found.flaky, found.healed)
    assert counts == (7, 10, 1, 1, 1)
    assert (found.retries, found.failure_rate, found.recovery_rate) == (14, 0.5882, 0.0769)
    assert (found.seconds, found.ending, found.branch) == (90, "finished", "main")


def test_what_was_cut_off_from_outside_is_counted_apart(tmp_path: Path) -> None:
    parts = [execution(record("A")), execution(failed("B", "STEP_TIMEOUT")), execution(failed("C", "INTERRUPTED"))]
    save_run(tmp_path, run(parts=parts, ending="interrupted"))
    (found,) = recent_runs(tmp_path)
    assert (found.passed, found.failed, found.not_judged, found.tasks, found.failure_rate) == (1, 1, 1, 3, 0.5)


def test_an_unfinished_run_lasts_until_what_was_seen_last(tmp_path: Path) -> None:
    save_run(tmp_path, run(ending="unfinished", finished=None))
    assert recent_runs(tmp_path)[0].seconds == load_run(tmp_path).seconds == 60


def test_points_of_a_task_over_runs(tmp_path: Path) -> None:
    days = several(10)
    for day in days:
        save_run(tmp_path, day)
    points = task_points(tmp_path, 4)[nodeid("T-FLAKY")]
    assert [(each.outcome, each.code) for each in points] == [("passed", None), ("failed", "STEP_TIMEOUT")] * 2
    assert points[-1].run == days[-1].run
    until = task_points(tmp_path, 4, until=days[5].run)[nodeid("T-FLAKY")]
    assert [each.run for each in until] == [day.run for day in days[2:6]]
    assert task_points(tmp_path, until="none") == {}


def test_a_rerun_is_one_point(tmp_path: Path) -> None:
    save_run(tmp_path, run())
    (point,) = task_points(tmp_path)[nodeid("T-FLAKY")]
    assert (point.outcome, point.executions, point.started) == ("passed", 2, BEGAN)


def test_a_rerun_that_did_not_come_about_has_failed(tmp_path: Path) -> None:
    save_run(tmp_path, run(parts=[execution(failed("T-1", "STEP_TIMEOUT"), "rerun")]))
    (point,) = task_points(tmp_path)[nodeid("T-1")]
    assert (point.outcome, point.code, recent_runs(tmp_path)[0].failed) == ("failed", "STEP_TIMEOUT", 1)


@pytest.mark.parametrize(
    ("name", "day"),
    [("last", 3), ("last-1", 2), ("last-3", 0), ("20251102T090000-4712", 1), ("20251103", 2)],
)
def test_names_of_runs(tmp_path: Path, name: str, day: int) -> None:
    days = several(4)
    for each in days:
        save_run(tmp_path, each)
    assert load_run(tmp_path, name).run == days[day].run


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("last-4", "there is no run 'last-4': the history has only 4 runs yet"),
        ("202511", "4 runs begin with '202511' (20251104T090000-4714, "),
        ("20251101T090000-4777", "no run '20251101T090000-4777' in the history; did you mean `20251101T090000-4711`?"),
        ("", "no run '' in the history; there are: 20251104T090000-4714, "),
    ],
)
def test_runs_that_there_are_not(tmp_path: Path, name: str, problem: str) -> None:
    for each in several(4):
        save_run(tmp_path, each)
    with pytest.raises(HistoryError) as error:
        load_run(tmp_path, name)
    assert str(error.value).startswith(problem)


def test_only_the_newest_stay(tmp_path: Path) -> None:
    for each in several(4):
        save_run(tmp_path, each)
    assert drop_old_runs(tmp_path, 1) == ("20251103T090000-4713", "20251102T090000-4712", "20251101T090000-4711")
    assert [each.run for each in recent_runs(tmp_path)] == ["20251104T090000-4714"]
    assert count(tmp_path, "executions") == count(tmp_path, "documents") == 6
    assert drop_old_runs(tmp_path, 0) == ("20251104T090000-4714",)
    assert count(tmp_path, "attempts") == count(tmp_path, "happenings") == 0
    with pytest.raises(HistoryError, match="the history has no run yet"):
        load_run(tmp_path)


def test_a_thousand_tasks(tmp_path: Path) -> None:
    kept = many(1000)
    save_run(tmp_path, kept)
    assert load_run(tmp_path).executions[3].task_id == kept.executions[3].task_id
    assert recent_runs(tmp_path)[0].failed == 100
    assert (tmp_path / HISTORY).stat().st_size < 4_000_000
    assert kept.executions[-1].at == BEGAN + timedelta(seconds=0.08 * 999)
