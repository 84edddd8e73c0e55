"""`harness report`: finds an Allure, builds its HTML report, and makes that complete offline."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs
from msgspec import Struct

from harness.reporting.allure.files import RC, allurerc
from harness.reporting.allure.results import (
    HISTORY,
    Results,
    earlier_points,
    keep_points,
    read_results,
    stage,
    starts_of,
    trace_files,
)
from harness.reporting.allure.serve import HERE_SCRIPT, VIEWER, add_viewer, viewer_folder
from harness.reporting.files import write_text
from harness.reporting.task_record import LAST_RUN, load_last_run

VERSION = "3.18.0"
_INSTALL_LIMIT = 300
"""Seconds for the npm installation."""

_PROGRAM = Path("node_modules", ".bin", "allure.cmd" if os.name == "nt" else "allure")
_ADVICE = f"install Node.js, then run `npm install allure@{VERSION}` here"


class ReportError(Exception):
    """The report could not be built; the message is one line that says what to do."""


class Allure(Struct, frozen=True):
    """A program that builds reports."""

    program: Path
    version: str


def find_allure(project: Path, say: Callable[[str], None] = print) -> Allure:
    """Find Allure 3: the project's own, the cached one, one on PATH; else install it. Raises ReportError."""
    return _find_program(project) or install(say)


def cache_folder() -> Path:
    return Path(platformdirs.user_cache_dir("pytest-taskspec")) / f"allure-{VERSION}"


def install(say: Callable[[str], None] = print) -> Allure:
    """Install the pinned version. Raises ReportError without npm, or if npm fails."""
    package = f"allure@{VERSION}"
    npm, folder = shutil.which("npm"), cache_folder()
    if npm is None:
        raise ReportError(f"Allure 3 is not installed, and there is no npm: {_ADVICE}")
    say(f"installing {package} from npm into {folder} (once)")
    building = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    try:
        _run_npm([npm, "install", "--prefix", str(building), "--no-audit", "--no-fund", "--ignore-scripts", package],
                 building)  # fmt: skip
        _publish(building, folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return Allure(folder / _PROGRAM, VERSION)


def _run_npm(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_INSTALL_LIMIT, stdin=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReportError(f"npm could not install Allure ({_one_line(str(error))}): {_ADVICE}") from error
    if done.returncode != 0:
        raise ReportError(f"npm could not install Allure ({_one_line(done.stderr)}): {_ADVICE}")


def _publish(building: Path, folder: Path) -> None:
    """Publish the installation by a rename; one that another process published meanwhile is as good."""
    if not (building / _PROGRAM).is_file():
        raise ReportError(f"npm has installed no {_PROGRAM.name}: {_ADVICE}")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        building.rename(folder)
    except OSError:
        if not (folder / _PROGRAM).is_file():
            raise


def _find_program(project: Path) -> Allure | None:
    """The first program that is an Allure 3: Allure 2 has the same name and different options."""
    for candidate in (project / _PROGRAM, cache_folder() / _PROGRAM, shutil.which("allure")):
        if candidate and Path(candidate).is_file() and (version := _version(Path(candidate))).startswith("3."):
            return Allure(Path(candidate), version)
    return None


def _version(program: Path) -> str:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _one_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and "npm warn" not in line.lower()]
    return " ".join(lines[:2])[:200] or "no reason given"


# `harness report`: the HTML report of Allure results, complete offline.

_BUILD_LIMIT = 600
"""Seconds for Allure's own work."""


class Wanted(Struct, frozen=True):
    """The options of a report."""

    single_file: bool = False
    all_runs: bool = False


_USUAL = Wanted()


class Report(Struct, frozen=True):
    """A report that was built."""

    index: Path
    results: int
    left_out: tuple[str, ...]
    """The files that were left out, and why: a line each."""
    allure: str
    """The version that built it."""
    notes: tuple[str, ...] = ()
    """Notes on the content: a line each."""


def build_report(
    results: Path,
    output: Path,
    wanted: Wanted = _USUAL,
    *,
    project: Path = Path(),
    say: Callable[[str], None] = print,
) -> Report:
    """Build a report. Raises ReportError without results, or if Allure fails. `project`: the folder with `.harness`."""
    found = read_results(results, all_runs=wanted.all_runs)
    if not found.tests:
        broken = "".join(f"\n  {line}" for line in found.left_out[:5])
        raise ReportError(f"no Allure results in {results}: run pytest with --alluredir={results}{broken}")
    check_output(results, output, project)
    allure = find_allure(project, say)
    traces = [] if wanted.single_file or viewer_folder() is None else list(trace_files(found))
    with replaced(output) as made, tempfile.TemporaryDirectory(prefix="taskspec-report-") as folder:
        staged = Path(folder) / "results"
        staged.mkdir()
        stage(found, staged, traces)
        lost = _build(_Build(allure, found, staged, made, project, wanted))
        finish_report(made, viewer=add_viewer(made, results, traces))
    notes = (*found.notes, *_unreported_lines(found, project))
    return Report(output / "index.html", len(found.tests), (*found.left_out, *lost), allure.version, notes)


def _unreported_lines(results: Results, project: Path) -> Iterator[str]:
    """Yield a line if the results do not include the project's last run."""
    try:
        last = load_last_run(project / LAST_RUN)
    except (OSError, ValueError):
        return
    if last is not None and results.run and last.run > results.run:
        yield f"the last run of the project, {last.run}, wrote no results here; these are from {results.run}"


class _Build(Struct, frozen=True):
    """One run of Allure: the staged results, and the place of the report."""

    allure: Allure
    results: Results
    staged: Path
    output: Path
    project: Path
    wanted: Wanted


def _build(job: _Build) -> list[str]:
    """Run Allure; returns the history files that could not be read.

    A project's own allurerc.mjs is used, and then keeps its own history.
    """
    own, rc = job.project.absolute() / RC, job.staged.parent / RC
    lent, kept = job.staged.parent / "history.jsonl", job.project / HISTORY
    points, left_out = earlier_points(kept, starts_of(job.results))
    write_text(lent, "".join(f"{line}\n" for line in points))
    rc.write_text(allurerc(single_file=job.wanted.single_file, history=lent), "utf-8")
    config = own if own.is_file() and not job.wanted.single_file else rc
    _generate(job, ["-c", str(config), "-o", str(job.output)])
    if config == rc and not job.wanted.all_runs:
        keep_points(lent, kept)
    return left_out


def _generate(job: _Build, options: list[str]) -> None:
    """Run Allure into a folder that does not exist: into an old report it would write only a part of a new one."""
    environment = {**os.environ, "ALLURE_NO_ANALYTICS": "true", "NO_COLOR": "1"}
    command = [str(job.allure.program), "generate", str(job.staged), *options]
    try:
        done = subprocess.run(
            command, cwd=job.staged.parent, env=environment, capture_output=True, text=True, timeout=_BUILD_LIMIT,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReportError(f"Allure could not be run: {error}") from error
    if done.returncode != 0 or not (job.output / "index.html").is_file():
        raise ReportError(f"Allure wrote no report: {' '.join((done.stderr or done.stdout).split())[:300]}")


# The folder of a report: it is replaced only if it held a report, and only by a complete one.

MARK = ".taskspec-report"
"""A folder with this file was made here, and may be replaced."""
_SAID = "Written by `harness report`: it replaces this folder.\n"


def check_output(results: Path, output: Path, project: Path) -> None:
    """Raise ReportError for a folder that contains foreign files, or that is used for work."""
    place = output.resolve()
    if results.resolve().is_relative_to(place):
        raise ReportError(f"{output} contains the results themselves: choose another output folder")
    for each, name in ((project, "the project"), (Path.cwd(), "the current folder")):
        if each.resolve().is_relative_to(place):
            raise ReportError(f"{output} is or contains {name} and would be deleted: choose another output folder")
    if place.exists() and not place.is_dir():
        raise ReportError(f"{output} is a file: --output names a folder")
    if place.is_dir() and any(place.iterdir()) and not (place / MARK).is_file():
        raise ReportError(f"{output} is not empty and contains no report: choose another output folder")


@contextmanager
def replaced(output: Path) -> Iterator[Path]:
    """Yield a folder next to the output, which replaces the output at the end; the old content stays until then.

    Raises ReportError if the disk does not allow it.
    """
    place = output.resolve()
    made = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        yield made
        _take_over(made, place)
    finally:
        shutil.rmtree(made, ignore_errors=True)  # remains of a report whose build failed


def _take_over(made: Path, place: Path) -> None:
    try:
        (made / MARK).write_text(_SAID, "utf-8")
        _put_report(made, place)
    except OSError as error:
        raise ReportError(f"{place} cannot be written: {error}") from error


def _put_report(made: Path, place: Path) -> None:
    """Replace a folder by renaming; one that cannot be renamed (a mount point) is emptied and filled."""
    old = made.with_name(f"{made.name}.old")
    try:
        if place.exists():
            place.rename(old)
    except OSError:
        _fill(made, place)
        return
    try:
        made.rename(place)
    except BaseException:
        if old.exists() and not place.exists():
            old.rename(place)
        raise
    if old.exists():
        shutil.rmtree(old)


def _fill(made: Path, place: Path) -> None:
    for path in place.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for path in made.iterdir():
        shutil.move(path, place / path.name)


# Changes to a report after Allure built it: no requests to other hosts, only its own scripts, traces open offline.

POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}' 'strict-dynamic'; style-src 'self' 'unsafe-inline' data:; "
    "img-src 'self' data: blob:; font-src 'self' data:; media-src 'self' data: blob:; connect-src 'self' data: blob:; "
    "frame-src 'self' data: blob:; worker-src 'self' blob:; base-uri 'self'; form-action 'none'"
)
"""The policy also applies to attachments that Allure shows inside the report, and these do not know the nonce."""

_ANALYTICS = re.compile(
    r"<script[^>]*googletagmanager[^>]*>\s*</script>|<script>(?:(?!</script>).)*?gtag\('config'(?:(?!</script>).)*</script>",
    re.DOTALL,
)
_SCRIPT = re.compile(r"<script\b([^>]*>.*?</script>)", re.DOTALL | re.IGNORECASE)
_SITE = "https://trace.playwright.dev"
_LOCAL = f'new URL("{VIEWER}/index.html",location.href.split("#")[0]).href'
_TRACE_SITE = (
    (re.compile(rf'="{re.escape(_SITE)}",(\w+)=`\$\{{\w+\}}/`'), rf"=location.origin,\1={_LOCAL}"),
    (re.compile(rf"=([\"'`]){re.escape(_SITE)}\1"), "=location.origin"),
)
_OPTIONAL = {"metrics.json": '{"current":[],"history":[]}'}
"""Files that Allure requests and does not write: each would be an error in the browser's console."""


def finish_report(report: Path, *, viewer: bool) -> None:
    """Rewrite the files of the report. `viewer`: Playwright's viewer is next to it and replaces its web site."""
    index = report / "index.html"
    page = _ANALYTICS.sub("", index.read_text("utf-8"))
    if viewer:
        page = page.replace("<head>", f"<head>\n{HERE_SCRIPT}", 1)
        _use_viewer(report)
    index.write_text(with_policy(page), "utf-8")
    for name, text in _OPTIONAL.items():
        if (report / "widgets" / "nav.json").is_file() and not (report / "widgets" / name).exists():
            (report / "widgets" / name).write_text(text, "utf-8")


def with_policy(page: str) -> str:
    """The page with a policy that lets only its own scripts run, and loads nothing from elsewhere."""
    nonce = secrets.token_urlsafe(18)
    page = _SCRIPT.sub(rf'<script nonce="{nonce}"\1', page)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{POLICY.format(nonce=nonce)}">'
    return page.replace("<head>", f"<head>\n{meta}", 1)


def _use_viewer(report: Path) -> None:
    """Make Allure's button for traces open the viewer next to the report in place of a web site."""
    for script in (*report.glob("*.js"), *report.glob("assets/*.js")):
        text = script.read_text("utf-8")
        if _SITE in text:
            for pattern, local in _TRACE_SITE:
                text = pattern.sub(local, text)
            script.write_text(text, "utf-8")
