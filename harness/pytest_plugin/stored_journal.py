"""The journal of a part in the store of its run, and the exit status: in the process that sees all reports."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterable
from typing import Any

import pytest

from harness.model.ledger import CUT_OFF
from harness.pytest_plugin.state import SessionState
from harness.pytest_plugin.stored_workers import OF_THE_MACHINE
from harness.reporting.history.attempts import begun_line, ended_line, over_line
from harness.reporting.history.record import Execution, RunRecord
from harness.runner.store_writer import StoreLedger, StoreWriter
from harness.runner.stored_part import ERRORS, Earlier
from harness.spec.names import list_some

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
        """The exit status: that of the whole part, or 75 if it is to be repeated.

        No repetition is asked for if it could do a write again.
        """
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
