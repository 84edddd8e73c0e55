"""One live line on a terminal: the running task, its step, and what it waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO, assert_never

from rich.cells import cell_len, set_cell_size

from harness.model.events import (
    MODEL,
    Event,
    ModelAnswered,
    ModelAsked,
    ResilienceActed,
    StepStarted,
    TaskEnded,
    TaskStarted,
    ToolAnswered,
    ToolCalled,
)
from harness.recovery import Remedy, RepairPrecondition, Rewind, Substitute
from harness.reporting.telemetry.record import ModelReply, ToolReply, describe
from harness.reporting.telemetry.stream import Sink
from harness.reporting.words import place, shortened, step_label
from harness.resilience import Clock, SystemClock
from harness.resilience.events import AGENT, Degraded, FellBack, GaveUp, Recovered, Retrying, Waiting
from harness.spec.names import blank_unprintable
from harness.task_secrets import masking

_OFTEN = 0.5
"""Seconds between two changes of a line that shows how long something takes."""


class ProgressLine(Sink):
    """Shows text after the cursor and removes it, so that pytest's line stays. Silent without a terminal."""

    name = "live line"

    def __init__(
        self,
        stream: TextIO,
        room: Callable[[], int] = lambda: 79,
        clock: Clock | None = None,
    ) -> None:
        """`room` returns the number of free columns after the cursor."""
        self._stream = stream
        self._room = room
        self._clock = clock or SystemClock()
        self._shown = 0
        self._waiting: tuple[ModelAsked | ToolCalled, float] | None = None
        """The request to a model or the call of a tool that is under way, and since when it is shown."""
        self._next = 0.0
        """When `tick` changes the line again."""
        self.live = stream.isatty()

    def on_turn(self, event: Event) -> None:
        if not self.live:
            return
        now = self._clock.now()
        self._waiting, self._next = (event, now) if isinstance(event, ModelAsked | ToolCalled) else None, now + _OFTEN
        if isinstance(event, TaskEnded):
            self.clear()
        else:
            self._tell(lambda: line(event))

    def tick(self) -> None:
        """Show how long an agent has been thinking, or a tool is called; call it several times a second."""
        now = self._clock.now()
        if self._waiting is not None and now >= self._next:
            event, since = self._waiting
            self._next = now + _OFTEN
            took = now - since
            self._tell(lambda: _thinking(event, took) if isinstance(event, ModelAsked) else _calling(event, took))

    def _tell(self, text: Callable[[], str]) -> None:
        with masking(self.clean):
            if told := text():
                self._show(self.clean(told))

    def clear(self) -> None:
        """Remove the line before other output."""
        if self._shown:
            self._stream.write(f"\x1b[{self._shown}D\x1b[K")
            self._stream.flush()
            self._shown = 0

    def _show(self, text: str) -> None:
        self.clear()
        shown = blank_unprintable(text)
        size = min(cell_len(shown), max(0, self._room() - 1))
        self._stream.write(set_cell_size(shown, size))
        self._stream.flush()
        self._shown = size


def line(event: Event) -> str:
    """An event in one line; empty for one that changes nothing on the screen."""
    match event:
        case TaskStarted(plan=plan):
            return f" {plan.task_id}"
        case StepStarted(index=index, step=step):
            return f" {_task_and_place(event, index)} {step.act}"
        case ResilienceActed(index=index) if words := _acted(event):
            return f" {_task_and_place(event, index)} {words}"
        case ModelAsked() | ModelAnswered() | ToolCalled() | ToolAnswered():
            return _call_line(event)
        case _:
            return ""


def _call_line(event: ModelAsked | ModelAnswered | ToolCalled | ToolAnswered) -> str:
    match event:
        case ModelAsked():
            return _thinking(event)
        case ModelAnswered(plan=plan, call=call):
            return f" {plan.task_id} step {call.step}: {describe(ModelReply.of(call))}"
        case ToolCalled():
            return _calling(event)
        case ToolAnswered(call=answered):
            return f" {_task_and_place(event, answered.step)} {describe(ToolReply.of(answered))}"


def _thinking(event: ModelAsked, seconds: float | None = None) -> str:
    """` B1 step 7: builder thinks (claude, 3.2 s)`. `seconds`: since when; None: it has just begun."""
    since = "" if seconds is None else f", {seconds:.1f} s"
    return f" {event.plan.task_id} step {event.step}: {event.agent} thinks ({event.model}{since})"


def _calling(event: ToolCalled, seconds: float | None = None) -> str:
    """` B1 step 7 (of 0-9) calling mail.get_code (3.2 s)`. `seconds`: since when; None: it has just begun."""
    since = "" if seconds is None else f" ({seconds:.1f} s)"
    return f" {_task_and_place(event, event.step)} calling {event.server}.{event.tool}{since}"


def _acted(event: ResilienceActed) -> str:
    match event.event:
        case Waiting(seconds=seconds, reason=reason):
            return f"waiting {seconds:.1f} s: {shortened(reason, 200)}"
        case Retrying():
            return _again(event.event, event.remedy)
        case FellBack(name=name, after=agent) if name == AGENT:
            return f"`{agent}` goes on"
        case FellBack(name=name, before=before, after=model) if name.startswith(MODEL):
            return f"model {model} is asked in place of {before}"
        case FellBack(after=selector):
            return f"trying {shortened(selector, 100)}" if isinstance(event.remedy, Substitute) else ""
        case Recovered() | Degraded() | GaveUp():
            return ""
        case _:
            assert_never(event.event)


def _again(event: Retrying, remedy: Remedy | None) -> str:
    if isinstance(remedy, Rewind):
        return "going back to a checkpoint"
    if isinstance(remedy, RepairPrecondition):
        return "repairing"
    return describe(event)


def _task_and_place(event: Event, index: int | None) -> str:
    plan = event.plan
    if index is None:
        return plan.task_id
    if plan.agent is not None:
        return f"{plan.task_id} step {index}"  # nobody knows how many there will be
    total = len(plan.steps)
    name = {"pre": "preconditions", "end": "success criteria"}.get(place(index, total))
    return f"{plan.task_id} {name or step_label(index, total, plan.step_numbers.get(index, ''))}"
