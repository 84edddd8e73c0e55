"""The pytest process of a slot: collects as usual, runs what its driver asks for, and sends every report to it.

To pytest and to other plugins it looks like a worker of pytest-xdist, so all that they do in workers holds here too.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

from harness.cluster.messages import (
    PLACE,
    Batch,
    BeatSeen,
    Collected,
    Done,
    End,
    Ended,
    Idle,
    NotCollected,
    Noted,
    ToChild,
    Warned,
    WriteAnswer,
    replaced,
    to_child,
)
from harness.cluster.slot import FOLDER, TaskArchives
from harness.pytest_plugin.cluster_line import FENCED, STORE, UPLINK, DriverLink, DriverWire, Permits
from harness.pytest_plugin.errors import error_of
from harness.pytest_plugin.role import ROLE, RUN_ID, Role
from harness.pytest_plugin.state import STATE
from harness.resilience import SystemClock
from harness.resilience.watchdog import at_death_of_parent

if TYPE_CHECKING:
    from harness.runner.slot_store import SlotStore, StoredFolder


class Queue:
    """The items that are still to run; it looks like the queue of a worker of xdist, which the look-ahead reads."""

    def __init__(self) -> None:
        self.waiting: deque[int] = deque()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def lock(self) -> Iterator[deque[int]]:
        with self._lock:
            yield self.waiting


class ChildSession:
    """The plugin of the child."""

    def __init__(self, wire: DriverWire, folder: Path, name: str, run: str, store: str) -> None:
        """`store`: what the driver has told of the store of the run; empty if there is none."""
        self._wire = wire
        self._folder = folder
        self._name = name
        self._run = run
        self._store: dict[str, str] = json.loads(store) if store else {}
        self._permits = Permits(wire)
        self._said: queue.SimpleQueue[Batch | End] = queue.SimpleQueue()
        self._reports: dict[str, list[dict[str, Any]]] = {}
        self._attempts: dict[str, int] = {}
        self._index: dict[str, int] = {}
        self._uncollected: dict[str, str] = {}
        """File or folder that could not be collected -> the error."""
        self._warned: list[Warned] = []
        self._archives = TaskArchives(folder)
        self._stops = False
        self.torun = Queue()
        self.nextitem_index: int | None = None

    # The messages of the driver, on a thread of their own.

    def hear(self, lines: IO[bytes]) -> None:
        for line in lines:
            with contextlib.suppress(ValueError):
                self._take(to_child(line))
        os._exit(FENCED)  # the slot is gone

    def _take(self, message: ToChild) -> None:
        match message:
            case BeatSeen(number=number):
                self._wire.fence.seen(number)
            case WriteAnswer():
                self._permits.answered(message)
            case Batch():
                self._wire.fence.given()
                self._said.put(message)
            case End(how=how):
                self._stops = True
                self._said.put(message)
                if how == "interrupt":
                    os.kill(os.getpid(), signal.SIGINT)

    # The session.

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Make this process a worker, before any plugin is configured."""
        worker: Any = config
        worker.workerinput = {"workerid": self._name, "workercount": 1, "testrunuid": self._run, RUN_ID: self._run}
        worker.workerinput |= {"mainargv": sys.argv, **_reruns(config), **self._store}
        worker.workeroutput = {}
        config.stash[ROLE] = Role.SLOT
        config.stash[UPLINK] = DriverLink(self._wire, self._permits)
        for name, value in self._neutral().items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)
        if getattr(config.option, "allure_report_dir", None):
            config.option.allure_report_dir = str(self._folder / "allure")

    def _neutral(self) -> dict[str, object]:
        """The options that the driver acts on, and the folders that are this process's own."""
        return {
            "keyword": "", "markexpr": "", "deselect": None, "lf": False, "failedfirst": False, "newfirst": False,
            "stepwise": False, "stepwise_skip": False, "maxfail": 0, "xmlpath": None, "usepdb": False,
            "task_shard": None, "task_cluster": None, "task_cluster_slots": None, "task_cluster_env": None,
            "task_resume": None, "task_durations": None, "task_live": False, "task_summary": None,
            "task_github_annotations": False, "task_artifacts": str(self._folder / "errors"),
            "basetemp": self._folder / "tmp", "numprocesses": None, "dist": "no", "continue_on_collection_errors": True,
        }  # fmt: skip

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._uncollected[report.nodeid] = error_of(report.longreprtext)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._index = {item.nodeid: number for number, item in enumerate(session.items)}
        for item in session.items:
            loaded = getattr(item, "loaded", None)
            if loaded is not None:
                self._permits.nodes[loaded.spec.task_id] = item.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run batches until the end is asked for."""
        self._wire.send(Collected(len(session.items)))
        while not self._stops:
            said = self._said.get()
            if isinstance(said, Batch):
                self._run_batch(session, said)
                self._wire.send(Idle(said.number))
        return True

    def _run_batch(self, session: pytest.Session, batch: Batch) -> None:
        state = session.config.stash.get(STATE, None)
        if state is not None:
            state.afresh = batch.afresh
            state.done.update(batch.done)
        self._attempts = dict(batch.items)
        for node in (node for node, _ in batch.items if node not in self._index):
            errors = (why for place, why in self._uncollected.items() if node.startswith(place))
            self._wire.send(NotCollected(node, next(errors, "")))
        self.torun.waiting = deque(sorted(self._index[node] for node, _ in batch.items if node in self._index))
        self._advance()
        while self.nextitem_index is not None and not self._stops:
            item = session.items[self.nextitem_index]
            self._advance()
            following = session.items[self.nextitem_index] if self.nextitem_index is not None else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    def _advance(self) -> None:
        with self.torun.lock() as waiting:
            self.nextitem_index = waiting.popleft() if waiting else None

    # The reports.

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._reports.setdefault(nodeid, [])  # pytest-rerunfailures starts an item several times
        self._wire.send(Noted(nodeid, "turn"))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.nodeid in self._reports:
            config: Any = self._config
            data = config.hook.pytest_report_to_serializable(config=config, report=report)
            data |= {"item_index": self._index.get(report.nodeid, 0), "worker_id": self._name, "testrun_uid": self._run}
            self._reports[report.nodeid].append(data)

    def pytest_configure(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Send an item when all is over, Allure's files included."""
        result = yield
        reports = self._reports.pop(item.nodeid, [])
        for warned in self._warned:
            self._wire.send(warned)
        self._warned.clear()
        stored: StoredFolder | None = None
        try:
            stored = self._put(reports, self._attempts.get(item.nodeid, 0))
        finally:  # Ctrl-C ends the wait for the store, and the item keeps its result
            self._send_done(item, reports, stored)
        return result

    def _put(self, reports: list[dict[str, Any]], attempt: int) -> StoredFolder | None:
        """Put the directory of a failed task into the store of the run; returns None if there is nothing to put."""
        state = self._config.stash.get(STATE, None)
        stored: SlotStore | None = state.stored.slot if state and state.stored else None
        documents = [report["taskspec"] for report in reports if report.get("taskspec")]
        if stored is None or not documents or documents[-1]["artifacts"] is None:
            return None
        folder = self._folder / "errors" / documents[-1]["key"]
        return stored.put(folder, attempt) if folder.is_dir() else None

    def _send_done(self, item: pytest.Item, reports: list[dict[str, Any]], stored: StoredFolder | None) -> None:
        archive, lost = self._archives.pack(report["taskspec"] for report in reports if report.get("taskspec"))
        place = item.location
        self._wire.send(
            Done(
                node=item.nodeid,
                attempt=self._attempts.get(item.nodeid, 0),
                location=(place[0], place[1], place[2]),
                reports=tuple(self._without_folder(reports)),
                files=str(archive or ""),
                lost="; ".join(filter(None, (lost, stored.trouble if stored else ""))),
                stored=stored.name if stored else "",
            )
        )

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        if when == "runtest":
            kind = warning_message.category.__name__
            self._warned.append(Warned(kind, str(warning_message.message), nodeid, location))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, Any, Any]:
        result = yield
        state = session.config.stash.get(STATE, None)
        records = [each.model_dump(mode="json") for each in state.interrupted] if state is not None else []
        archive, _ = self._archives.pack(records)
        config: Any = session.config
        output = {**config.workeroutput, "exitstatus": int(exitstatus)}
        self._wire.send(Ended(output, tuple(self._without_folder(records)), str(archive or "")))
        return result

    def _without_folder(self, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The documents without the folder of this process, which means nothing elsewhere."""
        told: list[dict[str, Any]] = replaced(documents, str(self._folder / "errors"), PLACE)
        return told

    def pytest_unconfigure(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _reruns(config: pytest.Config) -> dict[str, Any]:
    """What pytest-rerunfailures expects in a worker: where it counts failures. Here each process counts its own."""
    if not config.pluginmanager.hasplugin("rerunfailures"):
        return {}
    from pytest_rerunfailures import ServerStatusDB

    server = ServerStatusDB()
    return {"sock_port": server.sock_port, "statusdb_token": getattr(server, "token", "")}


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Begin, if a slot has started this process: this module is loaded with `-p`, before anything is captured.

    The messages come on standard input and leave on standard output.
    """
    at_death_of_parent(signal.SIGKILL)  # Ray ends the children of a slot with it, so also a watchdog before its command
    folder = Path(os.environ.pop(FOLDER))
    (folder / "errors").mkdir()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # Ray's processes block it, and children inherit that
    lines, out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)  # whatever is printed goes to the log of the slot
    name, run = os.environ["TASKSPEC_SLOT"], os.environ["TASKSPEC_RUN"]
    os.environ["PYTEST_XDIST_WORKER"] = name
    wire = DriverWire(out, SystemClock())
    session = ChildSession(wire, folder, name, run, os.environ.pop(STORE, ""))
    pluginmanager.register(session, "taskspec-cluster-child")
    threading.Thread(target=session.hear, args=(lines,), daemon=True).start()
    threading.Thread(target=wire.beats, daemon=True).start()
