"""Checks across tasks: ids and dependencies. A task with cases is represented by its cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from harness.spec.loaded import Loaded
from harness.spec.parametrize import base_id
from harness.spec.problems import JsonPath, Problem, did_you_mean


def with_episodes(tasks: Sequence[Loaded], graph: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Task id -> the tasks that must run before it: dependencies, and its episode's earlier tasks in pytest's order."""
    episodes: dict[str | None, list[str]] = {}
    order: dict[str, list[str]] = {}
    known = {task.spec.task_id: task.spec for task in tasks}
    for task in sorted(tasks, key=lambda task: task.spec.priority):
        for name in (*tasks_before(task.spec.task_id, graph), task.spec.task_id):
            if name in order:
                continue
            earlier = episodes.setdefault(known[name].episode_id, []) if known[name].episode_id else []
            order[name] = [*graph[name], *(other for other in earlier if other not in graph[name])]
            earlier.append(name)
    return order


def tasks_before(task_id: str, graph: Mapping[str, Sequence[str]]) -> list[str]:
    """All tasks that must run before a task, in running order."""
    return depth_first(graph, graph[task_id], {task_id})


def depth_first(graph: Mapping[str, Sequence[str]], names: Iterable[str], passed: Iterable[str] = ()) -> list[str]:
    """These names and all that they depend on, each after those; without what is `passed`.

    No recursion: chains may be long.
    """
    order: dict[str, None] = {}
    seen = set(passed)
    stack = [(name, False) for name in reversed(list(names))]
    while stack:
        name, ready = stack.pop()
        if ready:
            order[name] = None
        elif name not in seen:
            seen.add(name)
            stack.append((name, True))
            stack.extend((other, False) for other in reversed(graph[name]) if other not in seen)
    return list(order)


def check_suite(
    tasks: Sequence[Loaded], elsewhere: Callable[[Loaded, str], bool] = lambda *_: False
) -> tuple[Problem, ...]:
    """Report duplicate ids and cycles as errors, and a dependency that no task has as a warning (real files have them).

    `elsewhere` says whether a file that is not among these has the task of that name.
    """
    return (*_duplicates(tasks), *_unknown(tasks, elsewhere), *_not_inside(tasks, elsewhere), *_cycles(tasks))


def by_name(tasks: Iterable[Loaded]) -> dict[str, tuple[str, ...]]:
    """Every name that a dependency may use -> ids: `T[a]` names a case, `T` all cases of T, a directory its task."""
    folders: dict[str, dict[str, None]] = {}
    bases: dict[str, dict[str, None]] = {}
    own: dict[str, dict[str, None]] = {}
    for task in tasks:
        task_id = task.spec.task_id
        own[task_id] = {task_id: None}
        bases.setdefault(base_id(task.spec), {})[task_id] = None
        for name in task.names:
            folders.setdefault(name, {})[task_id] = None
    return {name: tuple(ids) for name, ids in (folders | bases | own).items()}


def dependencies(tasks: Sequence[Loaded]) -> dict[str, tuple[str, ...]]:
    """Task id -> ids of the tasks, among these, that it depends on."""
    names = by_name(tasks)
    found = {task.spec.task_id: (names.get(name, ()) for name in task.spec.dependencies) for task in tasks}
    return {
        task_id: tuple(dict.fromkeys(each for ids in several for each in ids)) for task_id, several in found.items()
    }


def needed_tasks(start: Iterable[str], graph: Mapping[str, Sequence[str]]) -> set[str]:
    """These ids and all that they depend on, directly or not. No recursion: chains may be long."""
    seen: set[str] = set()
    stack = list(start)
    while stack:
        task_id = stack.pop()
        if task_id not in seen:
            seen.add(task_id)
            stack.extend(graph.get(task_id, ()))
    return seen


def _files(tasks: Sequence[Loaded]) -> list[Loaded]:
    """One case of each file: the cases share their id and dependencies."""
    return list({(task.path, base_id(task.spec)): task for task in reversed(tasks)}.values())[::-1]


def _duplicates(tasks: Sequence[Loaded]) -> Iterator[Problem]:
    """Yield problems for equal ids. Ids are directory names, and some disks do not distinguish `A-1` from `a-1`."""
    ids: dict[str, Loaded] = {}
    files: dict[str, Loaded] = {}
    told: set[tuple[Path, str]] = set()
    for task in tasks:
        name, base = task.spec.task_id, base_id(task.spec)
        other, owner = ids.setdefault(name.casefold(), task), files.setdefault(base.casefold(), task)
        if other is task:
            if owner.path == task.path:
                continue  # it is the task itself, or another case of its file
            name, taken, other = base, base_id(owner.spec), owner
        else:
            taken = other.spec.task_id
        if (task.path, base) not in told:
            told.add((task.path, base))
            but = "" if taken == name else f" (as `{taken}`: case does not count)"
            message = f"the task_id `{name}` is taken by {other.source}{but}"
            yield task.origin.problem(("task_id",), message, hint="every task needs its own id")


def _unknown(tasks: Sequence[Loaded], elsewhere: Callable[[Loaded, str], bool]) -> Iterator[Problem]:
    names = by_name(tasks)
    for task in _files(tasks):
        for number, name in enumerate(task.spec.dependencies):
            if name not in names and not elsewhere(task, name):
                hint = did_you_mean(name, names) or "a task that depends on a missing task is always skipped"
                message = f"no task is called `{name}`"
                yield task.origin.problem(("dependencies", number), message, hint=hint, severity="warning")


def _not_inside(tasks: Sequence[Loaded], elsewhere: Callable[[Loaded, str], bool]) -> Iterator[Problem]:
    """Yield problems for missing tasks that another task runs inside itself: the run refuses them too."""
    names = by_name(tasks)
    for task in _files(tasks):
        for way, name in _inner_tasks(task):
            if name not in names and not elsewhere(task, name):
                hint = did_you_mean(name, names) or "this task runs it, so it must exist"
                yield task.origin.problem(way, f"no task is called `{name}`", hint=hint)


def _inner_tasks(task: Loaded) -> Iterator[tuple[JsonPath, str]]:
    plan = task.spec.fallback_plan
    if plan.enabled and plan.alternative_task_id:
        yield ("fallback_plan", "alternative_task_id"), plan.alternative_task_id
    for number, repair in enumerate(task.spec.repairs):
        if repair.task:
            yield ("repairs", number, "task"), repair.task


def _cycles(tasks: Sequence[Loaded]) -> Iterator[Problem]:
    """Yield one problem for each cycle. No recursion: chains may be long."""
    by_id = {base_id(task.spec): task for task in tasks}
    graph = _between_files(tasks)
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


def _between_files(tasks: Sequence[Loaded]) -> dict[str, tuple[str, ...]]:
    """The dependencies between files, with all cases of a file as one."""
    names = by_name(tasks)
    bases = {task.spec.task_id: base_id(task.spec) for task in tasks}
    graph: dict[str, tuple[str, ...]] = {}
    for task in _files(tasks):
        wanted = (bases[task_id] for name in task.spec.dependencies for task_id in names.get(name, ()))
        graph[base_id(task.spec)] = tuple(dict.fromkeys(wanted))
    return graph
