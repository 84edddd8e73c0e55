"""Finds the tasks that another task names."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from harness.spec.load import find_tasks, load_file
from harness.spec.loaded import Loaded
from harness.spec.parametrize import expand
from harness.spec.problems import SpecError


def neighbours(folder: Path) -> Callable[[str], Loaded | None]:
    """Looks a task up by its id among the task files in `folder` and below; they are read when first asked for.

    `T[case]` is one case of a task; of `T` with several cases the caller is told that one must be chosen.
    """

    @cache
    def tasks() -> dict[str, Loaded]:
        found = _readable(folder)
        return {each.spec.task_id: each for loaded in found for each in (loaded, *expand(loaded))}

    return lambda task_id: tasks().get(task_id)


def _readable(folder: Path) -> list[Loaded]:
    found = []
    for path in find_tasks([folder]):
        try:
            found.append(load_file(path, needs_steps=False))
        except SpecError:
            continue  # a broken neighbour is told of where it is collected
    return found
