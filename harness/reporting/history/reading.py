"""Reads the history: one run as a value, the newest runs as a list, tasks over runs."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import cast

import msgspec
from msgspec import Struct

from harness.model.consumption import ModelFigures
from harness.reporting.files import MANIFEST, read_json, shown_path
from harness.reporting.history.comparison import RunComparison, compare
from harness.reporting.history.file import HistoryError, place_of, reading
from harness.reporting.history.record import (
    Execution,
    Outcome,
    PackedExecutions,
    RunRecord,
    RunSummary,
    TaskPoint,
    cost_per_success,
    counted,
    unpacked,
)
from harness.reporting.history.rows import ending_of, happening_of, is_running, readable, run_of
from harness.reporting.history.writing import import_pending_runs
from harness.spec.names import blank_unprintable, how_many
from harness.spec.problems import did_you_mean

# The present place of a task's files: another run moves them, and a history is read on other machines too.

PREVIOUS = ".previous"


def kept_place(artifacts: str, root: Path) -> str:
    """The path as the history keeps it: relative to the project if it lies inside."""
    place = Path(artifacts)
    return place.relative_to(root).as_posix() if place.is_relative_to(root) else artifacts


def found_again(each: Execution, root: Path, runs: tuple[str, ...]) -> Execution:
    """The execution with `artifacts` as the present path below the folder that the history was read from.

    `runs`: the run, or those it was merged from. The path is None if another run has replaced and dropped the
    artifacts, or if the path leads out of the folder.
    """
    record = each.record
    if record is None or record.artifacts is None or Path(record.artifacts).is_absolute():
        return each
    place = root.absolute() / record.artifacts
    if not place.resolve().is_relative_to(root.resolve()):
        found = None
    elif place.exists() or (place.parent / PREVIOUS).exists():
        found = next((path for path in _places(place, each, runs) if path.exists()), None)
    else:
        found = place
    return each.model_copy(update={"record": record.model_copy(update={"artifacts": found and str(found)})})


def _places(place: Path, each: Execution, runs: tuple[str, ...]) -> Iterator[Path]:
    """The possible paths; an execution that was repeated in the same run has been moved aside."""
    previous = [place.parent / PREVIOUS / run / place.name for run in runs]
    if each.outcome == "rerun":
        numbered = f"{place.name}-{each.number}" if each.number > 1 else place.name
        yield from (path.with_name(numbered) for path in previous)
    if _written_by(place) in (*runs, None):
        yield place
    yield from previous


def artifacts_of(artifacts: Path, key: str, run: str) -> Path | None:
    """The present folder of a task's artifacts of one run, by the name that it got; None if there is none any more."""
    place = artifacts / key
    found = (path for path in (place, place.parent / PREVIOUS / run / key) if path.is_dir())
    return next((path for path in found if _written_by(path) in (run, None)), None)


def _written_by(place: Path) -> str | None:
    """The run that the directory's manifest names, or None."""
    try:
        run = read_json(place / MANIFEST)["run"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return run if isinstance(run, str) else None


# The earlier run that a run is compared with by default: one with many of the same tasks.

_LEAST = 0.5
"""The share of the new run's tasks that an older run must have to be comparable."""


def _choose_older_run(root: Path, new: str) -> tuple[str, str]:
    """The name of the older run, and the reason in words if it is not simply the one before, else empty.

    `new`: the id of a run. Raises HistoryError if there is no earlier run.
    """
    with _reading(root) as database:
        tasks = int(database.execute(_TASKS, (new,)).fetchone()["tasks"])
        earlier = [(row["run"], row["common"]) for row in database.execute(_OVERLAPS, (new,))]  # the newest first
    if not earlier:
        raise HistoryError(f"the history has no run before {new}, so there is nothing to compare it with")
    (before, common), *_ = earlier
    if common >= _LEAST * tasks:
        return before, ""
    ran = f"the run before ({before}) ran {common} of the {tasks} tasks"
    found = next(((run, count) for run, count in earlier if count >= _LEAST * tasks), None)
    if found is None:
        return before, f"compared with the run before, although {ran}, because no earlier run has half of them"
    return found[0], f"{ran}; this is the newest that has at least half of them: {found[1]}"


# The comparison of two runs of a project, from its history of them and of the runs around them.

_WINDOW = 30
"""The number of runs up to the old one that define what is usual."""


def compare_runs(root: Path, old: str | None = None, new: str = "last") -> RunComparison:
    """Compare two runs. Raises HistoryError for an unknown run.

    `old`: None for the run before the new one, or if that ran other tasks, the newest that ran half of them.
    """
    two = load_run(root, new)
    name, why = _choose_older_run(root, two.run) if old is None else (old, "")
    one = load_run(root, name)
    before = task_points(root, _WINDOW, until=one.run)
    known = {point.run for points in before.values() for point in points}
    since = {
        nodeid: tuple(point for point in points if point.run not in known and point.started > one.started)
        for nodeid, points in task_points(root, _WINDOW, until=two.run).items()
    }
    return compare(one, two, before, since).model_copy(update={"why": why})


_NEWEST = "SELECT * FROM runs ORDER BY started DESC, run DESC LIMIT ?"
_UNTIL = """SELECT runs.* FROM runs, (SELECT started, run FROM runs WHERE run = ?) AS one
    WHERE (runs.started, runs.run) <= (one.started, one.run) ORDER BY runs.started DESC, runs.run DESC LIMIT ?"""
_LAST = """SELECT e.*, (SELECT COUNT(*) FROM executions AS f WHERE f.run = e.run AND f.nodeid = e.nodeid) AS times,
    COALESCE(failures.expected, 0) AS expected
    FROM executions AS e LEFT JOIN failures ON failures.execution = e.id
    WHERE e.id IN (SELECT MAX(id) FROM executions WHERE run = ? GROUP BY nodeid) ORDER BY e.id"""
_WORK = """SELECT COALESCE(SUM(retries), 0) AS retries, COALESCE(SUM(recoveries), 0) AS recoveries,
    COALESCE(SUM(recovered), 0) AS recovered, COALESCE(SUM(takeovers), 0) AS takeovers,
    COALESCE(SUM(model_calls), 0) AS calls, COALESCE(SUM(failed_calls), 0) AS failed_calls,
    COALESCE(SUM(replayed_calls), 0) AS replayed_calls, COALESCE(SUM(input_tokens), 0) AS input_tokens,
    COALESCE(SUM(cached_tokens), 0) AS cached_tokens, COALESCE(SUM(output_tokens), 0) AS output_tokens,
    COALESCE(SUM(cost_usd), 0) AS cost_usd, COALESCE(SUM(unpriced_calls), 0) AS unpriced_calls,
    COALESCE(SUM(tool_calls), 0) AS tool_calls, COALESCE(SUM(tool_errors), 0) AS tool_errors,
    COALESCE(SUM(tool_failures), 0) AS tool_failures
    FROM executions WHERE run = ?"""
"""The work of all executions: a task that was run again did its retries all the same."""
_PARTS = "SELECT document FROM executions JOIN documents ON execution = id WHERE run = ? ORDER BY id"
_AROUND = "SELECT document FROM happenings WHERE run = ? ORDER BY position"
_OVERLAPS = """SELECT runs.run, COUNT(DISTINCT e.nodeid) AS common
    FROM (SELECT started, run FROM runs WHERE run = ?) AS one
    JOIN runs ON (runs.started, runs.run) < (one.started, one.run)
    LEFT JOIN executions AS e ON e.run = runs.run AND e.nodeid IN (SELECT nodeid FROM executions WHERE run = one.run)
    GROUP BY runs.run ORDER BY runs.started DESC, runs.run DESC"""
_TASKS = "SELECT COUNT(DISTINCT nodeid) AS tasks FROM executions WHERE run = ?"
_NOT_GREEN = "SELECT nodeid FROM executions WHERE run = ? AND outcome IN ('failed', 'rerun')"
_PASSED = """SELECT task_id, seconds FROM executions WHERE outcome = 'passed'
    AND run IN (SELECT run FROM runs WHERE run != ? ORDER BY started DESC, run DESC LIMIT ?)"""
_BACK = re.compile(r"last(?:-([0-9]{1,6}))?")


def load_run(root: Path, name: str = "last") -> RunRecord:
    """Load one run of a project. Raises HistoryError if there is no history, or no such run.

    `name`: `last`, `last-1` (the one before), its id, or the beginning of an id that no other run has.
    """
    with _reading(root) as database:
        row = _row(database, name)
        run = run_of(row, (happening_of(each["document"]) for each in database.execute(_AROUND, (row["run"],))))
        runs = (run.run, *run.merged_from)
        parts = (unpacked(each["document"]) for each in database.execute(_PARTS, (row["run"],)))
        with readable(row):
            executions = PackedExecutions.of(found_again(each, root, runs) for each in parts)
    return run.model_copy(update={"executions": executions})


def recent_runs(root: Path, limit: int = 30) -> tuple[RunSummary, ...]:
    """The newest runs first. Raises HistoryError."""
    with _reading(root) as database:
        return tuple(_summary(database, row) for row in database.execute(_NEWEST, (limit,)).fetchall())


def task_points(
    root: Path, runs: int = 30, until: str | None = None, not_green_in: str | None = None
) -> dict[str, tuple[TaskPoint, ...]]:
    """Node id -> its results in the newest runs, oldest first. Raises HistoryError.

    `until`: the id of a run; only it and runs that began before it count. `not_green_in`: the id of a run; only tasks
    that failed once, in it or in one of these runs, count: of a large suite that is a small part.
    """
    points: dict[str, list[TaskPoint]] = {}
    with _reading(root) as database:
        found = database.execute(_UNTIL, (until, runs)) if until else database.execute(_NEWEST, (runs,))
        rows, wanted = found.fetchall()[::-1], set[str]()
        for run in {not_green_in, *(row["run"] for row in rows)} if not_green_in else ():
            wanted.update(each["nodeid"] for each in database.execute(_NOT_GREEN, (run,)))
        for row in rows:
            for each in database.execute(_LAST, (row["run"],)):
                if not_green_in and each["nodeid"] not in wanted:
                    continue
                points.setdefault(each["nodeid"], []).append(_point(row, each))
    return {nodeid: tuple(found) for nodeid, found in points.items()}


def usual_seconds(root: Path, runs: int = 30, besides: str = "") -> dict[str, float]:
    """Id of a task -> the median duration, in seconds, of its passed executions in the newest runs.

    `besides`: the id of a run that does not count. Raises HistoryError.
    """
    import_pending_runs(root)
    return seconds_in(place_of(root), runs, besides)


RUNS_OF_DURATIONS = 30
"""The number of runs that durations come from."""


def seconds_in(history: Path, runs: int = RUNS_OF_DURATIONS, besides: str = "") -> dict[str, float]:
    """`usual_seconds` of a history, by its file."""
    found: dict[str, list[float]] = {}
    with reading(history) as database:
        for row in database.execute(_PASSED, (besides, runs)):
            found.setdefault(row["task_id"], []).append(row["seconds"])
    return {task: round(median(seconds), 3) for task, seconds in found.items()}


def _reading(root: Path) -> AbstractContextManager[sqlite3.Connection]:
    """Open the history, after adding the runs that could not be written before."""
    import_pending_runs(root)
    return reading(place_of(root))


def _row(database: sqlite3.Connection, name: str) -> sqlite3.Row:
    if back := _BACK.fullmatch(name):
        return _run_before_last(database, int(back[1] or 0))
    known = [str(row["run"]) for row in database.execute("SELECT run FROM runs ORDER BY started DESC, run DESC")]
    meant = [name] if name in known else [run for run in known if name and run.startswith(name)]
    if len(meant) == 1:
        row: sqlite3.Row | None = database.execute("SELECT * FROM runs WHERE run = ?", (meant[0],)).fetchone()
        if row is None:
            raise HistoryError("the run was dropped from the history a moment ago")
        return row
    if meant:
        raise HistoryError(f"{len(meant)} runs begin with {name!r} ({_list_some(meant)}); write more of the id")
    hint = did_you_mean(name, known) or (f"there are: {_list_some(known)}" if known else "the history is empty")
    raise HistoryError(f"no run {name!r} in the history; {hint}")


def _run_before_last(database: sqlite3.Connection, number: int) -> sqlite3.Row:
    rows = database.execute(_NEWEST, (number + 1,)).fetchall()
    if len(rows) <= number:
        name = f"last-{number}" if number else "last"
        kept = f"only {how_many(len(rows), 'run')}" if rows else "no run"
        raise HistoryError(f"there is no run {name!r}: the history has {kept} yet")
    return cast("sqlite3.Row", rows[-1])


def _list_some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def _summary(database: sqlite3.Connection, row: sqlite3.Row) -> RunSummary:
    last = database.execute(_LAST, (row["run"],)).fetchall()
    outcomes = Counter(counted(each["outcome"], each["code"]) for each in last)
    passed, failed = outcomes["passed"], outcomes["failed"]
    work = database.execute(_WORK, (row["run"],)).fetchone()
    used = ModelFigures(**{name: work[name] for name in ModelFigures.model_fields if name in work.keys()})  # noqa: SIM118
    asked = sum(each["outcome"] == "passed" and each["model_calls"] > 0 for each in last)
    known = {name: row[name] for name in ("run", "started", "finished", "branch", "shard", "note")}
    sums = {name: work[name] for name in ("retries", "takeovers", "tool_calls", "tool_errors", "tool_failures")}
    return RunSummary(
        **known,
        **sums,
        ending=ending_of(row),
        seconds=_seconds(database, row),
        passed=passed,
        expected=sum(each["outcome"] == "passed" and each["expected"] for each in last),
        failed=failed,
        not_judged=outcomes["not judged"],
        skipped=outcomes["skipped"],
        flaky=sum(each["outcome"] == "passed" and each["times"] > 1 for each in last),
        healed=sum(each["healed"] for each in last),
        commit=row["commit_id"],
        failure_rate=round(failed / (passed + failed), 4) if passed + failed else None,
        recovery_rate=round(work["recovered"] / work["recoveries"], 4) if work["recoveries"] else None,
        used=used,
        cost_per_success=cost_per_success(used, asked),
        running=is_running(row),
    )


def _seconds(database: sqlite3.Connection, row: sqlite3.Row) -> float:
    """The seconds from the begin of a run to its end; of one without an end, until it was last active."""
    last = "SELECT MAX(at) AS at FROM happenings WHERE run = ?"
    if not (end := row["finished"] or database.execute(last, (row["run"],)).fetchone()["at"]):
        return 0.0
    took = datetime.fromisoformat(end) - datetime.fromisoformat(row["started"])
    return max(0.0, round(took.total_seconds(), 3))


def _point(run: sqlite3.Row, row: sqlite3.Row) -> TaskPoint:
    outcome = "failed" if row["outcome"] == "rerun" else row["outcome"]
    return TaskPoint(
        run=run["run"],
        started=run["started"],
        outcome=cast("Outcome", outcome),
        executions=row["times"],
        seconds=row["seconds"],
        healed=bool(row["healed"]),
        retries=row["retries"],
        code=row["code"] if outcome == "failed" else None,
        agent=row["agent"],
        calls=row["model_calls"],
        tokens=row["input_tokens"] + row["output_tokens"],
        cost_usd=None if row["unpriced_calls"] else row["cost_usd"],
    )


# The durations by which a suite is divided: from a history, or from what `harness history durations` has written.

_SQLITE = b"SQLite format 3\0"
_HOW = "write it with: harness history durations > durations.json"


class Durations(Struct, frozen=True, forbid_unknown_fields=True):
    """The document that `harness history durations` writes."""

    seconds: dict[str, float]
    """Id of a task -> the median duration, in seconds, of its passed executions."""
    runs: int = RUNS_OF_DURATIONS
    """The number of runs, the newest first, that were read."""

    @property
    def digest(self) -> str:
        """A short name of the values: machines that divide a suite by the same ones have the same."""
        text = json.dumps(self.seconds, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def usual(self) -> float:
        """The seconds that an unknown task is expected to take: the median of the known ones."""
        return median(self.seconds.values()) if self.seconds else 1.0

    def of(self, task_id: str) -> float:
        return self.seconds.get(task_id, self.usual)


def read_durations(file: Path) -> Durations:
    """Read the durations in a file: a history (`history.sqlite3`) or the document. Raises HistoryError."""
    try:
        with file.open("rb") as opened:
            history = opened.read(len(_SQLITE)) == _SQLITE
        if history:
            found = Durations(dict(sorted(seconds_in(file).items())))
        else:
            found = msgspec.json.decode(file.read_bytes(), type=Durations)
    except OSError as error:
        raise HistoryError(f"{shown_path(file)}: cannot be read: {error.strerror or error}; {_HOW}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        expected = "expected a history (history.sqlite3) or the document of `harness history durations`"
        raise HistoryError(f"{shown_path(file)}: {expected}, found something else: {error}; {_HOW}") from error
    if (
        wrong := next((each for each, long in found.seconds.items() if not 0 <= long < float("inf")), None)
    ) is not None:
        raise HistoryError(
            f"{shown_path(file)}: expected a number of seconds, 0 or more, for {blank_unprintable(wrong)}; {_HOW}"
        )
    return found
