"""Finds out which tasks had begun in an xdist worker that died: it kept a journal, which its controller reads.

The journal is needed only if tasks run ahead: otherwise the lost item is the one whose turn it was.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harness.model.events import Event
from harness.model.ledger import Gone, ItemFacts, LossVerdict, NewWords, Note, facts_of, read_note, what_runs_again
from harness.pytest_plugin.role import worker_input
from harness.pytest_plugin.state import STATE, SessionState
from harness.reporting.telemetry.stream import Sink
from harness.spec.file_names import NAMED_SUFFIXES, is_task_file
from harness.values import replace

ALONE = "taskspec_alone"
"""Key of `workerinput`: this worker does one task at a time, although `--task-workers` says otherwise."""
JOURNAL = "taskspec_begun"
"""Key of `workerinput`: the file that the worker writes."""


class WorkerJournal(Sink):
    """The worker's side: it writes a line for each event before what the event reports is done."""

    name = "journal of the worker"

    def __init__(self, path: Path) -> None:
        """Make the file. Raises OSError if that fails."""
        self._path = path
        self._new = NewWords()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @classmethod
    def of(cls, config: pytest.Config) -> WorkerJournal | None:
        """The journal that this process writes: it is a worker, and its controller has named the file."""
        path = worker_input(config).get(JOURNAL)
        with suppress(OSError):  # the folder is on another machine
            return cls(Path(path)) if path else None
        return None

    def on_event(self, event: Event) -> None:
        for word in self._new.of(event):
            self._write(Note(word, event.plan.task_id).line())

    def _write(self, line: bytes) -> None:
        try:
            whole = os.write(self._file, line) == len(line)
        except OSError:
            whole = False
        if not whole:  # a journal with a gap would be wrong, so it is deleted
            with suppress(OSError):
                self._path.unlink()


def read_journal(path: Path) -> dict[str, ItemFacts] | None:
    """What a worker has noted of its tasks until it died, by their ids; None if that is unknown."""
    try:
        return facts_of(map(read_note, path.read_bytes().split(b"\n")[:-1]))
    except (OSError, ValueError):
        return None


# The items of an xdist worker that died: which of them killed it, and which run again (decision 009).

_Unit = dict[str, bool]
"""The items of one group, in order -> whether they are done."""
_RUNS = 2
"""A worker runs an item once it knows the next one, or that there is none. xdist gives a new worker a single item."""
UNKNOWN = "other tasks may have run in the process at the same time, and any of them may have ended it"
ENDED = "it had ended, so it probably did not end the process, but its result is lost"
_AT_ONCE = "the process ran at the same time {}: any of them may have ended it"
NO_OTHER = "no other process is started that could show which (--max-worker-restart)"
AGAIN = "the task ran alone, after a process had died that ran several tasks at the same time"


def verdict(pending: Sequence[str], noted: Mapping[str, ItemFacts], *, last: bool) -> LossVerdict:
    """Decide which items killed a worker, and which run again. `pending`: in order, not empty. `last`: none follows."""
    facts = {item: noted.get(task_id(item), ItemFacts()) for item in pending}
    suspects = _suspects(facts)
    alone = int(len(suspects) == 1)
    judged = {
        item: ItemFacts(begun=item in suspects, wrote=known.wrote, task=of_task(item), alone=alone)
        for item, known in facts.items()
    }
    found = what_runs_again(judged, Gone.WORKER)
    lost: dict[str, str] = {}  # of what was alone in its worker, xdist says enough
    for item in suspects:
        others = ", ".join(task_id(other) for other in suspects if other != item)
        if item in found.lost or last:
            lost[item] = f"{_AT_ONCE.format(others)}; {found.lost.get(item, NO_OTHER)}" if others else ""
    lost |= {item: f"{why}; {ENDED}" for item, why in found.lost.items() if item not in suspects}
    return replace(found, again=() if last else found.again, lost=lost)


def _suspects(facts: Mapping[str, ItemFacts]) -> list[str]:
    """The items that may have ended their worker: those that ran, and the one whose turn it was.

    That one may be an ordinary test or have not begun its task, and so have noted nothing; if it had ended, its reports
    were on their way, and what ran beside it is the suspect.
    """
    first, running = next(iter(facts)), any(known.begun for known in facts.values())
    return [item for item, known in facts.items() if known.begun or (item == first and not (running and known.ended))]


def task_id(node_id: str) -> str:
    """The id of the task behind a node id."""
    return node_id.partition("::")[2]


def of_task(node_id: str) -> bool:
    name = node_id.partition("::")[0]
    return is_task_file(Path(name)) or Path(name).suffix in NAMED_SUFFIXES


def looks_ahead(node: Any, state: SessionState) -> bool:
    """Return whether a worker begins tasks before their turn."""
    return state.settings.task_workers != 1 and not getattr(node, "workerinput", {}).get(ALONE)


def last_one(config: Any, state: SessionState) -> bool:
    """Return whether no worker replaces the one that has just died."""
    from xdist.dsession import get_default_max_worker_restart

    allowed = get_default_max_worker_restart(config)
    return allowed is not None and state.workers_lost > allowed


MixedIn: Any = object
"""The base of a part of xdist's LoadScopeScheduling, which is there at run time."""


class CrashedWorkers(MixedIn):  # type: ignore[misc]
    """Handles dead workers, as a part of a scheduler. `--reruns` decides about the items that fail because of them."""

    workqueue: OrderedDict[str, _Unit]
    assigned_work: dict[Any, dict[str, _Unit]]

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        self.left: dict[str, _Unit] = {}
        """The items of a worker that died, until it is decided what happens to them."""
        self.held: OrderedDict[str, _Unit] = OrderedDict()
        """Groups with suspects: they wait for a worker that does one task at a time."""
        self.suspects: set[str] = set()
        self.why: dict[str, str] = {}
        """Item that failed with its worker -> the text that its report adds."""
        self.more: list[tuple[str, Any]] = []
        """Further items that fail with their worker, because xdist asks for only one."""
        self.collecting: set[Any] = set()

    @property
    def tests_finished(self) -> bool:
        return not self.held and bool(super().tests_finished)

    @property
    def has_pending(self) -> bool:
        return bool(self.held) or bool(super().has_pending)

    def add_node(self, node: Any) -> None:
        super().add_node(node)
        self.collecting.add(node)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        self.collecting.discard(node)
        super().add_node_collection(node, collection)

    def remove_node(self, node: Any) -> str | None:
        """Like the base class, but the items that fail because of the worker count as done.

        The other workers get the remaining items when `go_on` is called: before that, `--reruns` may request an item
        again.
        """
        workload = self.assigned_work.pop(node)
        self.collecting.discard(node)
        found = self._verdict(node, [item for unit in workload.values() for item, done in unit.items() if not done])
        self.left = workload
        for unit in workload.values():
            unit.update({item: True for item in found.lost if item in unit})
        self.why |= found.lost
        guilty = list(found.lost)
        self.more = [(item, node) for item in guilty[1:]]
        if found.again:
            self._say(node, found.again)
        if not guilty:
            self.go_on()
        return guilty[0] if guilty else None

    def _verdict(self, node: Any, pending: list[str]) -> LossVerdict:
        state: SessionState = self.config.stash[STATE]
        if not pending:
            return LossVerdict()
        if not looks_ahead(node, state):
            return LossVerdict(lost={pending[0]: AGAIN if pending[0] in self.suspects else ""})
        noted = read_journal(Path(getattr(node, "workerinput", {}).get(JOURNAL, "")))
        if noted is None:
            self.suspects.update(pending)
            return LossVerdict(lost={pending[0]: UNKNOWN})
        found = verdict(pending, noted, last=last_one(self.config, state))
        self.suspects.update(found.again, found.lost)
        return found

    def mark_test_pending(self, item: str) -> None:
        """Mark an item to run again, in its place in its group."""
        for unit in self.left.values():
            unit.update({item: False} if item in unit else {})

    def go_on(self) -> None:
        """Continue after a reported failure; after the last one, the other workers get the remaining items.

        xdist ends workers that have nothing to do, so they must not be asked before.
        """
        if self.more:
            self._fail(*self.more.pop(0))
            return
        left, self.left = self.left, {}
        for scope, unit in reversed(left.items()):
            if not all(unit.values()):
                suspect = any(item in self.suspects for item, done in unit.items() if not done)
                place = self.held if suspect else self.workqueue
                place[scope] = unit
                place.move_to_end(scope, last=False)
        if self.held:
            self.config.stash[STATE].one_by_one = True
        for other in list(self.assigned_work):
            self._reschedule(other)

    def give_up(self, node: Any) -> None:
        """No worker follows this one: fail the items that wait for one that does one task at a time."""
        self.collecting.add(node)  # it is still among the workers, and must get no items
        units = list(self.held.values())
        self.held.clear()
        for item in [item for unit in units for item, done in unit.items() if not done and item in self.suspects]:
            self.why[item] = f"{UNKNOWN}; {NO_OTHER}"
            self._fail(item, node)

    def _reschedule(self, node: Any) -> None:
        """Assign more items to a worker. One that does one task at a time gets the suspects first."""
        if node in self.collecting:
            return
        if self.held and not looks_ahead(node, self.config.stash[STATE]) and not node.shutting_down:
            held = list(self.held.items())
            self.held.clear()
            for scope, unit in reversed(held):
                self.workqueue[scope] = unit
                self.workqueue.move_to_end(scope, last=False)
            for _ in held:
                self._assign_work_unit(node)
        super()._reschedule(node)
        while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < _RUNS:
            self._assign_work_unit(node)

    def _fail(self, item: str, node: Any) -> None:
        self.config.pluginmanager.getplugin("dsession").handle_crashitem(item, node)

    def _say(self, node: Any, again: Sequence[str]) -> None:
        names = ", ".join(map(task_id, again))
        line = f"worker {node.gateway.id} died while it ran several tasks; these run again, one at a time: {names}"
        self.config.pluginmanager.getplugin("dsession").report_line(f"\n{line}")
