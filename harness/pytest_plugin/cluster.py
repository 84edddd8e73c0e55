"""`--task-cluster`: pytest's own session drives a cluster, in the role that the controller of pytest-xdist has."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Struct

from harness.cluster.batches import Batches, components
from harness.cluster.driver import LOOK, Cluster, ClusterDriver
from harness.cluster.equality import NodeFacts
from harness.cluster.ledger import RunLedger
from harness.cluster.place import ClusterPlace, SlotRange
from harness.cluster.run_file import EarlierRun, RunFile, RunIsDrivenError, read_run, unfinished_runs
from harness.cluster.slot import SlotOrder
from harness.model.settings import Settings
from harness.pytest_plugin.cluster_line import STORE
from harness.pytest_plugin.cluster_replay import RESUMED, ReportReplay
from harness.pytest_plugin.items import TaskItem
from harness.pytest_plugin.running import begin_run
from harness.pytest_plugin.selection import groups_of, task_items, ties
from harness.pytest_plugin.state import SessionState
from harness.pytest_plugin.telemetry import telemetry_of
from harness.reporting.history.file import HistoryError
from harness.reporting.history.reading import usual_seconds
from harness.resilience import SystemClock
from harness.runner.schedule import SHARED
from harness.runner.trials import declared_faults
from harness.spec.agents import BRIDGE
from harness.spec.task import TaskSpec
from harness.values import replace

if TYPE_CHECKING:
    from harness.cluster.ray_slots import RaySlots


class ClusterRun:
    """The plugin of the driver."""

    def __init__(self, config: pytest.Config, state: SessionState) -> None:
        self._config = config
        self._state = state
        self._place: ClusterPlace = config.getoption("task_cluster")
        self._connecting: Future[RaySlots] | None = None
        self._over = threading.Event()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """Begin to connect: the cluster and its slots start while the items are collected. Raises UsageError."""
        from harness.cluster.ray_slots import ClusterError, check

        refuse_options(self._config, self._state)
        reporter: Any = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            reporter.showfspath = False  # results come in the order of their ends, not by file
        try:
            check(self._place)
        except ClusterError as error:
            raise pytest.UsageError(str(error)) from error
        self._connecting = Future()
        threading.Thread(target=self._connect, args=(self._connecting,), name="taskspec-cluster", daemon=True).start()

    def _connect(self, connecting: Future[RaySlots]) -> None:
        """Connect, and ask for slots: on a thread of its own, which stays, since Ray's processes end with it."""
        from harness.cluster.ray_slots import RaySlots

        try:
            slots = RaySlots(self._place, self._order, SystemClock())
            slots.want(self._range(slots).most)
        except BaseException as error:  # noqa: BLE001 - it is raised where the slots are asked for
            connecting.set_exception(error)
        else:
            connecting.set_result(slots)
        self._over.wait()

    def _connected(self) -> RaySlots:
        """The slots, as soon as the cluster is there. Raises UsageError."""
        from harness.cluster.ray_slots import ClusterError, authenticates, keep_signals

        assert self._connecting is not None
        waits = True
        while waits:
            waits = bool(wait([self._connecting], LOOK).not_done)
            keep_signals()  # else Ctrl-C would be Ray's
        try:
            slots = self._connecting.result()
        except ClusterError as error:
            raise pytest.UsageError(str(error)) from error
        if not authenticates():
            self._say("this Ray cluster asks for no token: whoever reaches its ports can run code on its nodes")
        return slots

    def pytest_report_header(self) -> str:
        return f"task cluster: {self._place}"

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all items on the cluster."""
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            many = "s" * (session.testsfailed != 1)
            raise session.Interrupted(f"{session.testsfailed} error{many} during collection")
        if session.items:
            begin_run(self._config)
            slots = self._connected()
            telemetry_of(self._config).begin()
            self._drive(session, slots)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def pytest_unconfigure(self) -> None:
        connecting = self._connecting
        if connecting and connecting.done() and not connecting.exception():  # else Ray ends with this process
            connecting.result().close()
        self._over.set()

    def _drive(self, session: pytest.Session, slots: RaySlots) -> None:
        stored = self._state.stored
        file, earlier = (None, None) if stored else self._file()
        replay, ledger = ReportReplay(session, self._state, file), _ledger(session.items)
        self._replay_earlier(earlier, replay, ledger)
        self._report_lost(task_items(session.items), replay, ledger)
        batches = Batches(self._components(session.items, ledger))
        wants = ties(task_items(stored.tasks if stored else session.items))
        most = min(self._range(slots).most, max(len(batches), 1))
        cluster = Cluster(self.facts, wants, min(self._range(slots).fewest, most), most)
        driver = ClusterDriver(cluster, ledger, batches, slots, replay, SystemClock())
        try:
            if why := driver.run():
                session.shouldstop = why
                if stored and stored.journal:
                    stored.journal.deserted = not driver.refused_all
        except BaseException:
            driver.interrupt()
            raise
        else:
            driver.finish()
        finally:
            if file is not None:
                file.close(finished=ledger.finished)
            if not ledger.finished:
                told = "the same command, since the store has the others"
                if file is not None:
                    told = f"pytest ... --task-cluster {self._place} --task-resume {file.run}"
                self._say(f"{len(ledger.left)} of {len(session.items)} items have no result; to go on: {told}")

    def _report_lost(self, tasks: Sequence[TaskItem], replay: ReportReplay, ledger: RunLedger) -> None:
        """Report the tasks that an earlier process has left in the store without an end, and that do not run again."""
        for item in tasks:
            if failure := self._state.lost.get(item.task_id):
                ledger.close(item.nodeid)
                replay.lost(item.nodeid, failure)

    @cached_property
    def facts(self) -> NodeFacts:
        """What slots must have too."""
        root = self._config.rootpath
        return NodeFacts.here(root, tuple(root / each for each in self._leave_out()))

    def _range(self, slots: RaySlots) -> SlotRange:
        given: SlotRange | None = self._config.getoption("task_cluster_slots")
        return given or SlotRange(1, self._place.local or slots.places)

    def _order(self, name: str) -> SlotOrder:
        config = self._config
        root, start = config.rootpath, config.invocation_params.dir
        # What pytest has taken for the project's folder here: it looks at what paths in the arguments exist.
        roots = ["--rootdir", str(root), *(["-c", str(config.inipath)] if config.inipath else [])]
        return SlotOrder(
            name=name,
            run=self._state.run_id,
            like=replace(self.facts, files={}),
            root=str(root),
            start=os.path.relpath(start, root),
            arguments=(*roots, *map(str, config.invocation_params.args)),
            environment=dict(self._environment()),
            leave_out=tuple(self._leave_out()),
            path=tuple(each for each in sys.path if Path(each or os.curdir).resolve().is_relative_to(root)),
            slots=self._place.local or 1,
        )

    def _environment(self) -> Iterator[tuple[str, str]]:
        names = ("PYTEST_ADDOPTS", *(self._config.getoption("task_cluster_env") or ()))
        yield from ((name, os.environ[name]) for name in names if name in os.environ)
        if self._state.stored is not None:
            yield STORE, json.dumps(self._state.stored.place.given())

    def _leave_out(self) -> Iterator[str]:
        """The folders below the project's that a run writes to."""
        root, alluredir = self._config.rootpath, self._config.getoption("--alluredir", None)
        folders = [self._state.settings.artifacts, *([Path(alluredir).absolute()] if alluredir else [])]
        if self._state.stored is not None and (folder := self._state.stored.place.folder) is not None:
            folders.append(folder)
        yield from (str(each.relative_to(root)) for each in folders if each != root and each.is_relative_to(root))

    def _components(self, items: Sequence[pytest.Item], ledger: RunLedger) -> Any:
        """What waits for a slot, with the seconds that the history expects."""
        tasks, left = task_items(items), set(ledger.left)
        tied, together = groups_of(tasks), dict[str, list[str]]()
        for node in (item.nodeid for item in items if item.nodeid in left):
            together.setdefault(tied.get(node, node), []).append(node)
        return components(
            list(together.values()),
            self._durations(tasks),
            priorities={item.nodeid: item.loaded.spec.priority for item in tasks},
            alone=frozenset(item.nodeid for item in tasks if self._is_alone(item.loaded.spec)),
        )

    def _durations(self, tasks: Sequence[TaskItem]) -> Mapping[str, float]:
        try:
            known = usual_seconds(self._config.rootpath) if self._state.settings.history_runs else {}
        except HistoryError:  # there is none yet; one that is broken is reported where it is written
            known = {}
        ids = {item.nodeid: item.task_id for item in tasks}
        return {node: known[task_id] for node, task_id in ids.items() if task_id in known}

    def _is_alone(self, spec: TaskSpec) -> bool:
        """Return whether a task has a fault on things that tasks share."""
        return any(fault.kind in SHARED for fault in declared_faults(spec, self._state.settings))

    def _say(self, line: str) -> None:
        telemetry_of(self._config).say(line)

    # `--task-resume`.

    def _file(self) -> tuple[RunFile, EarlierRun | None]:
        """The file of this run, or of the one that it goes on with, and what that one has left. Raises UsageError."""
        run, root = self._config.getoption("task_resume"), self._config.rootpath
        if run is not None:
            return self._file_of(run)
        try:
            return RunFile(root, self._state.run_id, self.facts.project), None
        except OSError as error:
            message = f"--task-cluster: without its ledger no task may begin to write, and it cannot be made: {error}"
            raise pytest.UsageError(message) from error

    def _file_of(self, run: str) -> tuple[RunFile, EarlierRun]:
        """The file of an earlier run. Raises UsageError."""
        root = self._config.rootpath
        try:
            file = RunFile(root, run, self.facts.project, goes_on=True)
            found = read_run(root, run)
        except FileNotFoundError:
            known = ", ".join(unfinished_runs(root)) or "none"
            message = f"--task-resume {run}: there is no unfinished run of this name (unfinished: {known})"
            raise pytest.UsageError(message) from None
        except (OSError, ValueError, RunIsDrivenError) as error:
            raise pytest.UsageError(f"--task-resume {run}: {error}") from error
        if found.project != self.facts.project:
            message = f"the project has changed since: its digest was {found.project}, and is {self.facts.project} now"
            raise pytest.UsageError(f"--task-resume {run}: {message}; run it anew")
        return file, found

    def _replay_earlier(self, earlier: EarlierRun | None, replay: ReportReplay, ledger: RunLedger) -> None:
        """Report what an earlier run has done, and what must not be done again."""
        if earlier is None:
            return
        lost = ledger.resumed(earlier.notes).lost
        reasons = {node: f"the driver of its run ended; {why}" for node, why in lost.items()}
        reasons |= {note.name: note.why for note in earlier.notes if note.word == "crashed"}
        for node in ledger.left:
            if node in earlier.done:
                ledger.close(node)
                replay.replay(RESUMED, earlier.done[node])
            elif node in reasons:
                ledger.close(node)
                replay.crashed(RESUMED, node, reasons[node])


def _ledger(items: Sequence[pytest.Item]) -> RunLedger:
    tasks = task_items(items)
    episodes = {item.nodeid: item.loaded.spec.episode_id for item in tasks if item.loaded.spec.episode_id}
    return RunLedger({item.nodeid: isinstance(item, TaskItem) for item in items}, episodes)


# Options and settings that cannot act on the machines of a cluster: a run with them is refused.


class RefusedOption(Struct, frozen=True):
    """One option that `--task-cluster` refuses."""

    name: str
    dest: str
    why: str
    fine: tuple[object, ...] = (None, False, 0, "")
    """Values that change nothing."""


REFUSED = (
    RefusedOption("-n", "numprocesses", "the slots of the cluster take the place of the workers of pytest-xdist"),
    RefusedOption("--dist", "dist", "the cluster divides the tests itself", (None, "no")),
    RefusedOption("--pdb", "usepdb", "a debugger has no terminal on another machine"),
    RefusedOption("--trace", "trace", "a debugger has no terminal on another machine"),
    RefusedOption("--setup-only", "setuponly", "what other machines set up is not shown"),
    RefusedOption("--setup-plan", "setupplan", "what other machines set up is not shown"),
    RefusedOption("--setup-show", "setupshow", "what other machines set up is not shown"),
    RefusedOption("--cov", "cov_source", "pytest-cov cannot collect from other machines", (None, False, [])),
    RefusedOption("--task-update-baselines", "task_update_baselines",
        "the baselines would be written on the slots' machines"),
    RefusedOption("--task-models", "task_models",
        "the recordings would be written on the slots' machines; record without a cluster",
        (None, "live", "replay")),
    RefusedOption("--task-evidence", "task_evidence", "the evidence of passed tasks would stay on the slots' machines",
        (None, "failed")),
    RefusedOption("--task-bridge-port", "task_bridge_port", "agents that run elsewhere cannot reach the slots"),
    RefusedOption("--task-bridge-wait", "task_bridge_wait", "agents that run elsewhere cannot reach the slots"),
)  # fmt: skip


def refuse_options(config: pytest.Config, state: SessionState) -> None:
    """Raise UsageError, with a sentence for each, for what cannot act on a cluster."""
    if sentences := [*_options(config), *_settings(config, state)]:
        raise pytest.UsageError("\n".join(f"--task-cluster: {each}" for each in sentences))


def _options(config: pytest.Config) -> Iterator[str]:
    for option in REFUSED:
        value: Any = config.getoption(option.dest, None)
        if value not in option.fine:
            yield f"{option.name} cannot be used: {option.why}"
    if config.getoption("task_store", None) and config.getoption("task_resume", None):
        yield (
            "--task-resume cannot be used with --task-store: the store has what the run has done, and the same command "
            "goes on with it. Leave --task-resume out"
        )


def _settings(config: pytest.Config, state: SessionState) -> Iterator[str]:
    settings, place = state.settings, config.getoption("task_cluster")
    assert isinstance(place, ClusterPlace)
    if BRIDGE in (state.chosen, settings.agent):
        yield "the agent `bridge` cannot be used: agents that run elsewhere cannot reach the slots"
    if settings.evidence == "all" and config.getoption("task_evidence", None) is None:
        yield 'evidence = "all" cannot be used: the evidence of passed tasks would stay on the slots\' machines'
    if settings.shared_state and not place.local and (shared := _shared_site(settings)):
        yield (
            f"the tasks of this project share one state, so each needs it for itself, but the machines of the cluster "
            f"share {shared}. Expected: services with a `command`, which each slot starts for itself, or "
            '`isolation = "world"`, or `isolation = "none"` with `parallel = true`'
        )
    fixed = [f"{name}: {host} = {port}" for name, host, port in _fixed_ports(settings)]
    if place.local > 1 and fixed:
        yield (
            f"{place} starts the services for each slot, but a port can be taken only once on a machine "
            f'({"; ".join(fixed)}): use "auto", or one slot'
        )


def _shared_site(settings: Settings) -> str:
    """The site that all machines share; empty if each slot has its own."""
    elsewhere = [name for name, each in settings.services.items() if not each.command]
    if elsewhere:
        return f"service `{elsewhere[0]}`"
    return "" if settings.services else "the site"


def _fixed_ports(settings: Settings) -> Iterator[tuple[str, str, int]]:
    """Service, host and port of each port that is a number."""
    for name, each in settings.services.items():
        if each.command:
            yield from ((name, host, port) for host, port in each.hosts.items() if isinstance(port, int))
