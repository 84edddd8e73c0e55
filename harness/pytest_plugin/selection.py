"""Selection and order of tasks: `--task-with-deps` adds the dependencies of the chosen ones."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from harness.pytest_plugin.items import TaskItem
from harness.pytest_plugin.options import ONCE, Variants, variants
from harness.pytest_plugin.state import STATE, SessionState
from harness.spec.file_names import NAMED_SUFFIXES
from harness.spec.load import find_tasks, load_file, mentions
from harness.spec.loaded import Loaded
from harness.spec.parametrize import expand
from harness.spec.problems import SpecError
from harness.spec.suite import by_name, check_suite, dependencies, depth_first, needed_tasks


def names_of(items: Iterable[pytest.Item]) -> dict[str, tuple[str, ...]]:
    """Every name that a dependency may use -> ids, those of cases that were not selected included."""
    files = {item.path: item.cases for item in task_items(items)}
    return by_name(chain.from_iterable(files.values()))


class WithDependencies:
    """Registered only with `--task-with-deps`, and after pytest's `--lf`, so that it decides last."""

    def __init__(self) -> None:
        self._asked: tuple[Asked, ...] = ()
        self._added: tuple[Path, ...] = ()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Collect files with dependencies as if they had been named. Under xdist every worker does it."""
        config = session.config
        if config.pluginmanager.has_plugin("lfplugin-collwrapper"):  # it deselects whole files before this runs
            config.pluginmanager.unregister(name="lfplugin-collwrapper")
        self._asked = tuple(Asked.of(argument, config.invocation_params.dir) for argument in config.args)
        folders = [config.rootpath / name for name in config.getini("testpaths")] or [config.rootpath]
        patterns = tuple(config.getini("taskspec_files"))
        self._added = tuple(added_files(self._asked, folders, patterns, variants(config)))
        config.args = [*config.args, *map(str, self._added)]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Keep what `-k`, `-m` and `--lf` left, with all dependencies."""
        collected = list({item.nodeid: item for item in items}.values())
        items[:] = collected
        yield
        kept = _select_items(collected, [item for item in items if self._is_asked(item)])
        tell_deselected(config, collected, kept)
        items[:] = kept
        arrange(config.stash[STATE], items)

    def _is_asked(self, item: pytest.Item) -> bool:
        """Return whether the item would have been collected without this option."""
        return item.path not in self._added or any(each.reaches(item.path, item.name) for each in self._asked)


def _select_items(collected: Sequence[pytest.Item], left: Iterable[pytest.Item]) -> list[pytest.Item]:
    tasks = {item.task_id: item for item in task_items(collected)}
    own = set(left)
    graph = dependencies([item.loaded for item in tasks.values()])
    wanted = needed_tasks((item.task_id for item in task_items(own)), graph)
    own |= {tasks[task_id] for task_id in wanted}
    return [item for item in collected if item in own]


def tell_deselected(
    config: pytest.Config, collected: Sequence[pytest.Item], kept: Iterable[pytest.Item], *, also: bool = False
) -> None:
    """Report the items that are not run, so that the terminal counts them: in place of others, or `also`."""
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    before = reporter.stats.pop("deselected", ()) if reporter is not None else ()
    running = set(kept)
    if dropped := [item for item in (*collected, *(before if also else ())) if item not in running]:
        config.hook.pytest_deselected(items=dropped)


# Order and groups: dependencies first, then priority; xdist keeps episodes and dependencies together.


def task_items(items: Iterable[pytest.Item]) -> list[TaskItem]:
    return [item for item in items if isinstance(item, TaskItem)]


def _ordered(items: Sequence[pytest.Item], *, together: bool = False) -> list[pytest.Item]:
    """Tasks by priority, each after its dependencies; other items keep their places. All workers get the same.

    `together`: the tasks of an episode follow each other, unless dependencies prevent it.
    """
    tasks = _after_dependencies(sorted(task_items(items), key=lambda item: item.loaded.spec.priority))
    places = iter(episodes_together(tasks) if together else tasks)
    return [next(places) if isinstance(item, TaskItem) else item for item in items]


def arrange(state: SessionState, items: list[pytest.Item]) -> None:
    """Order the items. Problems between tasks are kept until the tasks run."""
    state.problems.clear()
    # A task may name another in a file that was not collected: making the plan reads that file.
    for problem in check_suite([item.loaded for item in task_items(items)], lambda *_: True):
        if problem.severity == "error":
            state.problems.setdefault(problem.file, []).append(str(problem))
    items[:] = _ordered(items, together=state.settings.isolation == "reset")


def _after_dependencies(tasks: Sequence[TaskItem]) -> list[TaskItem]:
    """The tasks after their dependencies. A cycle is cut; its tasks fail with their problem."""
    by_id: dict[str, list[TaskItem]] = {}
    for item in tasks:
        by_id.setdefault(item.task_id, []).append(item)  # several tasks of one id fail with their problem
    graph = dependencies([item.loaded for item in tasks])
    return [item for task_id in depth_first(graph, graph) for item in by_id[task_id]]


def episodes_together(tasks: Sequence[TaskItem]) -> list[TaskItem]:
    """The tasks with each episode in one piece where dependencies allow it."""
    unit = {item.task_id: item.loaded.spec.episode_id or item.nodeid for item in tasks}
    graph = dependencies([item.loaded for item in tasks])
    members: dict[str, list[TaskItem]] = {}
    wanted: dict[str, list[str]] = {}
    for item in tasks:
        task_id = item.task_id
        members.setdefault(unit[task_id], []).append(item)
        others = (unit[other] for other in graph[task_id] if unit[other] != unit[task_id])
        wanted.setdefault(unit[task_id], []).extend(others)
    found = [item for name in depth_first(wanted, wanted) for item in members[name]]
    place = {item.task_id: number for number, item in enumerate(found)}
    kept = all(place[other] < place[task_id] for task_id, several in graph.items() for other in several)
    return found if kept else list(tasks)


def groups(tasks: Mapping[str, tuple[Sequence[str], str | None]]) -> dict[str, str]:
    """Task id -> name of its group. `tasks`: id -> (dependencies, episode); both tie tasks together."""
    parent = {task_id: task_id for task_id in tasks}

    def find(task_id: str) -> str:
        while parent[task_id] != task_id:
            task_id = parent[task_id]
        return task_id

    def join(one: str, other: str) -> None:
        first, second = sorted((find(one), find(other)))
        parent[second] = first

    episodes: dict[str, str] = {}
    for task_id, (others, episode) in tasks.items():
        for wanted in others:
            if wanted in parent:
                join(task_id, wanted)
        if episode is not None:
            join(task_id, episodes.setdefault(episode, task_id))
    return {task_id: find(task_id) for task_id in tasks}


def ties(tasks: Sequence[TaskItem]) -> dict[str, tuple[str, ...]]:
    """Node id of a task -> those that it depends on."""
    names = {item.task_id: item.nodeid for item in tasks}
    graph = dependencies([item.loaded for item in tasks])
    return {names[each]: tuple(names[other] for other in wanted) for each, wanted in graph.items()}


def groups_of(tasks: Sequence[TaskItem]) -> dict[str, str]:
    """Node id of a task -> the name of its group: tasks that depend on each other, or belong to one episode."""
    wanted = dependencies([item.loaded for item in tasks])
    tied = groups({item.task_id: (wanted[item.task_id], item.loaded.spec.episode_id) for item in tasks})
    return {item.nodeid: f"task {tied[item.task_id]}" for item in tasks}


# The task files that a command line selects, and those that their tasks depend on.


class Asked(Struct, frozen=True):
    """An argument of the command line: a folder, a file, or a task of it (`PATH::T`, `PATH::T[case]`)."""

    path: Path
    name: str = ""

    @classmethod
    def of(cls, argument: str, folder: Path) -> Asked:
        """Parse an argument as pytest does. Relative paths are relative to `folder`."""
        before, bracket, after = argument.partition("[")
        path, separator, name = before.partition("::")
        return cls(Path(os.path.normpath(folder / path)), f"{name}{bracket}{after}" if separator else "")

    def reaches(self, path: Path, task_id: str) -> bool:
        """Return whether it selects this task of this file."""
        if not self.name:
            return path == self.path or self.path in path.parents
        return path == self.path and self.name in (task_id, task_id.partition("[")[0])


def added_files(
    asked: Sequence[Asked], folders: Sequence[Path], patterns: tuple[str, ...], each_as: Variants = ONCE
) -> list[Path]:
    """Further files with tasks that the requested ones depend on.

    They are searched next to the requested files, then in `folders`; the first file with an id is taken.
    """
    known = {path: cases_in(path, each_as) for path in _files(asked, patterns)}
    others: list[Path] | None = None
    while missing := _missing_dependencies(known, asked):
        others = _tasks_around(asked, folders, patterns) if others is None else others
        found = [path for path in others if path not in known and mentions(path, missing)]
        if not found:
            break
        known |= {path: cases_in(path, each_as) for path in found}
    return list(dict.fromkeys(path for path, name in _wanted_tasks(known, asked) if not _is_reached(asked, path, name)))


def _files(asked: Iterable[Asked], patterns: tuple[str, ...]) -> Iterator[Path]:
    for each in asked:
        if each.path.is_dir():
            yield from find_tasks([each.path], patterns)
        elif each.path.suffix in NAMED_SUFFIXES and each.path.is_file():
            yield each.path


def _tasks_around(asked: Iterable[Asked], folders: Iterable[Path], patterns: tuple[str, ...]) -> list[Path]:
    beside = (each.path if each.path.is_dir() else each.path.parent for each in asked)
    places = dict.fromkeys(place for place in chain(beside, folders) if place.is_dir())
    return list(dict.fromkeys(chain.from_iterable(find_tasks([place], patterns) for place in places)))


def cases_in(path: Path, each_as: Variants = ONCE) -> tuple[Loaded, ...]:
    """The tasks of a file; none if it cannot be loaded, which is reported where it is collected."""
    try:
        return expand(load_file(path, needs_steps=False), *each_as)
    except SpecError:
        return ()


def _is_reached(asked: Iterable[Asked], path: Path, task_id: str) -> bool:
    return any(each.reaches(path, task_id) for each in asked)


def _wanted_tasks(known: Mapping[Path, tuple[Loaded, ...]], asked: Sequence[Asked]) -> Iterator[tuple[Path, str]]:
    """File and id of each requested task, and of those that they depend on."""
    owners: dict[str, Path] = {}
    for path, tasks in known.items():
        for task in tasks:
            owners.setdefault(task.spec.task_id, path)
    graph = dependencies(list(chain.from_iterable(known.values())))
    start = [task_id for task_id, path in owners.items() if _is_reached(asked, path, task_id)]
    wanted = needed_tasks(start, graph)
    return ((path, task_id) for task_id, path in owners.items() if task_id in wanted)


def _missing_dependencies(known: Mapping[Path, tuple[Loaded, ...]], asked: Sequence[Asked]) -> set[str]:
    """The names of dependencies that none of the known files has."""
    names = by_name(chain.from_iterable(known.values()))
    wanted = {task_id for _, task_id in _wanted_tasks(known, asked)}
    tasks = (task for task in chain.from_iterable(known.values()) if task.spec.task_id in wanted)
    return {name for task in tasks for name in task.spec.dependencies if name not in names}
