"""Order and groups: dependencies first, priority next; episodes and dependencies stay together under xdist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from harness.pytest_plugin.collect import TaskItem
from harness.pytest_plugin.state import State
from harness.spec.suite import check_suite, dependencies


def task_items(items: Iterable[pytest.Item]) -> list[TaskItem]:
    return [item for item in items if isinstance(item, TaskItem)]


def ordered(items: Sequence[pytest.Item], *, together: bool = False) -> list[pytest.Item]:
    """Tasks by priority, each after what it depends on; other items keep their places. Same on every worker.

    `together`: no other task stands between two of an episode, unless its dependencies put it there.
    """
    tasks = _after_dependencies(sorted(task_items(items), key=lambda item: item.loaded.spec.priority))
    places = iter(_episodes_together(tasks) if together else tasks)
    return [next(places) if isinstance(item, TaskItem) else item for item in items]


def arrange(state: State, items: list[pytest.Item]) -> None:
    """Put the items in order. What is wrong with tasks beside each other is kept for when they run."""
    state.problems.clear()
    # A task that another one names may be in a file that was not collected: whoever makes the plan looks there.
    for problem in check_suite([item.loaded for item in task_items(items)], lambda *_: True):
        if problem.severity == "error":
            state.problems.setdefault(problem.file, []).append(str(problem))
    items[:] = ordered(items, together=state.settings.isolation == "reset")


def _after_dependencies(tasks: Sequence[TaskItem]) -> list[TaskItem]:
    """A circle is cut; its tasks fail with their problem."""
    by_id: dict[str, list[TaskItem]] = {}
    for item in tasks:
        by_id.setdefault(item.loaded.spec.task_id, []).append(item)  # several of one id fail with their problem
    graph = dependencies([item.loaded for item in tasks])
    return [item for task_id in _depth_first(graph) for item in by_id[task_id]]


def _episodes_together(tasks: Sequence[TaskItem]) -> list[TaskItem]:
    """Tasks that stand after what they depend on, with each episode in one piece where that keeps them so."""
    unit = {item.loaded.spec.task_id: item.loaded.spec.episode_id or item.nodeid for item in tasks}
    graph = dependencies([item.loaded for item in tasks])
    members: dict[str, list[TaskItem]] = {}
    wanted: dict[str, list[str]] = {}
    for item in tasks:
        task_id = item.loaded.spec.task_id
        members.setdefault(unit[task_id], []).append(item)
        others = (unit[other] for other in graph[task_id] if unit[other] != unit[task_id])
        wanted.setdefault(unit[task_id], []).extend(others)
    found = [item for name in _depth_first(wanted) for item in members[name]]
    place = {item.loaded.spec.task_id: number for number, item in enumerate(found)}
    kept = all(place[other] < place[task_id] for task_id, several in graph.items() for other in several)
    return found if kept else list(tasks)


def _depth_first(wanted: Mapping[str, Sequence[str]]) -> list[str]:
    """The names in their order, each after what it wants. Without recursion: chains may be long."""
    out: dict[str, None] = {}
    seen: set[str] = set()
    stack = [(name, False) for name in reversed(list(wanted))]
    while stack:
        name, ready = stack.pop()
        if ready:
            out[name] = None
        elif name not in seen:
            seen.add(name)
            stack.append((name, True))
            stack.extend((other, False) for other in reversed(wanted[name]) if other not in seen)
    return list(out)


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
