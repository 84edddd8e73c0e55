"""`harness report`: the HTML report of Allure results, complete offline."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.reporting.allure_files import RC, allurerc, write_categories
from harness.reporting.allure_results import Results, read_results
from harness.reporting.documents import write_text
from harness.reporting.history import LAST_RUN, load_last_run
from harness.reporting.npm import Allure, Major, ReportError, find_allure
from harness.reporting.report_folder import check_output, replaced
from harness.reporting.report_page import finish_report
from harness.reporting.staging import stage, trace_files
from harness.reporting.trace_viewer import add_viewer, viewer_folder
from harness.reporting.trends import (
    HISTORY_2,
    HISTORY_3,
    earlier_points,
    keep_history,
    keep_points,
    lend_history,
    run_of,
    starts_of,
)

BUILD_LIMIT = 600
"""Seconds for Allure's own work."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a report is to be."""

    single_file: bool = False
    all_runs: bool = False
    major: Major | None = None
    """Of Allure; None: 3 where it can be had."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report that was built."""

    index: Path
    results: int
    left_out: tuple[str, ...]
    """What did not go into it, and why: a line each."""
    allure: str
    """The version that built it."""
    notes: tuple[str, ...] = ()
    """What else is to be known of what went into it: a line each."""


def build_report(
    results: Path,
    output: Path,
    wanted: Wanted = Wanted(),
    *,
    project: Path = Path(),
    say: Callable[[str], None] = print,
) -> Report:
    """ReportError when there are no results, or Allure is missing or fails. `project`: where `.harness` is."""
    found = read_results(results, all_runs=wanted.all_runs)
    if not found.tests:
        broken = "".join(f"\n  {line}" for line in found.left_out[:5])
        raise ReportError(f"no Allure results in {results}: run pytest with --alluredir={results}{broken}")
    check_output(results, output, project)
    allure = find_allure(project, say, wanted.major)
    traces = [] if wanted.single_file or viewer_folder() is None else list(trace_files(found))
    with replaced(output) as made, tempfile.TemporaryDirectory(prefix="taskspec-report-") as folder:
        staged = Path(folder) / "results"
        staged.mkdir()
        stage(found, staged, traces)
        build = _build_3 if allure.major == 3 else _build_2
        lost = build(_Job(allure, found, staged, made, project, wanted))
        finish_report(made, viewer=add_viewer(made, results, traces))
    notes = (*found.notes, *_unreported(found, project))
    return Report(output / "index.html", len(found.tests), (*found.left_out, *lost), allure.version, notes)


def _unreported(results: Results, project: Path) -> Iterator[str]:
    """Whether the project's last run is none of these."""
    try:
        last = load_last_run(project / LAST_RUN)
    except (OSError, ValueError):
        return
    if last is not None and results.run and last.run > results.run:
        yield f"the last run of the project, {last.run}, wrote no results here: these are of {results.run}"


@dataclass(frozen=True, slots=True)
class _Job:
    """One run of Allure: the staged results, and where the report goes."""

    allure: Allure
    results: Results
    staged: Path
    output: Path
    project: Path
    wanted: Wanted


def _build_3(job: _Job) -> list[str]:
    """What of the history could not be read. A project's own allurerc.mjs is used, and then keeps its own history."""
    own, rc = job.project.absolute() / RC, job.staged.parent / RC
    lent, kept = job.staged.parent / "history.jsonl", job.project / HISTORY_3
    points, left_out = earlier_points(kept, starts_of(job.results))
    write_text(lent, "".join(f"{line}\n" for line in points))
    rc.write_text(allurerc(single_file=job.wanted.single_file, history=lent), "utf-8")
    config = own if own.is_file() and not job.wanted.single_file else rc
    _generate(job, ["-c", str(config), "-o", str(job.output)])
    if config == rc and not job.wanted.all_runs:
        keep_points(lent, kept)
    return left_out


def _build_2(job: _Job) -> list[str]:
    run, kept = run_of(starts_of(job.results)), job.project / HISTORY_2
    write_categories(job.staged)
    lend_history(kept, job.staged, run)
    _generate(job, ["-o", str(job.output), *(["--single-file"] if job.wanted.single_file else [])])
    if not (job.wanted.single_file or job.wanted.all_runs):
        keep_history(job.output, kept, run)
    return []


def _generate(job: _Job, options: list[str]) -> None:
    """Allure writes into a folder that is not there: into an old report it writes only half of a new one."""
    environment = {**os.environ, "ALLURE_NO_ANALYTICS": "true", "NO_COLOR": "1"}
    command = [str(job.allure.program), "generate", str(job.staged), *options]
    try:
        done = subprocess.run(
            command, cwd=job.staged.parent, env=environment, capture_output=True, text=True, timeout=BUILD_LIMIT,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReportError(f"Allure could not be run: {error}") from error
    if done.returncode != 0 or not (job.output / "index.html").is_file():
        raise ReportError(f"Allure wrote no report: {' '.join((done.stderr or done.stdout).split())[:300]}")
