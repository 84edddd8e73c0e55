"""`--task-cluster`: pytest's own session drives a cluster, in the role that the controller of pytest-xdist has."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.cluster.batches import Batches, components
from harness.cluster.driver import Cluster, Driver
from harness.cluster.equality import Facts
from harness.cluster.ledger import Ledger
from harness.cluster.messages import PLACE, Done, Ended, Told, Warned, replaced
from harness.cluster.place import ClusterPlace, SlotRange
from harness.cluster.slot import SlotOrder
from harness.pytest_plugin.activation import begin_run
from harness.pytest_plugin.items import TaskItem
from harness.pytest_plugin.lost import report_lost_task
from harness.pytest_plugin.selection import groups, task_items
from harness.pytest_plugin.state import SessionState
from harness.pytest_plugin.telemetry import OUTPUT, telemetry_of
from harness.reporting.files import shown_path
from harness.reporting.task_record import TaskRecord
from harness.resilience import SystemClock
from harness.runner.schedule import SHARED
from harness.spec.suite import dependencies

if TYPE_CHECKING:
    from harness.cluster.ray_slots import RaySlots


class SlotGateway:
    """What pytest and its plugins ask of the worker behind a report."""

    def __init__(self, name: str) -> None:
        self.id = name


class SlotNode:
    """A slot, as the worker of its reports (`report.node`)."""

    def __init__(self, config: pytest.Config, name: str) -> None:
        self.config = config
        self.gateway = SlotGateway(name)
        self.workerinfo = {
            "id": name, "sysplatform": sys.platform, "version_info": sys.version_info, "executable": sys.executable
        }  # fmt: skip


class ClusterRun:
    """The plugin of the driver."""

    def __init__(self, config: pytest.Config, state: SessionState) -> None:
        self._config = config
        self._state = state
        self._place: ClusterPlace = config.getoption("task_cluster")
        self._slots: RaySlots | None = None
        self._driver: Driver | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Show results as a controller does: by slot, not by file."""
        reporter: Any = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            reporter.showfspath = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all items on the cluster."""
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            raise session.Interrupted(
                f"{session.testsfailed} error{'s' * (session.testsfailed != 1)} during collection"
            )
        if not session.items:
            return True
        begin_run(self._config)
        telemetry_of(self._config).begin()
        self._connect(session)
        try:
            self._drive(session)
        finally:
            if self._slots is not None:
                self._slots.close()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _connect(self, session: pytest.Session) -> None:
        from harness.cluster.ray_slots import ClusterError, RaySlots

        try:
            self._slots = RaySlots(self._place, self._order, SystemClock())
        except ClusterError as error:
            raise pytest.UsageError(str(error)) from error

    def _drive(self, session: pytest.Session) -> None:
        assert self._slots is not None
        items = {item.nodeid: item for item in session.items}
        tasks = task_items(session.items)
        ties = _ties(tasks)
        reporter = Replay(session, self._state, items)
        ledger = Ledger(
            {node: isinstance(item, TaskItem) for node, item in items.items()},
            {item.nodeid: item.loaded.spec.episode_id for item in tasks if item.loaded.spec.episode_id},
        )
        batches = Batches(
            components(
                _components(session.items),
                {},
                priorities={item.nodeid: item.loaded.spec.priority for item in tasks},
                alone=frozenset(item.nodeid for item in tasks if _is_alone(item)),
            )
        )
        most = self._range(len(batches))
        root = self._config.rootpath
        facts = Facts.here(root, tuple(root / each for each in self._leave_out()))
        cluster = Cluster(facts, ties, most.fewest, most.most)
        driver = Driver(cluster, ledger, batches, self._slots, reporter, SystemClock())
        try:
            if ended := driver.run():
                session.shouldstop = ended
        except BaseException:
            driver.interrupt()
            raise
        driver.finish()

    def _range(self, batches: int) -> SlotRange:
        """How many slots the run uses; no more than there is work for."""
        assert self._slots is not None
        given: SlotRange | None = self._config.getoption("task_cluster_slots")
        found = given or SlotRange(1, self._place.local or self._slots.places)
        return SlotRange(min(found.fewest, batches), min(found.most, batches))

    def _order(self, name: str) -> SlotOrder:
        config = self._config
        root, start = config.rootpath, config.invocation_params.dir
        below = start.relative_to(root) if start.is_relative_to(root) else Path()
        return SlotOrder(
            name=name,
            run=self._state.run_id,
            root=str(root),
            start=str(below),
            arguments=tuple(map(str, config.invocation_params.args)),
            environment=dict(self._environment()),
            leave_out=tuple(self._leave_out()),
            slots=self._place.local or 1,
        )

    def _environment(self) -> Iterator[tuple[str, str]]:
        names = ("PYTEST_ADDOPTS", *(self._config.getoption("task_cluster_env") or ()))
        yield from ((name, os.environ[name]) for name in names if name in os.environ)

    def _leave_out(self) -> Iterator[str]:
        root, alluredir = self._config.rootpath, self._config.getoption("--alluredir", None)
        for folder in (self._state.settings.artifacts, Path(alluredir).absolute() if alluredir else root):
            if folder != root and folder.is_relative_to(root):
                yield str(folder.relative_to(root))


def _ties(tasks: Sequence[TaskItem]) -> dict[str, tuple[str, ...]]:
    """Node id of a task -> those that it depends on."""
    names = {item.loaded.spec.task_id: item.nodeid for item in tasks}
    graph = dependencies([item.loaded for item in tasks])
    return {names[each]: tuple(names[other] for other in wanted if other in names) for each, wanted in graph.items()}


def _components(items: Sequence[pytest.Item]) -> list[list[str]]:
    """The items that stay together, in the order of the session."""
    tasks = task_items(items)
    wanted = dependencies([item.loaded for item in tasks])
    tied = groups(
        {item.loaded.spec.task_id: (wanted[item.loaded.spec.task_id], item.loaded.spec.episode_id) for item in tasks}
    )
    found: dict[str, list[str]] = {}
    for item in items:
        name = f"task {tied[item.loaded.spec.task_id]}" if isinstance(item, TaskItem) else item.nodeid
        found.setdefault(name, []).append(item.nodeid)
    return list(found.values())


def _is_alone(item: TaskItem) -> bool:
    return any(fault.kind in SHARED for fault in item.loaded.spec.faults)


class Replay:
    """Gives what slots report to pytest, as if the items had run here (`driver.Reporter`)."""

    def __init__(self, session: pytest.Session, state: SessionState, items: Mapping[str, pytest.Item]) -> None:
        self._session = session
        self._config: Any = session.config
        self._state = state
        self._items = items
        self._nodes: dict[str, SlotNode] = {}

    @property
    def stops(self) -> bool:
        return bool(self._session.shouldfail or self._session.shouldstop)

    def done(self, slot: str, done: Done, blob: bytes) -> None:
        self._unpack(blob, done.left_out)
        place = _shown(self._state)
        item = self._items[done.node]
        hook = self._config.hook
        hook.pytest_runtest_logstart(nodeid=done.node, location=item.location)
        for data in done.reports:
            report = hook.pytest_report_from_serializable(
                config=self._config, data=_as_sent(replaced(data, PLACE, place))
            )
            self._report(slot, report)
        hook.pytest_runtest_logfinish(nodeid=done.node, location=item.location)

    def crashed(self, slot: str, node: str, why: str) -> None:
        item = self._items[node]
        message = f"the slot {slot!r} of the cluster was lost while it ran {node!r}" + (f": {why}" if why else "")
        report: Any = pytest.TestReport(node, item.location, {}, "failed", message, "call")
        stream = telemetry_of(self._config).stream
        if record := report_lost_task(self._state, stream, node, why):
            report.taskspec = record.model_dump(mode="json")
            report.longrepr = f"{report.longrepr}\n  artifacts: {record.artifacts}"
        self._config.hook.pytest_runtest_logstart(nodeid=node, location=item.location)
        self._report(slot, report)
        self._config.hook.pytest_runtest_logfinish(nodeid=node, location=item.location)

    def _report(self, slot: str, report: Any) -> None:
        report.node = self._nodes.setdefault(slot, SlotNode(self._config, slot))
        report.worker_id = slot
        document = getattr(report, "taskspec", None)
        if document and report.when == "call":
            self._state.done[document["task_id"]] = report.passed
        self._config.hook.pytest_runtest_logreport(report=report)

    def passed(self, node: str) -> tuple[str, bool] | None:
        item = self._items.get(node)
        if not isinstance(item, TaskItem):
            return None
        task_id = item.loaded.spec.task_id
        return (task_id, self._state.done[task_id]) if task_id in self._state.done else None

    def told(self, slot: str, message: Told | Warned | Ended, blob: bytes) -> None:
        telemetry = telemetry_of(self._config)
        match message:
            case Told(line=line):
                telemetry.receive(line)
            case Warned():
                self._warn(message)
            case Ended(output=output, interrupted=records):
                self._unpack(blob)
                telemetry.take_problems(output.get(OUTPUT, {}))
                place = str(self._state.settings.artifacts)
                self._state.interrupted += [TaskRecord.model_validate(replaced(each, PLACE, place)) for each in records]

    def _warn(self, warned: Warned) -> None:
        message = warnings.WarningMessage(warned.message, _category(warned.category), *_place(warned))
        self._config.hook.pytest_warning_recorded.call_historic(
            kwargs={"warning_message": message, "when": "runtest", "nodeid": warned.node, "location": warned.place}
        )

    def noted(self, node: str, attempt: int, word: str) -> None:
        pass

    def say(self, line: str) -> None:
        telemetry_of(self._config).say(line)

    def _unpack(self, blob: bytes, left_out: Sequence[str] = ()) -> None:
        """Put the files of a task where they would be had it run here."""
        if not blob:
            return
        archive = self._state.harness().archive
        folder = archive.incoming("cluster")
        with tarfile.open(fileobj=io.BytesIO(blob)) as tar:
            tar.extractall(folder, filter="data")
        for key in sorted(path for path in folder.iterdir() if path.is_dir()):
            if key.name == "allure":
                self._move_allure(key)
            else:
                archive.adopt(key.name, key)
        if left_out:
            self.say(f"too large to travel, so left on the slot's machine: {', '.join(left_out)}")

    def _move_allure(self, folder: Path) -> None:
        target = Path(self._config.getoption("--alluredir"))
        target.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            path.rename(target / path.name)


def _shown(state: SessionState) -> str:
    return shown_path(state.settings.artifacts)


def _as_sent(data: dict[str, Any]) -> dict[str, Any]:
    """A report as it was before JSON made lists of its tuples."""
    for name in ("location", "longrepr"):
        if isinstance(data.get(name), list):
            data[name] = tuple(data[name])
    for name in ("user_properties", "sections"):
        data[name] = [tuple(each) for each in data.get(name, [])]
    return data


def _category(name: str) -> type[Warning]:
    import builtins

    found = getattr(builtins, name, None) or getattr(pytest, name, None)
    return found if isinstance(found, type) and issubclass(found, Warning) else UserWarning


def _place(warned: Warned) -> tuple[str, int]:
    return (warned.place[0], warned.place[1]) if warned.place else (warned.node, 0)
