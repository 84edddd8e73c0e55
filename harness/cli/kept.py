"""What failures have left under `errors/`: found by task id, read and checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.model.report import ErrorReport
from harness.reporting.files import counts, read_json, read_regular, run_of, shown_path

REPORT = "error_report.json"
PREVIOUS = ".previous"


class UnreadableReportError(ValueError):
    """A directory whose report is not there, or not one."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One directory of artifacts."""

    folder: Path
    report: ErrorReport
    manifest: dict[str, Any]
    steps: tuple[dict[str, Any], ...]
    """The lines of the partial trace."""

    @property
    def run(self) -> str:
        """The run that wrote it; in a merged folder, the merged one."""
        return run_of(self.manifest)

    @property
    def counts(self) -> bool:
        """Whether no later execution of its task, in a merged folder, has taken its place."""
        return counts(self.manifest)


def is_kept(folder: Path) -> bool:
    return (folder / REPORT).is_file()


def read_kept(folder: Path) -> Kept:
    """Raises UnreadableReportError; manifest and trace may be missing."""
    file = folder / REPORT
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
    return Kept(folder, report, manifest, lines)


def _document(file: Path) -> dict[str, Any]:
    try:
        found = read_json(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def latest(root: Path) -> list[Path]:
    """The directories of the last runs, by name."""
    return sorted(_directories(root))


def earlier(root: Path) -> dict[str, list[Path]]:
    """Run -> its directories, the newest run first."""
    runs = sorted(filter(Path.is_dir, _entries(root / PREVIOUS)), reverse=True)  # a run is named by its time
    return {run.name: sorted(_directories(run)) for run in runs}


def _directories(root: Path) -> Iterator[Path]:
    return (path for path in _entries(root) if not path.name.startswith(".") and is_kept(path))


def _entries(root: Path) -> Iterable[Path]:
    return root.iterdir() if root.is_dir() else ()


def named(folders: Iterable[Path], name: str) -> list[Path]:
    """Those of a task: by the name of the directory, else by the task_id in its manifest (its variants)."""
    folders = list(folders)
    exact = [folder for folder in folders if folder.name == name]
    return exact or [folder for folder in folders if task_id(folder) == name]


def cases_of(folders: Iterable[Path], name: str) -> list[Path]:
    """Those of the cases of a task (`name[...]`)."""
    return [folder for folder in folders if "[" in (found := task_id(folder)) and found.partition("[")[0] == name]


def task_id(folder: Path) -> str:
    """As the manifest says; else the name of the directory."""
    return str(_document(folder / "manifest.json").get("task_id", folder.name))


def when(report: ErrorReport) -> datetime:
    """In the local time zone."""
    return report.timestamp.astimezone()
