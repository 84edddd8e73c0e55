"""Which tasks had begun in a worker of xdist that died: it wrote that down, and its controller reads it.

Only with look-ahead: else it is the item whose turn it was.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.model.events import StepEnded, StepStarted, TaskEnded, TaskStarted
from harness.model.plan import Plan
from harness.pytest_plugin.state import STATE, SessionState
from harness.spec.load import is_task_file

ALONE = "taskspec_alone"
"""Key of `workerinput`: this worker does one task at a time, although `--task-workers` says otherwise."""
JOURNAL = "taskspec_begun"
"""Key of `workerinput`: the file that the worker writes."""


@dataclass(frozen=True, slots=True)
class JournalEntries:
    """What a journal says, by task id; of several attempts of a task in one worker the last."""

    running: frozenset[str] = frozenset()
    over: frozenset[str] = frozenset()
    """They have ended; whether pytest has heard so is another question."""
    wrote: frozenset[str] = frozenset()
    """They had begun a step that is not to be done twice, running or over."""


class WorkerJournal:
    """The worker's side: a line for each thing that happens, there before what it tells of is done."""

    def __init__(self, path: Path, hear: Callable[[Any], None]) -> None:
        """`hear`: who else is told of each event. OSError when the file cannot be made."""
        self._path = path
        self._hear = hear
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def hear(self, event: Any) -> None:
        """From the thread of the loop."""
        for word in _words(event):
            self._say(word, event.plan.task_id)
        self._hear(event)

    def _say(self, word: str, task_id: str) -> None:
        line = (json.dumps([word, task_id]) + "\n").encode()
        try:
            whole = os.write(self._file, line) == len(line)
        except OSError:
            whole = False
        if not whole:  # a journal with a gap would lie; none is known to say nothing
            with suppress(OSError):
                self._path.unlink()


def _words(event: Any) -> Iterable[str]:
    match event:
        case TaskStarted(plan=plan):
            return ("running", "wrote") if any(map(_writes, _inside(plan))) else ("running",)
        case StepStarted(step=step) if step.effect_class == "write":
            return ("wrote",)
        case StepEnded(record=record) if record.may_have_written:  # a click whose answer was that to a POST
            return ("wrote",)
        case TaskEnded():
            return ("over",)
    return ()


def _inside(plan: Plan) -> list[Plan]:
    """What may run in the middle of it, and says nothing of its steps."""
    return [each for each in (plan.alternative, *(repair.task for repair in plan.repairs)) if each is not None]


def _writes(plan: Plan) -> bool:
    own = plan.agent is not None or any(step.effect_class == "write" for step in plan.steps)
    return own or any(map(_writes, _inside(plan)))


def hearing(config: pytest.Config, hear: Callable[[Any], None]) -> Callable[[Any], None]:
    """`hear`, and in a worker that is to keep a journal that too."""
    path = getattr(config, "workerinput", {}).get(JOURNAL)
    with suppress(OSError):  # on another machine the folder is not there
        return WorkerJournal(Path(path), hear).hear if path else hear
    return hear


def alone(config: pytest.Config) -> bool:
    """Whether this is a worker that does one task at a time."""
    return bool(getattr(config, "workerinput", {}).get(ALONE))


def read_journal(path: Path) -> JournalEntries | None:
    """What a worker has written until it died; None when there is no telling."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
        return _begun([json.loads(line) for line in lines])
    except (OSError, ValueError):
        return None


def _begun(lines: Iterable[tuple[str, str]]) -> JournalEntries:
    state: dict[str, str] = {}
    wrote: set[str] = set()
    for word, task_id in lines:
        if word == "wrote":
            wrote.add(task_id)
            continue
        state[task_id] = word
        if word == "running":  # once more, as somebody has wished (`--reruns`)
            wrote.discard(task_id)
    running = frozenset(task_id for task_id, word in state.items() if word == "running")
    return JournalEntries(running, frozenset(state) - running, frozenset(wrote))


# What becomes of the work of an xdist worker that died: who has killed it, and what runs again (decision 009).

Unit = dict[str, bool]
"""Items of one group, in order -> whether they are done."""
RUNS = 2
"""A worker runs an item when it knows of the next one, or that there is none. xdist gives a new one a single item."""
UNKNOWN = "other tasks may have run in it at the same time, and any of them may have ended it"
WROTE = "this one had begun to write, so it is not run again"
UNTOLD = (
    "this one was over and had written, so it is not run again; that it ended the process is unlikely, "
    "but how it went is lost"
)
NO_OTHER = "no process follows to tell which (--max-worker-restart)"
AGAIN = "it ran alone, after a process had died in which other tasks ran at the same time"


@dataclass(frozen=True, slots=True)
class CrashVerdict:
    """Over the items that a dead worker had not done."""

    condemned: Mapping[str, str] = field(default_factory=dict)
    """Items that fail -> what their report adds."""
    again: tuple[str, ...] = ()
    """Any of these may have killed it: they run again, one at a time."""


def verdict(pending: Sequence[str], begun: JournalEntries, *, last: bool) -> CrashVerdict:
    """Who has killed a worker with look-ahead. `pending`: not empty, in the order of their turns. `last`: none follows.

    A task that had begun to write does not run again: nobody can tell whether it took effect. Of what is
    no task, nobody knows what it does.
    """
    running = [item for item in pending if task_id(item) in begun.running]
    turn = [] if running and task_id(pending[0]) in begun.running | begun.over else [pending[0]]
    suspects = [*turn, *(item for item in running if item not in turn)]
    wrote = [item for item in pending if task_id(item) in begun.wrote]
    condemned: dict[str, str] = {}
    for item in suspects:
        spoilt = item in wrote or not of_task(item)
        if len(suspects) == 1 or last or spoilt:
            reasons = (_beside(item, suspects), WROTE * (item in wrote), NO_OTHER * (last and not spoilt))
            condemned[item] = "; ".join(filter(None, reasons)) if len(suspects) > 1 else ""
    condemned |= {item: UNTOLD for item in wrote if item not in suspects}
    return CrashVerdict(condemned, tuple(item for item in suspects if item not in condemned))


def task_id(node_id: str) -> str:
    """Of the task behind a node id."""
    return node_id.partition("::")[2]


def of_task(node_id: str) -> bool:
    name = node_id.partition("::")[0]
    return is_task_file(Path(name)) or Path(name).suffix in (".yaml", ".yml", ".json")


def looks_ahead(node: Any, state: SessionState) -> bool:
    """Whether a worker begins tasks before their turn."""
    return state.settings.task_workers != 1 and not getattr(node, "workerinput", {}).get(ALONE)


def last_one(config: Any, state: SessionState) -> bool:
    """Whether no worker takes the place of the one that has just died."""
    from xdist.dsession import get_default_max_worker_restart

    allowed = get_default_max_worker_restart(config)
    return allowed is not None and state.workers_lost > allowed


def _beside(item: str, suspects: Sequence[str]) -> str:
    others = ", ".join(task_id(other) for other in suspects if other != item)
    return f"at the same time it ran {others}: any of them may have ended it"


class CrashedWorkers:
    """A scheduler's part for workers that die; of the items that fail for it, `--reruns` decides."""

    config: Any
    workqueue: OrderedDict[str, Unit]
    assigned_work: dict[Any, dict[str, Unit]]
    _assign_work_unit: Any
    _pending_of: Any

    def __init__(self, config: Any, log: Any) -> None:
        base: Any = super()
        base.__init__(config, log)
        self.left: dict[str, Unit] = {}
        """What a worker that died had been given, while it is said what becomes of it."""
        self.held: OrderedDict[str, Unit] = OrderedDict()
        """Groups with suspects: for a worker that does one task at a time."""
        self.suspects: set[str] = set()
        self.why: dict[str, str] = {}
        """Item that failed with its worker -> what its report adds."""
        self.more: list[tuple[str, Any]] = []
        """Items that fail too, with their worker: xdist asks for one."""
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
        """As the base class, but the items that fail for it are done with.

        The others get what is left when `go_on` is called: `--reruns` may want an item once more, before them.
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
        """Once more, in its place among its group."""
        for unit in self.left.values():
            unit.update({item: False} if item in unit else {})

    def go_on(self) -> None:
        """What became of an item is said. After the last one the others get what is left, and before all else.

        xdist ends workers that find nothing to do, so that they must not look before.
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
        """No worker follows this one: what waits for one that does one task at a time fails."""
        self.collecting.add(node)  # it is still among the workers, and must be given nothing
        units = list(self.held.values())
        self.held.clear()
        for item in [item for unit in units for item, done in unit.items() if not done and item in self.suspects]:
            self.why[item] = f"{UNKNOWN}; {NO_OTHER}"
            self._fail(item, node)

    def _suspect(self, unit: Unit) -> bool:
        return any(item in self.suspects for item, done in unit.items() if not done)

    def _reschedule(self, node: Any) -> None:
        """Called when a worker may be given more. One that does one task at a time gets the suspects first."""
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
        line = f"worker {node.gateway.id} died with several tasks in it; these run again, one at a time: {names}"
        self.config.pluginmanager.getplugin("dsession").report_line(f"\n{line}")
