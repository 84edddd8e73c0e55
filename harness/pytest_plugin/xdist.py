"""Under xdist: groups stay on one worker; what kills a worker is not given to the next one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.failure import Failed
from harness.pytest_plugin.order import groups
from harness.pytest_plugin.state import STATE, State
from harness.spec.load import is_task_file, load_file
from harness.spec.problems import SpecError


class XdistHooks:
    """Registered only where xdist is active (`--dist loadgroup` is broken on pytest 9.2: findings, section 3)."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        if config.getoption("dist") not in SCOPES:
            return None
        return _scheduling()(config, log)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """The controller owns the services: it starts them when a worker has found tasks, before the first one runs."""
        state: State = node.config.stash[STATE]
        if state.settings.services and any(map(_of_task, ids)):
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


@cache
def _scheduling() -> Any:
    """The scheduler's class; made when asked for, since xdist may be absent."""
    from xdist.scheduler import LoadScopeScheduling

    class TaskGroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
        """Whole groups of tasks go to one worker; every other item is its own group."""

        names: dict[str, str] | None = None

        def _split_scope(self, nodeid: str) -> str:
            if self.names is None:
                node_ids = next(iter(self.registered_collections.values()))
                self.names = group_names(self.config.rootpath, node_ids)
            scope = SCOPES[self.config.getoption("dist")]
            return self.names.get(nodeid.partition("::")[0]) or scope(nodeid)

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


def group_names(root: Path, node_ids: list[str]) -> dict[str, str]:
    """File of a task, as node ids name it -> its group. The controller collects nothing, so it reads the files."""
    tasks: dict[str, tuple[tuple[str, ...], str | None]] = {}
    files: dict[str, str] = {}
    for name in {node_id.partition("::")[0] for node_id in node_ids}:
        path = root / name
        if not (is_task_file(path) or path.suffix in (".yaml", ".yml", ".json")):
            continue
        try:
            spec = load_file(path).spec
        except SpecError:
            continue  # its worker reports it
        files[name] = spec.task_id
        tasks[spec.task_id] = (spec.dependencies, spec.episode_id)
    names = groups(tasks)
    return {name: names[task_id] for name, task_id in files.items()}
