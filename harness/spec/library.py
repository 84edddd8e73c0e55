"""Finds the tasks that another task names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from harness.spec.defaults import Defaults
from harness.spec.load import find_tasks, load_file
from harness.spec.loaded import Loaded
from harness.spec.parametrize import expand
from harness.spec.problems import SpecError
from harness.spec.suite import by_name


def neighbours(folder: Path, defaults: Sequence[Defaults] = ()) -> Callable[[str], Loaded | None]:
    """Looks a task up by its id among the task files in `folder` and below; they are read when first asked for.

    `T[case]` is one case of a task; of `T` with several cases the caller is told that one must be chosen.
    """

    @cache
    def tasks() -> dict[str, Loaded]:
        found = _readable(folder, defaults)
        return {each.spec.task_id: each for loaded in found for each in (loaded, *expand(loaded))}

    return lambda task_id: tasks().get(task_id)


def _readable(folder: Path, defaults: Sequence[Defaults]) -> list[Loaded]:
    found = []
    for path in find_tasks([folder]):
        try:
            found.append(load_file(path, needs_steps=False, defaults=defaults))
        except SpecError:
            continue  # a broken neighbour is told of where it is collected
    return found


def exists(name: str, folders: Iterable[Path], patterns: Sequence[str] = ()) -> bool:
    """Whether a task file in one of these folders, or below, has a task of this name. Only those are read closer that
    may."""
    files = dict.fromkeys(path for folder in folders if folder.is_dir() for path in find_tasks([folder], patterns))
    return any(mentions(path, [name]) and name in _names(path) for path in files)


def mentions(path: Path, names: Iterable[str]) -> bool:
    """Whether a file may be a task of one of these names; most files need not be read closer."""
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return False
    return any(name.partition("[")[0] in text or name == path.parent.name for name in names)


def _names(path: Path) -> Iterable[str]:
    try:
        return by_name(expand(load_file(path, needs_steps=False)))
    except SpecError:
        return ()
