"""Where a task's files are now: they move when it runs again, and a history is read on other machines too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.history.record import Execution
from harness.reporting.documents import read_json
from harness.reporting.manifest import MANIFEST

PREVIOUS = ".previous"


def kept_place(artifacts: str, root: Path) -> str:
    """As the history keeps it: relative to the project where it lies inside."""
    place = Path(artifacts)
    return place.relative_to(root).as_posix() if place.is_relative_to(root) else artifacts


def found_again(each: Execution, root: Path, runs: tuple[str, ...]) -> Execution:
    """With `artifacts` as a path below the folder that the history was read from, where they are now.

    `runs`: the run, or those it was put together from. None: another run has taken their place and they were
    dropped, or the path leads out of the folder.
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
    """An execution that was followed by another one of the same run has left its place to it."""
    previous = [place.parent / PREVIOUS / run / place.name for run in runs]
    if each.outcome == "rerun":
        numbered = f"{place.name}-{each.number}" if each.number > 1 else place.name
        yield from (path.with_name(numbered) for path in previous)
    if _written_by(place) in (*runs, None):
        yield place
    yield from previous


def _written_by(place: Path) -> str | None:
    """The run that the directory says it is of; None when it does not."""
    try:
        run = read_json(place / MANIFEST)["run"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return run if isinstance(run, str) else None
