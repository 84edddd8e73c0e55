"""Which tasks had begun in a worker of xdist that died: it wrote that down, and its controller reads it.

Only with look-ahead: else it is the item whose turn it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.model.events import StepEnded, StepStarted, TaskEnded, TaskStarted
from harness.model.plan import Plan

ALONE = "taskspec_alone"
"""Key of `workerinput`: this worker does one task at a time, although `--task-workers` says otherwise."""
JOURNAL = "taskspec_begun"
"""Key of `workerinput`: the file that the worker writes."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What a journal says, by task id; of several attempts of a task in one worker the last."""

    running: frozenset[str] = frozenset()
    over: frozenset[str] = frozenset()
    """They have ended; whether pytest has heard so is another question."""
    wrote: frozenset[str] = frozenset()
    """They had begun a step that is not to be done twice (DESIGN 4.2), running or over."""


class Journal:
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
        return Journal(Path(path), hear).hear if path else hear
    return hear


def alone(config: pytest.Config) -> bool:
    """Whether this is a worker that does one task at a time."""
    return bool(getattr(config, "workerinput", {}).get(ALONE))


def read_journal(path: Path) -> Begun | None:
    """What a worker has written until it died; None when there is no telling."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
        return _begun([json.loads(line) for line in lines])
    except (OSError, ValueError):
        return None


def _begun(lines: Iterable[tuple[str, str]]) -> Begun:
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
    return Begun(running, frozenset(state) - running, frozenset(wrote))
