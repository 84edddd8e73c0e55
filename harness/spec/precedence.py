"""What has to run before a task: what it depends on, and the earlier tasks of its episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.spec.loaded import Loaded


def with_episodes(tasks: Sequence[Loaded], graph: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """What each task follows: its dependencies, and the tasks of its episode that pytest runs earlier."""
    episodes: dict[str | None, list[str]] = {}
    order: dict[str, list[str]] = {}
    known = {task.spec.task_id: task.spec for task in tasks}
    for task in sorted(tasks, key=lambda task: task.spec.priority):
        for name in (*before(task.spec.task_id, graph), task.spec.task_id):
            if name in order:
                continue
            earlier = episodes.setdefault(known[name].episode_id, []) if known[name].episode_id else []
            order[name] = [*graph[name], *(other for other in earlier if other not in graph[name])]
            earlier.append(name)
    return order


def before(task_id: str, graph: Mapping[str, Sequence[str]]) -> list[str]:
    """What a task follows, in the order in which that has to run. Without recursion: chains may be long."""
    order: dict[str, None] = {}
    seen = {task_id}
    stack = [(name, False) for name in reversed(graph[task_id])]
    while stack:
        name, ready = stack.pop()
        if ready:
            order[name] = None
        elif name not in seen:
            seen.add(name)
            stack.append((name, True))
            stack.extend((other, False) for other in reversed(graph[name]) if other not in seen)
    return list(order)
