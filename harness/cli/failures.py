"""Finds the kept failures that a command is about: those of a task, or in a directory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct
from pydantic import ValidationError

from harness.cli.ending import fail
from harness.cli.project import settings_at, settings_here
from harness.model.report import ErrorReport
from harness.reporting.files import counts, read_json, read_regular, run_of, shown_path
from harness.reporting.kept_story import story_from
from harness.reporting.story import TaskStory
from harness.reporting.task_record import LAST_RUN, load_last_run
from harness.spec.problems import did_you_mean

LAST = "last"
"""The word in place of a task's id for the task that failed last."""
Run = Annotated[str | None, typer.Option("--run", help="An earlier run; `harness show` lists them.")]
Artifacts = Annotated[
    Path | None,
    typer.Option("--artifacts", help="Folder with the failures. Default: errors."),
]


def folders_of(root: Path, run: str | None) -> list[Path]:
    """The directories of an earlier run, else the latest ones; an unknown run ends the command."""
    if run is None:
        return latest(root)
    runs = earlier(root)
    if run not in runs:
        known = did_you_mean(run, runs) or (f"there are: {', '.join(runs)}" if runs else "no earlier run is kept")
        fail(f"no run {run!r} under {shown_path(root)}; {known}")
    return runs[run]


def last_run() -> str | None:
    """The name of the last run, also of a killed one; None if there was none, or its record cannot be read."""
    from harness.reporting.history.file import HistoryError
    from harness.reporting.history.reading import recent_runs

    with contextlib.suppress(ValueError):
        root = settings_at(Path.cwd()).root
        with contextlib.suppress(HistoryError):
            if runs := recent_runs(root, 1):
                return runs[0].run
        if found := load_last_run(root / LAST_RUN):
            return found.run
    return None


def _newest(root: Path, run: str | None, of_run: str | None, command: str) -> ArtifactDirectory:
    """The failure that was written last; if the run `of_run` (None: any) has none, the command ends."""
    found = [kept for kept in map(readable, folders_of(root, run)) if kept and not kept.report.expected]
    if not found:
        fail(f"no failures under {shown_path(root)}")
    own = [kept for kept in found if of_run in (None, kept.run) and kept.counts]
    newest = max(own or found, key=lambda kept: kept.report.timestamp)
    if not own:
        older = f"the last failure is of run {newest.run}: {command} {newest.folder.name}"
        fail(f"no failure of the last run, {of_run}, was kept; {older}")
    if len(own) > 1:
        typer.echo(f"{newest.folder.name}, the last of {len(own)} failures; `harness triage` lists all", err=True)
    return newest


def the_failure(task: str, run: str | None, artifacts: Path | None, command: str) -> ArtifactDirectory:
    """The failure that is meant; none or several end the command. `command` is named in the message."""
    if run is None and is_kept(Path(task)):
        return readable_or_end(Path(task))
    root = artifacts or settings_here().artifacts
    if task == LAST:
        return _newest(root, run, last_run() if run is None and artifacts is None else None, command)
    folders = folders_of(root, run)
    found = directories_of(folders, task) or cases_of(folders, task)
    if not found:
        fail(unknown(root, folders, task, run))
    if len(found) > 1:
        fail(f"{task} left {len(found)} directories: {command} DIR, one of {', '.join(map(shown_path, found))}")
    return readable_or_end(found[0])


def readable_or_end(folder: Path) -> ArtifactDirectory:
    """Read a directory; one that cannot be read ends the command."""
    try:
        return read_kept(folder)
    except UnreadableReportError as error:
        fail(str(error))


def unknown(root: Path, folders: list[Path], task: str, run: str | None) -> str:
    """The message for an unknown task: similar names, or an earlier run that has it."""
    before = [name for name, kept in earlier(root).items() if run is None and directories_of(kept, task)]
    if before:
        return f"{task} left no failure in its last run; for an earlier one: harness show {task} --run {before[0]}"
    names = sorted({name for folder in folders for name in (folder.name, task_id(folder))})
    older = {folder.name for kept in earlier(root).values() for folder in kept} if run is None else set()
    hint = did_you_mean(task, [*names, *older]) or (f"there are: {', '.join(names)}" if names else "there are none")
    return f"no failure of {task!r} under {shown_path(root)}; {hint}"


# The failures under `errors/`: found by task id, read and checked.

_REPORT = "error_report.json"
_PREVIOUS = ".previous"


class UnreadableReportError(ValueError):
    """A directory without a readable report."""


class ArtifactDirectory(Struct, frozen=True):
    """One directory of artifacts."""

    folder: Path
    report: ErrorReport
    manifest: dict[str, Any]
    steps: tuple[dict[str, Any], ...]
    """The lines of the partial trace."""

    @property
    def story(self) -> TaskStory:
        """What happened, as far as the directory knows it."""
        return story_from(self.folder, self.report, self.steps)

    @property
    def run(self) -> str:
        """The run that wrote it; in a merged folder, the merged one."""
        return run_of(self.manifest)

    @property
    def counts(self) -> bool:
        """Whether it counts: no later execution of its task in a merged folder has replaced it."""
        return counts(self.manifest)


def is_kept(folder: Path) -> bool:
    return (folder / _REPORT).is_file()


def read_kept(folder: Path) -> ArtifactDirectory:
    """Read a directory. Raises UnreadableReportError; manifest and trace may be missing."""
    file = folder / _REPORT
    try:
        report = ErrorReport.model_validate_json(read_regular(file))
    except OSError as error:
        raise UnreadableReportError(f"{shown_path(file)}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UnreadableReportError(
            f"{shown_path(file)}: not an error report: {place + ': ' if place else ''}{first['msg']}"
        ) from error
    manifest, trace = _document(folder / "manifest.json"), _document(folder / "partial_trace.json")
    steps = trace.get("steps")
    lines = tuple(line for line in steps if isinstance(line, dict)) if isinstance(steps, list) else ()
    return ArtifactDirectory(folder, report, manifest, lines)


def _document(file: Path) -> dict[str, Any]:
    try:
        found = read_json(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def latest(root: Path) -> list[Path]:
    """The directories of the last runs, sorted by name."""
    return _directories(root)


def earlier(root: Path) -> dict[str, list[Path]]:
    """Run -> its directories, the newest run first."""
    runs = sorted(filter(Path.is_dir, _entries(root / _PREVIOUS)), reverse=True)  # a run's name begins with its time
    return {run.name: _directories(run) for run in runs}


def _directories(root: Path) -> list[Path]:
    return sorted(path for path in _entries(root) if not path.name.startswith(".") and is_kept(path))


def _entries(root: Path) -> Iterable[Path]:
    return root.iterdir() if root.is_dir() else ()


def directories_of(folders: Iterable[Path], name: str) -> list[Path]:
    """The directories of a task: by the directory's name, else by the task_id in the manifest (its variants)."""
    folders = list(folders)
    exact = [folder for folder in folders if folder.name == name]
    return exact or [folder for folder in folders if task_id(folder) == name]


def cases_of(folders: Iterable[Path], name: str) -> list[Path]:
    """The directories of the cases of a task (`name[...]`)."""
    return [folder for folder in folders if "[" in (found := task_id(folder)) and found.partition("[")[0] == name]


def task_id(folder: Path) -> str:
    """The task id in the manifest; else the name of the directory."""
    return str(_document(folder / "manifest.json").get("task_id", folder.name))


# Kept failures as JSON.


def full_document(kept: Sequence[ArtifactDirectory]) -> Mapping[str, Any]:
    """All about each failure: its report, its manifest, the attempts of its trace."""
    return {
        "failures": [
            {
                "folder": str(each.folder),
                "run": each.run,
                "report": each.report.model_dump(mode="json"),
                "manifest": each.manifest,
                "attempts": list(each.steps),
            }
            for each in kept
        ]
    }


def summary_document(
    folders: Iterable[Path], earlier: Mapping[str, Sequence[Path]], last_run: str | None
) -> Mapping[str, Any]:
    """A few facts about each failure, and the earlier runs; unreadable directories are named on stderr."""
    kept = [found for folder in folders if (found := readable(folder)) is not None]
    return {
        "failures": [_facts(each, last_run) for each in kept],
        "earlier": {run: [folder.name for folder in found] for run, found in earlier.items()},
    }


def readable(folder: Path) -> ArtifactDirectory | None:
    """Read a directory; None, with a message on stderr, if it cannot be read."""
    try:
        return read_kept(folder)
    except UnreadableReportError as error:
        typer.echo(str(error), err=True)
        return None


def _facts(kept: ArtifactDirectory, last_run: str | None) -> Mapping[str, Any]:
    report = kept.report
    return {
        "task_id": report.task_id,
        "folder": str(kept.folder),
        "run": kept.run,
        "of_last_run": None if last_run is None else kept.run == last_run,
        "counts": kept.counts,
        "timestamp": report.timestamp.isoformat(),
        "final_state": report.final_state,
        "code": report.code,
        "error_type": str(report.error_type),
        "suspect": report.suspect and str(report.suspect),
        "step_index": report.step_index,
        "message": report.error_message,
        "expected": report.expected,
        "source": report.source,
    }
