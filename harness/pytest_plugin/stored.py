"""`--task-store`: opens the store that keeps the results of a part of a run, and makes what this process does there."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from msgspec import Struct

from harness.model.ledger import CUT_OFF, Gone, LossVerdict, what_runs_again
from harness.pytest_plugin.items import TaskItem
from harness.pytest_plugin.role import Role, role_of, worker_input
from harness.pytest_plugin.selection import names_of, task_items, tell_deselected
from harness.pytest_plugin.state import SessionState
from harness.pytest_plugin.stored_workers import (
    EARLIER,
    OF_THE_MACHINE,
    StorePlace,
    WorkerOfStore,
    WorkersOfStore,
    refusing,
)
from harness.recovery.failure import Failure
from harness.reporting.history.attempts import begun_line, ended_line, ends, over_line
from harness.reporting.history.file import HISTORY
from harness.reporting.history.record import Execution, RunRecord, checkout_of
from harness.resilience import SystemClock
from harness.runner.not_run import died
from harness.runner.slot_store import SlotStore
from harness.runner.store_writer import StoreLedger, StoreWriter
from harness.runner.stored_part import (
    ERRORS,
    CommonRun,
    Earlier,
    NotedStore,
    StoredPart,
    WriteMemory,
    join_division,
    join_run,
    part_name,
    refuse_lost,
    show_attempt,
)
from harness.spec.names import how_many, list_some
from harness.store import SCHEME, local_path


class StoredRun(Struct, frozen=True):
    """The store in one process, and the roles that the process has there."""

    place: StorePlace
    ledger: StoreLedger
    """Lets the tasks of this process begin to write."""
    selection: StoredSelection
    """Leaves out what earlier processes have done."""
    writer: StoreWriter
    """Stores beside the tasks."""
    journal: StoredJournal | None = None
    """In the process that sees all reports: the only one, the controller of xdist, or the driver of a cluster."""
    slot: SlotStore | None = None
    """In the process of a slot."""

    @property
    def tasks(self) -> Sequence[pytest.Item]:
        """All tasks of the part, those that have ended included."""
        return self.selection.tasks

    def plugins(self, config: pytest.Config) -> Iterator[tuple[str, object]]:
        """Name and object of each plugin."""
        yield "taskspec-store", self.selection
        if self.journal is not None:
            yield "taskspec-store-journal", self.journal
        else:
            yield "taskspec-store-worker", WorkerOfStore(self.writer)
        if role_of(config) is Role.CONTROLLER and self.journal is not None:
            workers = WorkersOfStore(self.place, self.selection.earlier, self.journal.note_writes)
            yield "taskspec-store-workers", workers


def begin_store(config: pytest.Config, state: SessionState) -> StoredRun:
    """Open the store of the run, and read what earlier processes have done of its part.

    Raises UsageError for a store that cannot be used or belongs to another run; ends pytest with status 75 if it does
    not answer.
    """
    with refusing(config):
        return _begin(config, state) if role_of(config).reports else _begin_worker(config, state, worker_input(config))


def _begin(config: pytest.Config, state: SessionState) -> StoredRun:
    shard = str(config.getoption("task_shard") or "")
    attempt = f"{state.run_id}-{uuid4().hex[:8]}"
    place = StorePlace(_at(config, config.getoption("task_store")), part_name(shard), attempt)
    runs = not config.getoption("collectonly")
    if runs:
        refuse_lost(place.whole(), place.part, _memory(place, state))
        digest = state.durations.digest if state.durations else ""
        commit = checkout_of(config.rootpath, os.environ).commit
        join_run(place.whole(), CommonRun(shard.partition("/")[2], digest, commit))
    found = StoredPart(place.open())
    ended = {nodeid: each.outcome != "failed" for nodeid, each in ends(found.attempts, found.owner).items()}
    if runs:
        show_attempt(found.store, attempt)
    earlier = Earlier(ended, found.written, len(found.attempts))
    alluredir = config.getoption("--alluredir", None)
    store = _noted(place, state)
    results = Path(config.invocation_params.dir, alluredir) if alluredir else None
    writer = StoreWriter(store, attempt, SystemClock(), results)
    journal = StoredJournal(config, state, writer, attempt, earlier)
    ledger, selection = (
        StoreLedger(store, attempt, SystemClock(), writer),
        StoredSelection(config, state, place, earlier),
    )
    return StoredRun(place, ledger, selection, writer, journal=journal)


def _begin_worker(config: pytest.Config, state: SessionState, given: Mapping[str, Any]) -> StoredRun:
    place = StorePlace.of(given)
    store = _noted(place, state)
    slot = SlotStore(store, place.attempt, SystemClock()) if role_of(config) is Role.SLOT else None
    if slot is not None:
        slot.refuse_other()
    writer, earlier = StoreWriter(store, place.attempt, SystemClock()), msgspec.convert(given.get(EARLIER, {}), Earlier)
    selection = StoredSelection(config, state, place, earlier)
    return StoredRun(place, StoreLedger(store, place.attempt, SystemClock(), writer), selection, writer, slot=slot)


def _noted(place: StorePlace, state: SessionState) -> NotedStore:
    return NotedStore(place.whole(), place.part, place.attempt, _memory(place, state))


def _memory(place: StorePlace, state: SessionState) -> WriteMemory:
    return WriteMemory(state.settings.root / HISTORY.parent / "stores", place.url, place.part)


def _at(config: pytest.Config, url: str) -> str:
    """The URL; a path is relative to the folder where pytest was started."""
    if SCHEME.match(url):
        return url
    start = config.invocation_params.dir
    folder = Path(os.path.normpath(start / local_path(url)))
    root = config.rootpath  # above the folder where pytest was started, and probably because of the store
    misled = root in start.parents and root in folder.parents and start not in folder.parents
    if url in config.invocation_params.args and folder.is_dir() and misled:
        raise pytest.UsageError(
            f"--task-store {url}: pytest takes this folder for a path of tests, so it takes {root} for the "
            f"project. Expected: --task-store={url}"
        )
    return str(folder)


# In each process that collects: what earlier processes have done does not run again.

_GONE = "A process of this part is gone"


class StoredSelection:
    """The plugin that leaves out what has ended, and what is lost."""

    def __init__(self, config: pytest.Config, state: SessionState, place: StorePlace, earlier: Earlier) -> None:
        self._config = config
        self._state = state
        self._place = place
        self.earlier = earlier
        self.tasks: Sequence[TaskItem] = ()
        """All tasks of the part, those that have ended included."""
        self._left = LossVerdict()
        self._lost: dict[str, Failure] = {}
        """Id of a task that does not run, although it has no end -> how it ended."""

    def pytest_report_header(self) -> str:
        return f"task store: {self._place.open().shown}"

    def pytest_report_collectionfinish(self, items: Sequence[pytest.Item]) -> list[str]:
        if not (self._left.kept or self._left.lost):
            return []
        lost = len(self._left.lost)
        cut = f", {lost} cannot run again" if lost else ""
        ended = f"{how_many(len(self._left.kept), 'task')} ended in earlier processes of this part"
        failed = [nodeid.partition("::")[2] for nodeid, passed in self.earlier.ended.items() if not passed]
        told = f" ({len(failed)} failed: {list_some(sorted(failed))})" if failed else ""
        return [f"task store: {ended}{told}{cut}, {len(task_items(items)) - lost} to run"]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect what has ended, after all that selects. Under xdist every worker does it."""
        found, items[:] = list(items), []  # pytest goes on for a moment if this is refused
        self._join_division()
        items[:] = found
        tasks = self.tasks = task_items(items)
        facts = {
            item.nodeid: self.earlier.facts(item.nodeid, item.task_id, item.loaded.spec.episode_id) for item in tasks
        }
        self._left = what_runs_again(facts, Gone.PART)
        for item in tasks:
            if why := self._left.lost.get(item.nodeid):
                crashed = facts[item.nodeid].wrote
                self._lost[item.task_id] = died(why) if crashed else Failure("EPISODE_STATE_LOST", f"{_GONE}: {why}")
        ended = set(self._left.kept)
        kept = [item for item in items if item.nodeid not in ended]
        if len(kept) < len(items):
            tell_deselected(config, items, kept, also=True)
        items[:] = kept

    def _join_division(self) -> None:
        """Refuse a part of other tasks than those that the other parts were divided of."""
        config = self._config
        sharding: Any = config.pluginmanager.getplugin("taskspec-shard")
        if sharding is not None and not (config.getoption("collectonly") or role_of(config) is Role.SLOT):
            with refusing(config):
                join_division(self._place.whole(), sharding.divided)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Let tasks depend on those that have ended."""
        state = self._state
        state.names = names_of(self.tasks)
        state.lost = self._lost
        ended = set(self._left.kept)
        for item in self.tasks:
            if item.nodeid in ended:
                state.selected.add(item.task_id)
                known = item.loaded.spec.expected_failure is not None
                state.done[item.task_id] = self.earlier.ended[item.nodeid] and not known


# The journal of a part in the store of its run, and the exit status: in the process that sees all reports.

LAST = 30.0
"""Seconds that the end of a run waits for the store, as long as it takes anything in that time."""
_LAST_OF_INTERRUPTED = 25.0
"""The same after a signal: the machine is about to be taken away."""
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""The signals by which a machine says that it is taken away. Ctrl-C is a person's."""
_UNNOTED = (
    "it does not know what these tasks have done: {}. They have clicked something that posts, without `effect: write`, "
    "and a repetition of this part would do that again, so none is asked for (status 1): {}"
)


class StoredJournal:
    """The plugin that keeps the journal; the history of the run calls it."""

    def __init__(
        self, config: pytest.Config, state: SessionState, writer: StoreWriter, attempt: str, earlier: Earlier
    ) -> None:
        """`attempt`: the name of what this process, with its workers, does of the part."""
        self._config = config
        self._state = state
        self._writer = writer
        self._attempt = attempt
        self._earlier = earlier
        self._places: dict[str, str] = {}
        """Node id of a task -> where the process of a cluster that ran it has put its directory."""
        self._folders: set[str] = set()
        """The names of the directories that are in the store, or on the way there."""
        self._cut_off: set[str] = set()
        """Node ids of the tasks that the store kept from writing."""
        self._incomplete = False
        self.deserted = False
        """Whether the cluster had no machine left for the run."""

    def has(self, nodeid: str, name: str) -> None:
        """A slot has stored the directory of a task under this name."""
        self._places[nodeid] = name
        self._folders.add(name)

    def begin(self, run: RunRecord, tasks: Iterable[str]) -> None:
        """The run begins with these tasks (node ids)."""
        self._writer.tell(begun_line(run, {*tasks, *self._earlier.ended}, self._earlier.attempts))

    def add(self, execution: Execution) -> None:
        """A task has ended, or its end has changed by its teardown. First its directory is stored, then its end."""
        code = execution.record.code if execution.record else None
        (self._cut_off.add if code == CUT_OFF else self._cut_off.discard)(execution.nodeid)
        told = self._with_stored_folder(execution)
        self._writer.tell(ended_line(told), told.record.artifacts if told.record else None)

    def note_writes(self, task_ids: Iterable[str]) -> None:
        """A worker or slot that has ended could not note that these tasks were seen to write."""
        for task_id in task_ids:
            self._writer.note_write(task_id, self._attempt)

    def _with_stored_folder(self, execution: Execution) -> Execution:
        record = execution.record
        if record is None or record.artifacts is None:
            return execution
        folder = self._state.settings.root / record.artifacts
        name = self._places.get(execution.nodeid, f"{ERRORS}/{self._attempt}/{folder.name}")
        there = name in self._folders or folder.is_dir()
        if execution.outcome == "rerun" or not there:  # the next execution replaces its directory
            return execution.model_copy(update={"record": record.model_copy(update={"artifacts": None})})
        if name not in self._folders:
            self._folders.add(name)
            self._writer.put_folder(folder, name)
        return execution.model_copy(update={"record": record.model_copy(update={"artifacts": name})})

    def finish(self, run: RunRecord) -> list[str]:
        """The run has ended: wait for the store. Returns lines for the summary."""
        self._incomplete = True  # until everything is known to be there
        self._writer.tell(over_line(run))
        self._writer.put_results()
        stored = self._flush()
        self._incomplete = not stored
        notes = [f"left out: {each}" for each in self._writer.left_out]
        why = self._writer.problem or "it did not take everything in time"
        if unnoted := self._writer.unnoted:
            notes.append(_UNNOTED.format(list_some(list(unnoted)), why))
        elif not stored:
            notes.append(f"not everything is stored, so this part is to be repeated (status 75): {why}")
        elif self._writer.problem:
            notes.append(f"it failed for a while, and has everything now: {self._writer.problem}")
        if stored and self._state.stopped_by in _ENDING:
            notes.append("everything is stored, and this part is to be repeated (status 75)")
        return [f"store: {note}" for note in notes]

    def _flush(self) -> bool:
        """Wait for the store; returns whether it has taken everything."""
        if self._state.stopped_by:
            return self._writer.flush(_LAST_OF_INTERRUPTED)
        left = self._writer.waiting + 1
        while self._writer.waiting < left:
            left = self._writer.waiting
            if self._writer.flush(LAST):
                return True
        return False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Set the exit status when all others are done, the summary too."""
        result = yield
        history: Any = self._config.pluginmanager.getplugin("taskspec-history")
        if history is not None:
            history.finish(self._state.interrupted)
        session.exitstatus = self.status(int(session.exitstatus))
        return result

    def status(self, status: int) -> int:
        """The exit status of the whole part, or 75 if it is to be repeated: never if that could do a write again."""
        if status in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
            return status
        if self._writer.unnoted or StoreLedger.name in self._state.fence.problems:
            return int(pytest.ExitCode.TESTS_FAILED)
        if self._state.stopped_by in _ENDING or self._incomplete or self._cut_off or self.deserted:
            return OF_THE_MACHINE
        if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and self._earlier.ended:
            failed = not all(self._earlier.ended.values())
            return int(pytest.ExitCode.TESTS_FAILED if failed else pytest.ExitCode.OK)
        return status
