"""The hooks for xdist: groups stay on one worker, and items that kill a worker are not given to the next one."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from queue import Empty
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from harness.pytest_plugin.crashed_workers import (
    ALONE,
    JOURNAL,
    CrashedWorkers,
    MixedIn,
    last_one,
    looks_ahead,
    of_task,
)  # fmt: skip
from harness.pytest_plugin.foreign import refuse
from harness.pytest_plugin.gc import rarely
from harness.pytest_plugin.selection import cases_in, groups
from harness.pytest_plugin.state import AFRESH, BROWSER, DONE, STATE, SessionState
from harness.pytest_plugin.telemetry import telemetry_of
from harness.recovery.failure import Failed
from harness.spec.loaded import Loaded
from harness.spec.parametrize import base_id, task_named
from harness.spec.suite import dependencies

_Read = dict[str, tuple[Loaded, ...]]
"""Task file, as node ids name it -> its tasks."""
READ: pytest.StashKey[_Read] = pytest.StashKey()


class XdistHooks:
    """Registered only if xdist is active (`--dist loadgroup` is broken on pytest 9.2)."""

    def __init__(self) -> None:
        self._journals: TemporaryDirectory[str] | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        if config.getoption("dist") not in _SCOPES:
            return None
        config.option.loadscopereorder = False  # `priority` decides the order, not the size of a group
        return _scheduling()(config, log)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker about those that died before it."""
        state: SessionState = node.config.stash[STATE]
        worker: dict[str, Any] = node.workerinput
        if state.workers_lost:
            worker[AFRESH], worker[DONE] = worker["workerid"], dict(state.done)
        if state.settings.task_workers == 1:
            return
        if state.one_by_one:
            worker[ALONE] = True
        else:
            self._journals = self._journals or TemporaryDirectory(prefix="taskspec-begun-", ignore_cleanup_errors=True)
            worker[JOURNAL] = str(Path(self._journals.name) / worker["workerid"])

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """Count a worker that died."""
        state: SessionState = node.config.stash[STATE]
        state.told_browser = state.told_browser or getattr(node, "workeroutput", {}).get(BROWSER, "")
        if error is not None:
            state.workers_lost += 1
            sched: Any = getattr(node.config.pluginmanager.getplugin("dsession"), "sched", None)
            if getattr(sched, "held", None) and last_one(node.config, state):
                sched.give_up(node)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note the result of a task, so that tasks depending on it may run in a worker that did not see it."""
        document, node = getattr(report, "taskspec", None), getattr(report, "node", None)
        if document and node is not None and report.when == "call":
            node.config.stash[STATE].done[document["task_id"]] = report.passed

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Hear what the workers told while they ended: a controller that was interrupted does not listen any more.

        Before that xdist has ended them: each may end its test in 5 seconds, and has to in 5 further ones.
        """
        result = yield
        controller: Any = session.config.pluginmanager.getplugin("dsession")
        with contextlib.suppress(Empty):
            while controller is not None:
                name, told = controller.queue.get_nowait()
                if name == "testreport":
                    controller.worker_testreport(**told)
        return result

    def pytest_unconfigure(self) -> None:
        if self._journals is not None:
            self._journals.cleanup()

    @pytest.hookimpl(optionalhook=True, wrapper=True, tryfirst=True)
    def pytest_handlecrashitem(self, sched: Any) -> Generator[None, Any, Any]:
        """Continue after all others: pytest-rerunfailures may have requested the item again (`mark_test_pending`).

        It is a wrapper, since the implementation that answers first is the last one to be called.
        """
        try:
            return (yield)
        finally:
            getattr(sched, "go_on", lambda: None)()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Start the services in the controller, which owns them, when a worker has found tasks."""
        state: SessionState = node.config.stash[STATE]
        if ids and state.serves_all_tests:
            with contextlib.suppress(Failed, ValueError, OSError):  # each test reports it
                state.harness().start()
        tasks = any(map(of_task, ids))
        if not tasks and not (ids and state.settings.page_tests):
            return
        if tasks:
            refuse(node.config)
        state.check_folders()
        telemetry_of(node.config).begin()
        if state.settings.faults and state.idle is None:
            state.look_at_plans([task.spec for task in tasks_in(node.config, ids).values()])
        if state.settings.services:
            with contextlib.suppress(Failed, ValueError, OSError):  # each task reports it
                state.harness().start()


_SCOPES: dict[str, Callable[[str], str]] = {
    "load": lambda node_id: node_id,
    "loadgroup": lambda node_id: node_id,
    "worksteal": lambda node_id: node_id,
    "loadfile": lambda node_id: node_id.partition("::")[0],
    "loadscope": lambda node_id: node_id.rpartition("::")[0],
}
"""`--dist` -> what keeps ordinary tests together, as in xdist; tasks stay with their group under all of them."""

_DEEP = 8
"""The number of items that a worker knows under `--task-workers auto`."""


class Deep(MixedIn):  # type: ignore[misc]
    """Gives a worker with look-ahead so many items that all of its places are used."""

    def _reschedule(self, node: Any) -> None:
        """Assign more items: to the worker with the fewest first, so that none runs dry.

        xdist itself gives a worker what it needs to go on, or ends it if nothing is left.
        """
        super()._reschedule(node)
        while self.workqueue and (other := self._least_loaded()) is not None:
            self._assign_work_unit(other)

    def _least_loaded(self) -> Any:
        """The worker with the fewest items, of those that may get more; None if there is none."""
        state: SessionState = self.config.stash[STATE]
        workers = state.settings.task_workers
        depth = _DEEP if workers == "auto" else 2 * workers if workers > 1 else 0  # else xdist's own number is enough
        room: dict[Any, int] = {}
        for node, workload in self.assigned_work.items():
            known = self._pending_of(workload)
            if known < depth and not node.shutting_down and node not in self.collecting and looks_ahead(node, state):
                room[node] = known
        return min(room, key=lambda node: room[node], default=None)


@cache
def _scheduling() -> Any:
    """The scheduler's class; made on demand, since xdist may be absent."""
    from xdist.scheduler import LoadScopeScheduling

    class TaskGroupScheduling(CrashedWorkers, Deep, LoadScopeScheduling):  # type: ignore[misc]
        """Sends whole groups of tasks to one worker; every other item is its own group."""

        names: dict[str, str] | None = None

        def _split_scope(self, nodeid: str) -> str:
            if self.names is None:
                node_ids = next(iter(self.registered_collections.values()))
                by_file = self.config.getoption("dist") in ("loadfile", "loadscope")
                read = self.config.stash.get(READ, {})
                groups = group_names(self.config.rootpath, node_ids, by_file=by_file, read=read)
                state: SessionState = self.config.stash[STATE]
                slots = state.harness().slots if groups and state.settings.shared_state else None
                self.names = in_slots(groups, slots, len(self.nodes))
                read.clear()  # nothing reads them after this
            scope = _SCOPES[self.config.getoption("dist")]
            return self.names.get(nodeid) or scope(nodeid)

    return TaskGroupScheduling


def in_slots(names: Mapping[str, str], slots: int | None, workers: int) -> dict[str, str]:
    """Join groups, so that no more workers run tasks than there are slots: the others would wait.

    `slots`: see `SyncHarness.slots`. The largest groups are assigned first.
    """
    if slots is None or slots >= workers:
        return dict(names)
    load = dict.fromkeys((f"slot {number}" for number in range(slots)), 0)
    place: dict[str, str] = {}
    for group, count in Counter(names.values()).most_common():
        place[group] = min(load, key=lambda each: load[each])
        load[place[group]] += count
    return {node_id: place[group] for node_id, group in names.items()}


def group_names(
    root: Path, node_ids: Iterable[str], *, by_file: bool = False, read: _Read | None = None
) -> dict[str, str]:
    """Node id of a task -> its group. The controller collects nothing, so it reads the files.

    `by_file` keeps the cases of a file together too. `read`: see `tasks_of`.
    """
    tasks = tasks_of(root, node_ids, read)
    wanted = dependencies(list(tasks.values()))
    ties: dict[str, tuple[tuple[str, ...], str | None]] = {}
    for task in tasks.values():
        task_id, base = task.spec.task_id, (base_id(task.spec),) if by_file else ()
        ties[task_id] = ((*wanted[task_id], *base), task.spec.episode_id)
        for name in base:
            ties.setdefault(name, ((), None))
    names = groups(ties)
    return {node_id: names[task.spec.task_id] for node_id, task in tasks.items()}


def tasks_of(root: Path, node_ids: Iterable[str], read: _Read | None = None) -> dict[str, Loaded]:
    """Node id -> task, for those that are tasks. `read`: files that were read before; this adds to them."""
    node_ids, read = list(node_ids), {} if read is None else read
    with rarely():
        for file in _task_files(node_ids):
            read[file] = read[file] if file in read else cases_in(root / file)
    known = {f"{file}::{each.spec.task_id}": each for file in _task_files(node_ids) for each in read[file]}
    found: dict[str, Loaded] = {}
    for node_id in filter(of_task, node_ids):
        file, _, task_id = node_id.partition("::")
        if task := known.get(node_id) or task_named(task_id, read[file]):  # it may end in a browser profile
            found[node_id] = task
    return found


def tasks_in(config: pytest.Config, node_ids: Iterable[str]) -> dict[str, Loaded]:
    """`tasks_of` in the controller: several plugins ask, and each file is read once."""
    return tasks_of(config.rootpath, node_ids, config.stash.setdefault(READ, {}))


def _task_files(node_ids: Iterable[str]) -> Iterator[str]:
    return iter(dict.fromkeys(node_id.partition("::")[0] for node_id in node_ids if of_task(node_id)))
