"""Order and groups: dependencies first, priority next; episodes and dependencies stay together under xdist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from harness.pytest_plugin.collect import TaskItem
from harness.pytest_plugin.state import State
from harness.spec.suite import check_suite, dependencies


def task_items(items: Iterable[pytest.Item]) -> list[TaskItem]:
    return [item for item in items if isinstance(item, TaskItem)]


def ordered(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Tasks by priority, each after what it depends on; other items keep their places. Same on every worker."""
    tasks = sorted(task_items(items), key=lambda item: item.loaded.spec.priority)
    places = iter(_after_dependencies(tasks))
    return [next(places) if isinstance(item, TaskItem) else item for item in items]


def arrange(state: State, items: list[pytest.Item]) -> None:
    """Put the items in order. What is wrong with tasks beside each other is kept for when they run."""
    state.problems.clear()
    for problem in check_suite([item.loaded for item in task_items(items)]):
        if problem.severity == "error":
            state.problems.setdefault(problem.file, []).append(str(problem))
    items[:] = ordered(items)


def _after_dependencies(tasks: Sequence[TaskItem]) -> list[TaskItem]:
    """Depth first, without recursion: chains may be long. A circle is cut; its tasks fail with their problem."""
    by_id = {item.loaded.spec.task_id: item for item in tasks}
    graph = dependencies([item.loaded for item in tasks])
    out: dict[TaskItem, None] = {}
    seen: set[TaskItem] = set()
    stack = [(item, False) for item in reversed(tasks)]
    while stack:
        item, ready = stack.pop()
        if ready:
            out[item] = None
        elif item not in seen:
            seen.add(item)
            wanted = (by_id[task_id] for task_id in graph[item.loaded.spec.task_id])
            stack.append((item, True))
            stack.extend((other, False) for other in reversed(list(wanted)) if other not in seen)
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
