"""`--task-store`: opens the store that keeps the results of a part of a run, and makes what this process does there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from msgspec import Struct

from harness.pytest_plugin.role import Role, role_of, worker_input
from harness.pytest_plugin.state import SessionState
from harness.pytest_plugin.stored_journal import StoredJournal
from harness.pytest_plugin.stored_selection import StoredSelection
from harness.pytest_plugin.stored_workers import EARLIER, StorePlace, WorkerOfStore, WorkersOfStore, refusing
from harness.reporting.history.attempts import ends
from harness.reporting.history.file import HISTORY
from harness.reporting.history.record import checkout_of
from harness.resilience import SystemClock
from harness.runner.slot_store import SlotStore
from harness.runner.store_writer import StoreLedger, StoreWriter
from harness.runner.stored_part import (
    CommonRun,
    Earlier,
    NotedStore,
    StoredPart,
    WriteMemory,
    join_run,
    part_name,
    refuse_lost,
    show_attempt,
)
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
    ended = {nodeid: each.outcome == "passed" for nodeid, each in ends(found.attempts, found.owner).items()}
    if runs:
        show_attempt(found.store, attempt)
    earlier = Earlier(ended, found.written, len(found.attempts))
    alluredir = config.getoption("--alluredir", None)
    store = _noted(place, state)
    results = Path(config.invocation_params.dir, alluredir) if alluredir else None
    writer = StoreWriter(store, attempt, SystemClock(), results)
    journal = StoredJournal(config, state, writer, attempt, earlier)
    return _stored(place, store, writer, StoredSelection(config, state, place, earlier), journal=journal)


def _begin_worker(config: pytest.Config, state: SessionState, given: Mapping[str, Any]) -> StoredRun:
    place = StorePlace.of(given)
    store = _noted(place, state)
    slot = SlotStore(store, place.attempt, SystemClock()) if role_of(config) is Role.SLOT else None
    if slot is not None:
        slot.refuse_other()
    writer, earlier = StoreWriter(store, place.attempt, SystemClock()), msgspec.convert(given.get(EARLIER, {}), Earlier)
    return _stored(place, store, writer, StoredSelection(config, state, place, earlier), slot=slot)


def _noted(place: StorePlace, state: SessionState) -> NotedStore:
    return NotedStore(place.whole(), place.part, place.attempt, _memory(place, state))


def _memory(place: StorePlace, state: SessionState) -> WriteMemory:
    return WriteMemory(state.settings.root / HISTORY.parent / "stores", place.url, place.part)


def _stored(
    place: StorePlace,
    store: NotedStore,
    writer: StoreWriter,
    selection: StoredSelection,
    *,
    journal: StoredJournal | None = None,
    slot: SlotStore | None = None,
) -> StoredRun:
    """What a process has of the store."""
    ledger = StoreLedger(store, place.attempt, SystemClock(), writer)
    return StoredRun(place, ledger, selection, writer, journal, slot)


def _at(config: pytest.Config, url: str) -> str:
    """The URL; a path is relative to the folder where pytest was started."""
    if SCHEME.match(url):
        return url
    start = config.invocation_params.dir
    folder = Path(os.path.normpath(start / local_path(url)))
    if url in config.invocation_params.args and folder.is_dir() and _misled(config.rootpath, start, folder):
        raise pytest.UsageError(
            f"--task-store {url}: pytest takes this folder for a path of tests, so it takes {config.rootpath} for the "
            f"project. Expected: --task-store={url}"
        )
    return str(folder)


def _misled(root: Path, start: Path, store: Path) -> bool:
    """Return whether pytest's root is above the folder where it was started, and probably because of the store."""
    return root in start.parents and root in store.parents and start not in store.parents
