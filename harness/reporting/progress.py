"""One live line on a terminal: which task is at which step, and what it waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO, assert_never

from rich.cells import cell_len, set_cell_size

from harness.model.events import Event, RemedyChosen, StepStarted, TaskEnded, TaskStarted
from harness.model.plan import Plan
from harness.recovery import GiveUp, RepairPrecondition, Retry, Rewind, Skip, Substitute, Trust
from harness.reporting.console import numbered, place, shortened
from harness.reporting.redaction import Redactor
from harness.spec.names import blanked


class ProgressLine:
    """Writes behind the cursor and takes it back, so that pytest's own line stays. Off a terminal it is silent."""

    def __init__(self, stream: TextIO, room: Callable[[], int] = lambda: 79, redactor: Redactor | None = None) -> None:
        """`room` tells how many columns are free behind the cursor."""
        self._stream = stream
        self._room = room
        self._redactor = redactor or Redactor()
        self._shown = 0
        self._on = stream.isatty()

    def on(self, event: Event) -> None:
        if not self._on:
            return
        if isinstance(event, TaskEnded):
            self.clear()
        elif text := line(event):
            self._show(self._redactor.plus(event.plan.secrets).text(text))

    def clear(self) -> None:
        """Take the line away, as before other output."""
        if self._shown:
            self._stream.write(f"\x1b[{self._shown}D\x1b[K")
            self._stream.flush()
            self._shown = 0

    def _show(self, text: str) -> None:
        self.clear()
        shown = blanked(text)
        size = min(cell_len(shown), max(0, self._room() - 1))
        self._stream.write(set_cell_size(shown, size))
        self._stream.flush()
        self._shown = size


def line(event: Event) -> str:
    """What an event says in one line; empty for one that changes nothing on the screen."""
    match event:
        case TaskStarted(plan=plan):
            return f" {plan.task_id}"
        case StepStarted(plan=plan, index=index, step=step):
            return f" {_where(plan, index)} {step.act}"
        case RemedyChosen(plan=plan, index=index) if words := _remedy(event):
            return f" {_where(plan, index)} {words}"
        case _:
            return ""


def _remedy(event: RemedyChosen) -> str:
    match event.remedy:
        case Retry(after=after) if event.failure.code == "CIRCUIT_OPEN":
            return f"waiting {after:.1f} s: {shortened(event.failure.message, 200)}"
        case Retry(after=after):
            wait = f" in {after:.1f} s" if after else ""
            return f"retry {event.number}{wait}: {shortened(event.failure.message, 200)}"
        case Substitute(selector=selector):
            return f"trying {shortened(selector, 100)}"
        case Rewind():
            return "going back to a checkpoint"
        case RepairPrecondition():
            return "repairing"
        case Trust() | Skip() | GiveUp():
            return ""
        case _:
            assert_never(event.remedy)


def _where(plan: Plan, index: int) -> str:
    total = len(plan.steps)
    name = {"pre": "preconditions", "end": "success criteria"}.get(place(index, total))
    return f"{plan.task_id} {name or numbered(index, total)}"
