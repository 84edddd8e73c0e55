"""The files that a task uses: its own, step groups, data, and any other file that it names."""

from __future__ import annotations

from pathlib import Path

from harness.spec.loaded import Loaded
from harness.spec.pictures import is_baseline_of
from harness.spec.steps import Assert


def uses(task: Loaded, path: Path) -> bool:
    """Return whether a task uses the file of this absolute path."""
    origin = task.origin
    places = (place.source for place in origin.places.values())
    sources = [
        each for each in (origin.main, *(part for part, _ in origin.parts.values()), *places) if each is not None
    ]
    through = {use.rpartition(":")[0] for place in origin.places.values() for use in place.used}
    files = {*(each.file for each in sources), *through}
    if path == task.path.resolve() or any(Path(file).resolve() == path for file in files):
        return True
    return path.is_relative_to(task.folder.resolve()) and (origin.mentions(path.name) or _is_look(task, path.name))


def _is_look(task: Loaded, name: str) -> bool:
    """Return whether a file is the baseline of a screenshot: its name has the platform too."""
    wanted = (step.screenshot for step in task.spec.steps if isinstance(step, Assert) and step.screenshot)
    return any(is_baseline_of(Path(each).name, name) for each in wanted)
