"""`--task-store`: the results of a part of a run outlast its machine, and the next one goes on with what has no end."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec import Struct, field

from harness.model.events import Event, StepStarted
from harness.pytest_plugin.activation import drives_cluster
from harness.pytest_plugin.crashed_workers import journal_words
from harness.pytest_plugin.items import TaskItem
from harness.pytest_plugin.selection import names_of, task_items, tell_deselected
from harness.pytest_plugin.state import UPLINK, SessionState
from harness.recovery.failure import Failure
from harness.reporting.history.attempts import begun_line, ended_line, ends, over_line
from harness.reporting.history.file import HistoryError
from harness.reporting.history.record import Execution, RunRecord, checkout_of
from harness.resilience import SystemClock
from harness.runner.store_writer import CUT_OFF, StoreLedger, StoreWriter, is_stored_within
from harness.runner.stored_part import (
    ERRORS,
    CommonRun,
    StoredPart,
    find_attempt,
    join_division,
    join_run,
    part_name,
    show_attempt,
    wrote_name,
)
from harness.spec.names import how_many, list_some
from harness.store import SCHEME, Store, StoreError, StoreUnusable, local_path, open_store

OF_THE_MACHINE = 75
"""The exit status of a run that its machine has ended, or kept from storing something: it is to be repeated.

It is EX_TEMPFAIL of sysexits.h."""
URL, PART, ATTEMPT = "taskspec_store", "taskspec_part", "taskspec_attempt"
"""Keys of `workerinput`: the store, the name of the part in it, and that of the attempt."""
EARLIER = "taskspec_earlier"
"""Key of `workerinput`: what earlier attempts have done. A process of a cluster does not get it: its driver acts on it.
"""
REFUSED = "taskspec_refused"
"""Key of `workeroutput`: why a worker of xdist cannot use the store, and the exit status."""
PUT_WITHIN = 60.0
"""Seconds for a process of a cluster to store the directory of a failed task before its report is sent."""
LAST = 30.0
"""Seconds that the end of a run waits for the store, as long as it takes anything in that time."""
LAST_OF_INTERRUPTED = 25.0
"""The same after a signal: the machine is about to be taken away."""


class StorePlace(Struct, frozen=True):
    """The place of the part."""

    url: str
    """The store of the run: a URL, or an absolute path."""
    part: str

    def open(self) -> Store:
        """The store of the part. Raises StoreUnusable."""
        return open_store(self.url).at(self.part)


class Earlier(Struct, frozen=True):
    """What earlier processes have done of the part."""

    ended: Mapping[str, bool] = field(default_factory=dict)
    """Node id of a task that has ended -> whether it passed."""
    written: frozenset[str] = frozenset()
    """The names (`wrote_name`) of the tasks that had begun to write."""
    attempts: int = 0
    """The number of these processes."""

    def wrote(self, task_id: str) -> bool:
        return wrote_name(task_id) in self.written


class Resumption(Struct, frozen=True):
    """What is left to do of a part."""

    done: frozenset[str] = frozenset()
    """Node ids of the tasks that do not run again: they have ended."""
    lost: Mapping[str, Failure] = field(default_factory=dict)
    """Id of a task that does not run, although it has no end -> why."""


CRASHED = "The process that ran the task is gone, and it had begun to write, so it does not run again"
UNFINISHED_EPISODE = (
    "A process that had done a part of its episode is gone, and with it the state that the tasks share; since one of "
    "them had begun to write, the episode does not run again"
)


def resumption(tasks: Mapping[str, tuple[str, str | None]], earlier: Earlier) -> Resumption:
    """Decide what runs again. `tasks`: node id -> (id, episode).

    An episode runs again from its start, unless a task of it has begun to write.
    """
    broken = _broken_episodes(tasks, earlier.ended)
    wrote = {episode for task_id, episode in tasks.values() if episode in broken and earlier.wrote(task_id)}
    done: set[str] = set()
    lost: dict[str, Failure] = {}
    for nodeid, (task_id, episode) in tasks.items():
        if nodeid in earlier.ended and (episode not in broken or episode in wrote):
            done.add(nodeid)
        elif nodeid not in earlier.ended and earlier.wrote(task_id):
            lost[task_id] = Failure("WORKER_CRASHED", CRASHED)
        elif nodeid not in earlier.ended and episode in wrote:
            lost[task_id] = Failure("EPISODE_STATE_LOST", UNFINISHED_EPISODE)
    return Resumption(frozenset(done), lost)


def _broken_episodes(tasks: Mapping[str, tuple[str, str | None]], ended: Collection[str]) -> set[str]:
    """The episodes of which something is left to do."""
    return {episode for nodeid, (_, episode) in tasks.items() if episode is not None and nodeid not in ended}


class StoredRun:
    """The store in one process: the only one, a worker of xdist or of a cluster, or their controller or driver, which
    alone keeps the journal.
    """

    def __init__(
        self, config: pytest.Config, state: SessionState, place: StorePlace, attempt: str, earlier: Earlier
    ) -> None:
        """`attempt`: the name of what this process, with its workers, does of the part."""
        self._place = place
        store = place.open()
        self._config = config
        self._state = state
        self._store = store
        self._worker = hasattr(config, "workerinput")
        self.attempt = attempt
        self.earlier = earlier
        self._left = Resumption()
        alluredir, clock = config.getoption("--alluredir", None), SystemClock()
        results = Path(config.invocation_params.dir, alluredir) if alluredir and not self._worker else None
        self._writer = StoreWriter(store, attempt, clock, results)
        self._check = cache(partial(find_attempt, store, attempt)) if UPLINK in config.stash else _is_certain
        """Raises StoreError if a process of a cluster may see another store than its driver."""
        self.ledger = StoreLedger(store, attempt, clock, self._writer, shows_write, check=self._check)
        self._places: dict[str, str] = {}
        """Node id of a task -> where the process of a cluster that ran it has put its directory."""
        self._folders: set[str] = set()
        self._cut_off: set[str] = set()
        """Node ids of the tasks that the store kept from writing."""
        self._incomplete = False
        self.deserted = False
        """Whether the cluster had no machine left for the run."""

    def pytest_report_header(self) -> str:
        return f"task store: {self._store.shown}"

    def pytest_report_collectionfinish(self, items: Sequence[pytest.Item]) -> list[str]:
        if not (self._left.done or self._left.lost):
            return []
        lost = len(self._left.lost)
        cut = f", {lost} cannot run again" if lost else ""
        ended = f"{how_many(len(self._left.done), 'task')} ended in earlier processes of this part"
        failed = [nodeid.partition("::")[2] for nodeid, passed in self.earlier.ended.items() if not passed]
        told = f" ({len(failed)} failed: {list_some(sorted(failed))})" if failed else ""
        return [f"task store: {ended}{told}{cut}, {len(task_items(items)) - lost} to run"]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect what has ended, after all that selects. Under xdist every worker does it."""
        sharding: Any = config.pluginmanager.getplugin("taskspec-shard")
        found, items[:] = list(items), []  # pytest goes on for a moment if this is refused
        if sharding is not None and not (config.getoption("collectonly") or UPLINK in config.stash):
            with _refusing(config):
                join_division(open_store(self._place.url), sharding.divided)
        items[:] = found
        tasks = task_items(items)
        self._left = resumption({item.nodeid: (_id(item), item.loaded.spec.episode_id) for item in tasks}, self.earlier)
        self.tasks = tasks
        kept = [item for item in items if item.nodeid not in self._left.done]
        if len(kept) < len(items):
            already = config.pluginmanager.getplugin("terminalreporter")
            before = list(already.stats.get("deselected", ())) if already is not None else []
            tell_deselected(config, [*items, *before], kept)
        items[:] = kept

    tasks: Sequence[TaskItem] = ()
    """All tasks of the part, those that have ended included."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Let tasks depend on those that have ended."""
        state = self._state
        state.lost = self._left.lost
        state.names = names_of(self.tasks)
        for item in self.tasks:
            if item.nodeid in self._left.done:
                state.selected.add(_id(item))
                state.done[_id(item)] = self.earlier.ended[item.nodeid]

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """xdist: all workers go on with the same, whenever they start."""
        node.workerinput[EARLIER] = [dict(self.earlier.ended), sorted(self.earlier.written)]
        node.workerinput.update(self.given())

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if refused := getattr(node, "workeroutput", {}).get(REFUSED):
            pytest.exit(*refused)

    def given(self) -> dict[str, str]:
        """What other processes of the run need to see the same store: for their `workerinput`."""
        return {URL: self._place.url, PART: self._place.part, ATTEMPT: self.attempt}

    @property
    def folder(self) -> Path | None:
        """The folder of all parts, if this machine has it."""
        return open_store(self._place.url).local

    # A cluster: the process that runs a task stores its directory, and the driver its end.

    def check(self) -> None:
        """Raise StoreUnusable if this process certainly sees another store than its driver; ask again before a write
        if that is unknown.
        """
        try:
            self._check()
        except StoreUnusable:
            raise
        except StoreError:
            return

    def put(self, folder: Path, number: int) -> str:
        """Store the directory of a task that has failed, before its report names it. Bounded.

        `number`: of the item's attempt, since one that was lost with its slot may have stored something too. Returns
        the place; an empty text if the driver is to store it.
        """
        name = f"{ERRORS}/{self.attempt}.{number}/{folder.name}"

        def put() -> None:
            self._check()
            self._store.put_folder(folder, name)

        return name if is_stored_within(PUT_WITHIN, put) else ""

    def has(self, nodeid: str, name: str) -> None:
        """The directory of a task is in the store under this name."""
        self._places[nodeid] = name
        self._folders.add(name)

    # The history of the run calls these in the process that sees all reports.

    def begin(self, run: RunRecord, tasks: Iterable[str]) -> None:
        """The run begins with these tasks (node ids)."""
        self._writer.tell(begun_line(run, {*tasks, *self.earlier.ended}, self.earlier.attempts))

    def add(self, execution: Execution) -> None:
        """A task has ended, or its end has changed by its teardown. First its directory is stored, then its end."""
        code = execution.record.code if execution.record else None
        (self._cut_off.add if code == CUT_OFF else self._cut_off.discard)(execution.nodeid)
        told = self._with_stored_folder(execution)
        self._writer.tell(ended_line(told), told.record.artifacts if told.record else None)

    def _with_stored_folder(self, execution: Execution) -> Execution:
        record = execution.record
        if record is None or record.artifacts is None:
            return execution
        folder = self._state.settings.root / record.artifacts
        name = self._places.get(execution.nodeid, f"{ERRORS}/{self.attempt}/{folder.name}")
        if execution.outcome == "rerun" or not (
            name in self._folders or folder.is_dir()
        ):  # the next execution replaces its directory
            return execution.model_copy(update={"record": record.model_copy(update={"artifacts": None})})
        if name not in self._folders:
            self._folders.add(name)
            self._writer.put_folder(folder, name)
        return execution.model_copy(update={"record": record.model_copy(update={"artifacts": name})})

    def finish(self, run: RunRecord) -> list[str]:
        """The run has ended: wait for the store. Returns lines for the summary."""
        self._writer.tell(over_line(run))
        self._writer.put_results()
        stored = self._flush()
        self._incomplete = not stored
        notes = [f"left out: {each}" for each in self._writer.left_out]
        if not stored:
            why = self._writer.problem or "it did not take everything in time"
            notes.append(f"not everything is stored, so this part is to be repeated (status 75): {why}")
        elif self._writer.problem:
            notes.append(f"it failed for a while, and has everything now: {self._writer.problem}")
        if stored and self._state.stopped_by in ENDING:
            notes.append("everything is stored, and this part is to be repeated (status 75)")
        return [f"store: {note}" for note in notes]

    def _flush(self) -> bool:
        """Wait for the store; returns whether it has taken everything."""
        if self._state.stopped_by:
            return self._writer.flush(LAST_OF_INTERRUPTED)
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
        if not self._worker:
            history: Any = self._config.pluginmanager.getplugin("taskspec-history")
            if history is not None:
                history.finish(self._state.interrupted)
            session.exitstatus = self.status(int(session.exitstatus))
        return result

    def status(self, status: int) -> int:
        """The exit status: that of the whole part, or 75 if it is to be repeated."""
        if status in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
            return status
        if self._state.stopped_by in ENDING or self._incomplete or self._cut_off or self.deserted:
            return OF_THE_MACHINE
        if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and self.earlier.ended:
            failed = not all(self.earlier.ended.values())
            return int(pytest.ExitCode.TESTS_FAILED if failed else pytest.ExitCode.OK)
        return status


def shows_write(event: Event) -> bool:
    """Return whether an event shows that its task writes. The beginning of a step does not: such a step asks first, and
    does nothing without an answer.
    """
    return not isinstance(event, StepStarted) and "wrote" in journal_words(event)


def _is_certain() -> None:
    """A process without a driver, or on its machine, sees the right store."""


ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""The signals by which a machine says that it is taken away. Ctrl-C is a person's."""


def _id(item: TaskItem) -> str:
    return item.loaded.spec.task_id


def begin_store(config: pytest.Config, state: SessionState) -> StoredRun:
    """Open the store of the run, and read what earlier processes have done of its part.

    Raises UsageError for a store that cannot be used or belongs to another run; ends pytest with status 75 if it does
    not answer.
    """
    with _refusing(config):
        given: dict[str, Any] | None = getattr(config, "workerinput", None)
        return _begin(config, state) if given is None else _begin_worker(config, state, given)


@contextmanager
def _refusing(config: pytest.Config) -> Iterator[None]:
    """End pytest if the store cannot be used. The controller of an xdist worker says why."""
    told: dict[str, Any] = getattr(config, "workeroutput", {})
    try:
        yield
    except (StoreUnusable, HistoryError) as error:
        told[REFUSED] = f"--task-store: {error}", int(pytest.ExitCode.USAGE_ERROR)
        raise pytest.UsageError(told[REFUSED][0]) from error
    except StoreError as error:
        told[REFUSED] = f"--task-store: {error}", OF_THE_MACHINE
        pytest.exit(*told[REFUSED])


def _begin(config: pytest.Config, state: SessionState) -> StoredRun:
    shard = str(config.getoption("task_shard") or "")
    place = StorePlace(_at(config, config.getoption("task_store")), part_name(shard))
    attempt, runs = f"{state.run_id}-{uuid4().hex[:8]}", not config.getoption("collectonly")
    if runs:
        digest = state.durations.digest if state.durations else ""
        commit = checkout_of(config.rootpath, os.environ).commit
        join_run(open_store(place.url), CommonRun(shard.partition("/")[2], digest, commit))
    found = StoredPart(place.open())
    ended = {nodeid: each.outcome == "passed" for nodeid, each in ends(found.attempts, found.owner).items()}
    if runs and drives_cluster(config):
        show_attempt(found.store, attempt)
    return StoredRun(config, state, place, attempt, Earlier(ended, found.written, len(found.attempts)))


def _begin_worker(config: pytest.Config, state: SessionState, given: Mapping[str, Any]) -> StoredRun:
    ended, written = given.get(EARLIER, ({}, ()))
    earlier = Earlier(ended, frozenset(written))
    stored = StoredRun(config, state, StorePlace(given[URL], given[PART]), given[ATTEMPT], earlier)
    stored.check()
    return stored


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
