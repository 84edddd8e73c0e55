"""Finds out which tasks had begun in an xdist worker that died: it kept a journal, which its controller reads.

The journal is needed only if tasks run ahead: otherwise the lost item is the one whose turn it was.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import Struct, field

from harness.model.events import Event, StepEnded, StepStarted, TaskEnded, TaskStarted, WriteSeen
from harness.model.plan import Plan
from harness.pytest_plugin.role import worker_input
from harness.pytest_plugin.state import STATE, SessionState
from harness.recovery.never_twice import WROTE, what_runs_again
from harness.reporting.telemetry.stream import Sink, TextRedactor
from harness.spec.file_names import NAMED_SUFFIXES, is_task_file

Word = Literal["running", "wrote", "over"]
ALONE = "taskspec_alone"
"""Key of `workerinput`: this worker does one task at a time, although `--task-workers` says otherwise."""
JOURNAL = "taskspec_begun"
"""Key of `workerinput`: the file that the worker writes."""


class JournalEntries(Struct, frozen=True):
    """The content of a journal, by task id; of several attempts of a task in one worker, the last."""

    running: frozenset[str] = frozenset()
    over: frozenset[str] = frozenset()
    """Tasks that have ended, whether or not pytest has been told."""
    wrote: frozenset[str] = frozenset()
    """Tasks that had begun a step that must not be done twice, running or over."""


class WorkerJournal(Sink):
    """The worker's side: it writes a line for each event before what the event reports is done."""

    name = "journal of the worker"

    def __init__(self, path: Path) -> None:
        """Make the file. Raises OSError if that fails."""
        self._path = path
        self._written: set[str] = set()
        """Tasks that have written since they began."""
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @classmethod
    def of(cls, config: pytest.Config) -> WorkerJournal | None:
        """The journal that this process writes: it is a worker, and its controller has named the file."""
        path = worker_input(config).get(JOURNAL)
        with suppress(OSError):  # the folder is on another machine
            return cls(Path(path)) if path else None
        return None

    def on_event(self, event: Event, redactor: TextRedactor) -> None:  # noqa: ARG002 - ids are not secret
        for word in journal_words(event):
            self._note(word, event.plan.task_id)

    def _note(self, word: str, task_id: str) -> None:
        if word == "wrote":  # a page may send many requests
            if task_id in self._written:
                return
            self._written.add(task_id)
        else:
            self._written.discard(task_id)
        self._say(word, task_id)

    def _say(self, word: str, task_id: str) -> None:
        line = (json.dumps([word, task_id]) + "\n").encode()
        try:
            whole = os.write(self._file, line) == len(line)
        except OSError:
            whole = False
        if not whole:  # a journal with a gap would be wrong, so it is deleted
            with suppress(OSError):
                self._path.unlink()


def journal_words(event: Event) -> Iterable[Word]:
    """What an event says of its task: it runs, it has begun to write, it is over."""
    match event:
        case TaskStarted(plan=plan):
            return ("running", "wrote") if any(map(_writes, _inner_plans(plan))) else ("running",)
        case StepStarted(step=step) if step.effect_class == "write":
            return ("wrote",)
        case WriteSeen():  # a click that sends a POST
            return ("wrote",)
        case StepEnded(record=record) if record.may_have_written:  # it leaves open whether it has
            return ("wrote",)
        case TaskEnded():
            return ("over",)
    return ()


def _inner_plans(plan: Plan) -> list[Plan]:
    """The plans that may run in the middle of this one and emit no events of their steps."""
    return [each for each in (plan.alternative, *(repair.task for repair in plan.repairs)) if each is not None]


def _writes(plan: Plan) -> bool:
    own = plan.agent is not None or any(step.effect_class == "write" for step in plan.steps)
    return own or any(map(_writes, _inner_plans(plan)))


def runs_alone(config: pytest.Config) -> bool:
    """Return whether this worker does one task at a time."""
    return bool(worker_input(config).get(ALONE))


def read_journal(path: Path) -> JournalEntries | None:
    """Read what a worker has written until it died; None if that is unknown."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
        return _read_entries([json.loads(line) for line in lines])
    except (OSError, ValueError):
        return None


def _read_entries(lines: Iterable[tuple[str, str]]) -> JournalEntries:
    state: dict[str, str] = {}
    wrote: set[str] = set()
    for word, task_id in lines:
        if word == "wrote":
            wrote.add(task_id)
            continue
        state[task_id] = word
        if word == "running":  # an option (`--reruns`) makes it run again
            wrote.discard(task_id)
    running = frozenset(task_id for task_id, word in state.items() if word == "running")
    return JournalEntries(running, frozenset(state) - running, frozenset(wrote))


# The items of an xdist worker that died: which of them killed it, and which run again (decision 009).

Unit = dict[str, bool]
"""The items of one group, in order -> whether they are done."""
RUNS = 2
"""A worker runs an item once it knows the next one, or that there is none. xdist gives a new worker a single item."""
UNKNOWN = "other tasks may have run in the process at the same time, and any of them may have ended it"
UNTOLD = (
    "this task had ended and had written, so it does not run again; it probably did not end the process, "
    "but its result is lost"
)
NO_OTHER = "no other process is started that could show which (--max-worker-restart)"
AGAIN = "the task ran alone, after a process had died that ran several tasks at the same time"


class CrashVerdict(Struct, frozen=True):
    """The decision about the items that a dead worker had not done."""

    condemned: Mapping[str, str] = field(default_factory=dict)
    """Items that fail -> the text that their report adds."""
    again: tuple[str, ...] = ()
    """Items that may have killed it: they run again, one at a time."""


def verdict(pending: Sequence[str], begun: JournalEntries, *, last: bool) -> CrashVerdict:
    """Decide which items killed a worker with look-ahead. `pending`: in order, not empty. `last`: no worker follows.

    A task that had begun to write does not run again, since its effect is unknown. Nor does an item that is no task,
    since what it does is unknown.
    """
    running = [item for item in pending if task_id(item) in begun.running]
    turn = [] if running and task_id(pending[0]) in begun.running | begun.over else [pending[0]]
    suspects = [*turn, *(item for item in running if item not in turn)]
    free = what_runs_again({item: task_id(item) in begun.wrote for item in pending})
    wrote = [item for item in pending if item not in free]
    condemned: dict[str, str] = {}
    for item in suspects:
        spoilt = item in wrote or not of_task(item)
        if len(suspects) == 1 or last or spoilt:
            reasons = (_others_at_the_time(item, suspects), WROTE * (item in wrote), NO_OTHER * (last and not spoilt))
            condemned[item] = "; ".join(filter(None, reasons)) if len(suspects) > 1 else ""
    condemned |= {item: UNTOLD for item in wrote if item not in suspects}
    return CrashVerdict(condemned, tuple(item for item in suspects if item not in condemned))


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


def _others_at_the_time(item: str, suspects: Sequence[str]) -> str:
    others = ", ".join(task_id(other) for other in suspects if other != item)
    return f"the process ran at the same time {others}: any of them may have ended it"


class CrashedWorkers:
    """The part of a scheduler that handles dead workers.

    `--reruns` decides about the items that fail because of them.
    """

    config: Any
    workqueue: OrderedDict[str, Unit]
    assigned_work: dict[Any, dict[str, Unit]]
    _assign_work_unit: Any
    _pending_of: Any

    def __init__(self, config: Any, log: Any) -> None:
        base: Any = super()
        base.__init__(config, log)
        self.left: dict[str, Unit] = {}
        """The items of a worker that died, until it is decided what happens to them."""
        self.held: OrderedDict[str, Unit] = OrderedDict()
        """Groups with suspects: they wait for a worker that does one task at a time."""
        self.suspects: set[str] = set()
        self.why: dict[str, str] = {}
        """Item that failed with its worker -> the text that its report adds."""
        self.more: list[tuple[str, Any]] = []
        """Further items that fail with their worker, because xdist asks for only one."""
        self.collecting: set[Any] = set()

    @property
    def tests_finished(self) -> bool:
        base: Any = super()
        return not self.held and bool(base.tests_finished)

    @property
    def has_pending(self) -> bool:
        base: Any = super()
        return bool(self.held) or bool(base.has_pending)

    def add_node(self, node: Any) -> None:
        base: Any = super()
        base.add_node(node)
        self.collecting.add(node)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        base: Any = super()
        self.collecting.discard(node)
        base.add_node_collection(node, collection)

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
            unit.update({item: True for item in found.condemned if item in unit})
        self.why |= found.condemned
        guilty = list(found.condemned)
        self.more = [(item, node) for item in guilty[1:]]
        if found.again:
            self._say(node, found.again)
        if not guilty:
            self.go_on()
        return guilty[0] if guilty else None

    def _verdict(self, node: Any, pending: list[str]) -> CrashVerdict:
        state: SessionState = self.config.stash[STATE]
        if not pending:
            return CrashVerdict()
        if not looks_ahead(node, state):
            return CrashVerdict({pending[0]: AGAIN if pending[0] in self.suspects else ""})
        begun = read_journal(Path(getattr(node, "workerinput", {}).get(JOURNAL, "")))
        if begun is None:
            self.suspects.update(pending)
            return CrashVerdict({pending[0]: UNKNOWN})
        found = verdict(pending, begun, last=last_one(self.config, state))
        self.suspects.update(found.again, found.condemned)
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
                place = self.held if self._suspect(unit) else self.workqueue
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

    def _suspect(self, unit: Unit) -> bool:
        return any(item in self.suspects for item, done in unit.items() if not done)

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
        base: Any = super()
        base._reschedule(node)  # noqa: SLF001 - xdist's schedulers are extended so
        while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < RUNS:
            self._assign_work_unit(node)

    def _fail(self, item: str, node: Any) -> None:
        self.config.pluginmanager.getplugin("dsession").handle_crashitem(item, node)

    def _say(self, node: Any, again: Sequence[str]) -> None:
        names = ", ".join(map(task_id, again))
        line = f"worker {node.gateway.id} died while it ran several tasks; these run again, one at a time: {names}"
        self.config.pluginmanager.getplugin("dsession").report_line(f"\n{line}")
