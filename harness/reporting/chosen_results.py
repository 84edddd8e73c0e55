"""Which of the results that have gathered in a folder are of the last run: those of others would look like retries."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.model.ports import Json
from harness.reporting.allure_run import began_of, run_of, without_run
from harness.reporting.documents import read_regular

ENVIRONMENT = "environment.properties"
MERGED = "-merged-"
"""In the id of a run that was put together of others: their results are all of that one run."""

_RUN = re.compile(r"^Run=(\d{8}T\d{6}-[\w-]+)\s*$", re.MULTILINE)
"""In Allure's environment table; the id of a run begins with the time at which it began (UTC)."""

Tests = dict[str, Json]
"""Name of the file -> its document."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a folder goes into the report."""

    tests: Tests
    left_out: tuple[str, ...] = ()
    """What does not: a line."""
    notes: tuple[str, ...] = ()
    """What else is to be known: a line."""
    run: str = ""
    """The id of the last run; empty when it cannot be told."""


def written_run(folder: Path) -> str:
    """The run that the environment table names: one that was killed before its first test ended is there alone."""
    try:
        found = _RUN.search(read_regular(folder / ENVIRONMENT).decode("utf-8"))
    except (OSError, ValueError):
        return ""
    return found[1] if found and began_of(found[1]) else ""


def choose(tests: Tests, written: str, *, all_runs: bool) -> Choice:
    """Those of the last run; `written` is the run that the environment table names."""
    if MERGED in written:
        return Choice({name: without_run(test) for name, test in tests.items()})
    last = max(written, *map(run_of, tests.values()), "")
    return Choice(tests) if all_runs or not last else _of_last_run(tests, last)


def _of_last_run(tests: Tests, last: str) -> Choice:
    """Nothing of earlier runs, when the last run did one of their tests again.

    Folders of shards that were put together hold different tests, and are all kept; of a test the latest run of it.
    """
    runs = {name: _run_of(test, last) for name, test in tests.items()}
    latest = _latest(tests, runs)
    again = any(run != last == latest[_key(tests[name], name)] for name, run in runs.items())
    wanted = dict.fromkeys(latest, last) if again else latest
    kept = {name: test for name, test in tests.items() if runs[name] == wanted[_key(test, name)]}
    gone = len(tests) - len(kept)
    line = f"{gone} of {len(tests)} results: of earlier runs (--all-runs keeps them)"
    own = sum(run == last for run in runs.values())
    return Choice(kept, (line,) if gone else (), _notes(last, own, len(kept)), last)


def _latest(tests: Tests, runs: dict[str, str]) -> dict[str, str]:
    """Test -> the id of the last run that did it."""
    found: dict[str, str] = {}
    for name, test in tests.items():
        key = _key(test, name)
        found[key] = max(found.get(key, ""), runs[name])
    return found


def _key(test: Json, name: str) -> str:
    return str(test.get("historyId") or name)


def _notes(last: str, own: int, kept: int) -> tuple[str, ...]:
    if not own:
        return (f"the last run, {last}, left no results of tests here: these are of earlier runs",)
    if own == kept:
        return ()
    return (f"{kept - own} of {kept} results are of other runs than the last, {last}, which did other tests",)


def _run_of(test: Json, last: str) -> str:
    """A result without a run's id is of the last run when it began in its time."""
    began = began_of(last)
    return run_of(test) or (last if began is not None and _start(test) >= began else "")


def _start(test: Json) -> datetime:
    try:
        return datetime.fromtimestamp(test["start"] / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return datetime.min.replace(tzinfo=UTC)
