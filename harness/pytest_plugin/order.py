"""Order and groups: dependencies first, priority next; episodes and dependencies stay together under xdist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from harness.pytest_plugin.collect import TaskItem


def task_items(items: Iterable[pytest.Item]) -> list[TaskItem]:
    return [item for item in items if isinstance(item, TaskItem)]


def ordered(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Tasks by priority, each after what it depends on; other items keep their places. Same on every worker."""
    tasks = sorted(task_items(items), key=lambda item: item.loaded.spec.priority)
    by_id = {item.loaded.spec.task_id: item for item in tasks}
    places = iter(_after_dependencies(tasks, by_id))
    return [next(places) if isinstance(item, TaskItem) else item for item in items]


def _after_dependencies(tasks: Sequence[TaskItem], by_id: Mapping[str, TaskItem]) -> list[TaskItem]:
    out: dict[TaskItem, None] = {}

    def visit(item: TaskItem, path: tuple[str, ...]) -> None:
        task_id = item.loaded.spec.task_id
        if task_id in path:
            raise pytest.UsageError("tasks depend on each other in a circle: " + " -> ".join((*path, task_id)))
        for wanted in item.loaded.spec.dependencies:
            if wanted in by_id:
                visit(by_id[wanted], (*path, task_id))
        out.setdefault(item)

    for item in tasks:
        visit(item, ())
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
    for task_id, (dependencies, episode) in tasks.items():
        for wanted in dependencies:
            if wanted in parent:
                join(task_id, wanted)
        if episode is not None:
            join(task_id, episodes.setdefault(episode, task_id))
    return {task_id: find(task_id) for task_id in tasks}
