"""Under xdist: groups stay on one worker; what kills a worker is not given to the next one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.failure import Failed
from harness.pytest_plugin.interrupted import end_in_order
from harness.pytest_plugin.order import groups
from harness.pytest_plugin.state import BROWSER, STATE, State
from harness.pytest_plugin.telemetry import telemetry_of
from harness.spec.load import Loaded, is_task_file, load_file
from harness.spec.parametrize import base_id, expand
from harness.spec.problems import SpecError
from harness.spec.suite import dependencies


class XdistHooks:
    """Registered only where xdist is active (`--dist loadgroup` is broken on pytest 9.2: findings, section 3)."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        if config.getoption("dist") not in SCOPES:
            return None
        config.option.loadscopereorder = False  # `priority` says what comes first, not the size of a group
        return _scheduling()(config, log)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker that died has said nothing."""
        state: State = node.config.stash[STATE]
        state.told_browser = state.told_browser or getattr(node, "workeroutput", {}).get(BROWSER, "")

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """The controller owns the services: it starts them when a worker has found tasks, before the first one runs."""
        state: State = node.config.stash[STATE]
        if not any(map(_of_task, ids)):
            return
        end_in_order()
        telemetry_of(node.config).begin()
        if state.settings.faults and state.idle is None:
            state.look_at_plans([task.spec for task in tasks_of(node.config.rootpath, ids).values()])
        if state.settings.services:
            with contextlib.suppress(Failed, ValueError, OSError):  # each task reports it
                state.harness().start()


def _of_task(node_id: str) -> bool:
    name = node_id.partition("::")[0]
    return is_task_file(Path(name)) or Path(name).suffix in (".yaml", ".yml", ".json")


SCOPES: dict[str, Callable[[str], str]] = {
    "load": lambda node_id: node_id,
    "loadgroup": lambda node_id: node_id,
    "worksteal": lambda node_id: node_id,
    "loadfile": lambda node_id: node_id.partition("::")[0],
    "loadscope": lambda node_id: node_id.rpartition("::")[0],
}
"""`--dist` -> what keeps ordinary tests together, as in xdist; tasks keep with their group under all of them."""

DEEP = 8
"""Items that a worker knows of under `--task-workers auto`."""
BY_FILE = ("loadfile", "loadscope")


class Deep:
    """With look-ahead a worker knows of so many items that all of its places are taken."""

    config: Any
    workqueue: Any
    assigned_work: Any
    _pending_of: Any
    _assign_work_unit: Any

    def _reschedule(self, node: Any) -> None:
        """Called when a worker may be given more."""
        base: Any = super()
        base._reschedule(node)  # noqa: SLF001 - xdist's schedulers are extended so
        wanted = _depth(self.config.stash[STATE].settings.task_workers)
        while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < wanted:
            self._assign_work_unit(node)


@cache
def _scheduling() -> Any:
    """The scheduler's class; made when asked for, since xdist may be absent."""
    from xdist.scheduler import LoadScopeScheduling

    class TaskGroupScheduling(Deep, LoadScopeScheduling):  # type: ignore[misc]
        """Whole groups of tasks go to one worker; every other item is its own group."""

        names: dict[str, str] | None = None

        def _split_scope(self, nodeid: str) -> str:
            if self.names is None:
                node_ids = next(iter(self.registered_collections.values()))
                by_file = self.config.getoption("dist") in BY_FILE
                self.names = group_names(self.config.rootpath, node_ids, by_file=by_file)
            scope = SCOPES[self.config.getoption("dist")]
            return self.names.get(nodeid) or scope(nodeid)

        def remove_node(self, node: Any) -> str | None:
            """As the base class, but the item that killed the worker is done with."""
            workload = self.assigned_work.pop(node)
            pending = (item for unit in workload.values() for item, done in unit.items() if not done)
            crashed: str | None = next(pending, None)
            if crashed is None:
                return None
            for scope, unit in workload.items():
                unit.update({crashed: True} if crashed in unit else {})
                if not all(unit.values()):
                    self.workqueue[scope] = unit
            for other in self.assigned_work:
                self._reschedule(other)
            return crashed

    return TaskGroupScheduling


def _depth(task_workers: int | str) -> int:
    """So many items a worker is to know of; without look-ahead xdist's own number does."""
    if task_workers == "auto":
        return DEEP
    return 2 * int(task_workers) if task_workers != 1 else 0


def group_names(root: Path, node_ids: Iterable[str], *, by_file: bool = False) -> dict[str, str]:
    """Node id of a task -> its group. The controller collects nothing, so it reads the files.

    `by_file` keeps the cases of a file together too.
    """
    tasks = tasks_of(root, node_ids)
    wanted = dependencies(list(tasks.values()))
    ties: dict[str, tuple[tuple[str, ...], str | None]] = {}
    for task in tasks.values():
        task_id, base = task.spec.task_id, (base_id(task.spec),) if by_file else ()
        ties[task_id] = ((*wanted[task_id], *base), task.spec.episode_id)
        for name in base:
            ties.setdefault(name, ((), None))
    names = groups(ties)
    return {node_id: names[task.spec.task_id] for node_id, task in tasks.items()}


def tasks_of(root: Path, node_ids: Iterable[str]) -> dict[str, Loaded]:
    """Node id -> task, of those that are tasks."""
    node_ids = list(node_ids)
    found = {f"{file}::{each.spec.task_id}": each for file in _task_files(node_ids) for each in _cases(root / file)}
    return {node_id: found[node_id] for node_id in node_ids if node_id in found}


def _task_files(node_ids: Iterable[str]) -> Iterator[str]:
    return iter(dict.fromkeys(node_id.partition("::")[0] for node_id in node_ids if _of_task(node_id)))


def _cases(path: Path) -> tuple[Loaded, ...]:
    try:
        return expand(load_file(path, needs_steps=False))
    except SpecError:
        return ()  # its worker reports it
