"""Which task files a command line reaches, and which more of them its tasks depend on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from harness.spec.load import find_tasks, load_file, mentions
from harness.spec.loaded import Loaded
from harness.spec.parametrize import expand
from harness.spec.problems import SpecError
from harness.spec.suite import by_name, dependencies, needed

SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Asked:
    """An argument of the command line: a folder, a file, or a task of it (`PATH::T`, `PATH::T[case]`)."""

    path: Path
    name: str = ""

    @classmethod
    def of(cls, argument: str, folder: Path) -> Asked:
        """As pytest reads it. Relative paths are relative to `folder`."""
        before, bracket, after = argument.partition("[")
        path, separator, name = before.partition("::")
        return cls(Path(os.path.normpath(folder / path)), f"{name}{bracket}{after}" if separator else "")

    def reaches(self, path: Path, task_id: str) -> bool:
        """Whether it asks for this task of this file."""
        if not self.name:
            return path == self.path or self.path in path.parents
        return path == self.path and self.name in (task_id, task_id.partition("[")[0])


def added_files(asked: Sequence[Asked], folders: Sequence[Path], patterns: tuple[str, ...]) -> list[Path]:
    """Files, beyond those asked for, of tasks that these depend on.

    They are looked for beside the files that were asked for, then in `folders`; the first that has an id is taken.
    """
    known = {path: _cases(path) for path in _files(asked, patterns)}
    others: list[Path] | None = None
    while missing := _missing(known, asked):
        others = _around(asked, folders, patterns) if others is None else others
        found = [path for path in others if path not in known and mentions(path, missing)]
        if not found:
            break
        known |= {path: _cases(path) for path in found}
    return list(dict.fromkeys(path for path, name in _wanted(known, asked) if not _reached(asked, path, name)))


def _files(asked: Iterable[Asked], patterns: tuple[str, ...]) -> Iterator[Path]:
    for each in asked:
        if each.path.is_dir():
            yield from find_tasks([each.path], patterns)
        elif each.path.suffix in SUFFIXES and each.path.is_file():
            yield each.path


def _around(asked: Iterable[Asked], folders: Iterable[Path], patterns: tuple[str, ...]) -> list[Path]:
    beside = (each.path if each.path.is_dir() else each.path.parent for each in asked)
    places = dict.fromkeys(place for place in chain(beside, folders) if place.is_dir())
    return list(dict.fromkeys(chain.from_iterable(find_tasks([place], patterns) for place in places)))


def _cases(path: Path) -> tuple[Loaded, ...]:
    try:
        return expand(load_file(path, needs_steps=False))
    except SpecError:
        return ()  # it is told of where the file is collected


def _reached(asked: Iterable[Asked], path: Path, task_id: str) -> bool:
    return any(each.reaches(path, task_id) for each in asked)


def _wanted(known: Mapping[Path, tuple[Loaded, ...]], asked: Sequence[Asked]) -> Iterator[tuple[Path, str]]:
    """File and id of each task that is asked for, or needed by one that is."""
    owners: dict[str, Path] = {}
    for path, tasks in known.items():
        for task in tasks:
            owners.setdefault(task.spec.task_id, path)
    graph = dependencies(list(chain.from_iterable(known.values())))
    start = [task_id for task_id, path in owners.items() if _reached(asked, path, task_id)]
    wanted = needed(start, graph)
    return ((path, task_id) for task_id, path in owners.items() if task_id in wanted)


def _missing(known: Mapping[Path, tuple[Loaded, ...]], asked: Sequence[Asked]) -> set[str]:
    """Names of what is needed that none of the known files has."""
    names = by_name(chain.from_iterable(known.values()))
    wanted = {task_id for _, task_id in _wanted(known, asked)}
    tasks = (task for task in chain.from_iterable(known.values()) if task.spec.task_id in wanted)
    return {name for task in tasks for name in task.spec.dependencies if name not in names}
