"""Many tasks against each other: ids and dependencies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.spec.loaded import Loaded
from harness.spec.problems import Problem, did_you_mean


def check_suite(tasks: Sequence[Loaded]) -> tuple[Problem, ...]:
    """Duplicate ids and cycles are errors; a dependency that nobody has is a warning (real files have them)."""
    return (*_duplicates(tasks), *_unknown(tasks), *_cycles(tasks))


def dependencies(tasks: Sequence[Loaded]) -> dict[str, tuple[str, ...]]:
    """Task id -> ids of the tasks, among these, that it depends on. A directory's name stands for its task."""
    ids = _ids(tasks)
    found = {task.spec.task_id: (ids.get(name) for name in task.spec.dependencies) for task in tasks}
    return {task_id: tuple(name for name in names if name is not None) for task_id, names in found.items()}


def _ids(tasks: Sequence[Loaded]) -> Mapping[str, str]:
    """Every name of a task -> its id; ids win over names of directories."""
    by_folder = {name: task.spec.task_id for task in tasks for name in task.names}
    return by_folder | {task.spec.task_id: task.spec.task_id for task in tasks}


def _duplicates(tasks: Sequence[Loaded]) -> Iterator[Problem]:
    """Ids are directory names, and some disks do not tell `A-1` from `a-1`."""
    first: dict[str, Loaded] = {}
    for task in tasks:
        other = first.setdefault(task.spec.task_id.casefold(), task)
        if other is task:
            continue
        same = other.spec.task_id == task.spec.task_id
        but = "" if same else f" (as `{other.spec.task_id}`: case does not count)"
        message = f"the task_id `{task.spec.task_id}` is taken by {other.source}{but}"
        yield task.origin.problem(("task_id",), message, hint="every task needs an id of its own")


def _unknown(tasks: Sequence[Loaded]) -> Iterator[Problem]:
    ids = _ids(tasks)
    for task in tasks:
        for number, name in enumerate(task.spec.dependencies):
            if name not in ids:
                message, hint = f"no task is called `{name}`", did_you_mean(name, ids)
                yield task.origin.problem(("dependencies", number), message, hint=hint, severity="warning")


def _cycles(tasks: Sequence[Loaded]) -> Iterator[Problem]:
    """One problem for each circle; walked without recursion, for chains may be long."""
    graph = dependencies(tasks)
    by_id = {task.spec.task_id: task for task in tasks}
    done: set[str] = set()
    for start in graph:
        way: dict[str, Iterator[str]] = {} if start in done else {start: iter(graph[start])}
        while way:
            here = next(reversed(way))
            following = next(way[here], None)
            if following is None:
                done.add(here)
                del way[here]
            elif following in way:
                circle = list(way)[list(way).index(following) :]
                shown = " -> ".join([*circle, following])
                yield by_id[following].origin.problem(("dependencies",), f"tasks depend on each other: {shown}")
            elif following not in done:
                way[following] = iter(graph[following])
