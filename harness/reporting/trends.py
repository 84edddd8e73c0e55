"""What Allure knows of earlier runs, kept in `.harness/`: trends go on when the folder of results is emptied.

A report that is built again is no new run: what Allure kept of the same run is taken out before it is written anew.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from harness.model.ports import Json
from harness.reporting.allure_results import Results
from harness.reporting.documents import write_text

HISTORY_3 = Path(".harness/allure-history.jsonl")
HISTORY_2 = Path(".harness/allure-history-2")
KEPT = 50
"""Runs in Allure 3's history; Allure 2 keeps 20 of itself."""

Starts = frozenset[tuple[str, int]]
"""Full name of a test, and when it began, in milliseconds since 1970: Allure 3 makes history ids of its own."""


def starts_of(results: Results) -> Starts:
    return frozenset((str(test.get("fullName")), int(test["start"])) for test in results.tests.values())


def earlier_points(history: Path, starts: Starts) -> tuple[list[str], list[str]]:
    """The lines of Allure 3's history that are of other runs; and what was left out of it, a line each."""
    lines = history.read_text("utf-8", "replace").splitlines() if history.is_file() else []
    kept, left_out = [], []
    for number, line in enumerate(lines, 1):
        point = _point(line)
        if point is None:
            left_out.append(f"{history.name}:{number}: not a run, maybe half-written")
        elif not _is_part(point, starts):
            kept.append(line)
    return kept[-KEPT:], left_out


def keep_points(built: Path, history: Path) -> None:
    """After a report: what Allure wrote is kept. Nothing when it wrote none."""
    if built.is_file():
        write_text(history, built.read_text("utf-8", "replace"))


def _point(line: str) -> Json | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("testResults"), dict) else None


def _is_part(point: Json, starts: Starts) -> bool:
    """Whether it is of this run: of the results of one test Allure keeps the last, so that it may have fewer."""
    found = {(item.get("fullName"), item.get("start")) for item in _items(point)}
    return bool(found) and found <= starts


def _items(point: Json) -> Iterator[Json]:
    return (item for item in point["testResults"].values() if isinstance(item, dict))


def lend_history(kept: Path, staged: Path, run: str) -> None:
    """Before an Allure 2 report: its history up to the run before this one goes beside the results."""
    before = kept / "before" if _last(kept) == run else kept / "last"
    if before.is_dir():
        shutil.copytree(before, staged / "history")


def keep_history(report: Path, kept: Path, run: str) -> None:
    """After an Allure 2 report: its history is the last, and the one that was lent is what was before."""
    if not (report / "history").is_dir():
        return
    if _last(kept) != run and (kept / "last").is_dir():
        shutil.rmtree(kept / "before", ignore_errors=True)
        (kept / "last").rename(kept / "before")
    shutil.rmtree(kept / "last", ignore_errors=True)
    shutil.copytree(report / "history", kept / "last")
    write_text(kept / "run", run)


def run_of(starts: Starts) -> str:
    """Names the run that some results are of."""
    times = [start for _, start in starts]
    return f"{min(times, default=0)}-{max(times, default=0)}-{len(times)}"


def _last(kept: Path) -> str:
    try:
        return (kept / "run").read_text("utf-8")
    except (OSError, ValueError):
        return ""
