"""An event in one line for people, and how grave it is."""

from __future__ import annotations

import logging
from functools import singledispatch

from harness.resilience.events import (
    CircuitChanged,
    Degraded,
    Escalated,
    FellBack,
    GaveUp,
    InvariantBroken,
    Recovered,
    Retrying,
    ServiceChanged,
    Waiting,
)
from harness.resilience.thresholds import ThresholdCrossed
from harness.telemetry.record import StepDone, TaskDone, TelemetryEvent

_FAILED = ("failed", "aborted")


def level(event: TelemetryEvent) -> int:
    """In the levels of `logging` (specs/001: warning, error and critical; specs/003 8.3)."""
    match event:
        case ServiceChanged(after="permanently_failed") | ThresholdCrossed(after="critical"):
            return logging.CRITICAL
        case GaveUp() | CircuitChanged(after="open") | Escalated(limit=None):
            return logging.ERROR
        case TaskDone(expected=False, final_state=state) if state in _FAILED:
            return logging.ERROR
        case Retrying() | Waiting() | FellBack() | Degraded() | Escalated() | InvariantBroken():
            return logging.WARNING
        case ServiceChanged(after="down") | ThresholdCrossed(after="warning"):
            return logging.WARNING
        case _:
            return logging.DEBUG if isinstance(event, StepDone) else logging.INFO


@singledispatch
def describe(event: TelemetryEvent) -> str:
    """`Retrying 2/3 in 2.0 s: connection refused`."""
    raise TypeError(f"no words for {type(event).__name__}")


@describe.register
def _(event: Retrying) -> str:
    wait = f" in {event.delay:.1f} s" if event.delay else ""
    return f"Retrying {event.attempt}/{event.retries}{wait}: {one_line(event.error)}"


@describe.register
def _(event: Waiting) -> str:
    return f"waiting {event.seconds:.1f} s: {one_line(event.reason)}"


@describe.register
def _(event: CircuitChanged) -> str:
    return f"circuit {event.circuit}: {event.before} -> {event.after} ({event.reason})"


@describe.register
def _(event: FellBack) -> str:
    return f"{event.name}: falling back from {event.source} to {event.to}: {one_line(event.error)}"


@describe.register
def _(event: Degraded) -> str:
    return f"{event.name}: degraded: {one_line(event.reason)}"


@describe.register
def _(event: Recovered) -> str:
    return f"{event.name}: recovered after {event.after:.1f} s, at attempt {event.attempts}"


@describe.register
def _(event: GaveUp) -> str:
    return f"{event.name}: gave up{' after all retries' if event.exhausted else ''}: {one_line(event.error)}"


@describe.register
def _(event: Escalated) -> str:
    over = "is no longer waited for; it may still finish"
    then = over if event.limit is None else f"is waited for {event.limit:g} s in all"
    return f"{event.name}: no answer in {event.waited:g} s; it {then}"


@describe.register
def _(event: ServiceChanged) -> str:
    return f"service {event.service}: {event.before} -> {event.after} ({one_line(event.reason)})"


@describe.register
def _(event: InvariantBroken) -> str:
    states = ", ".join(f"{dimension}={state}" for dimension, state in event.states.items())
    return f"states exclude each other: {event.rule} ({states})"


@describe.register
def _(event: ThresholdCrossed) -> str:
    return f"threshold: {event.reading.shown}"


@describe.register
def _(event: StepDone) -> str:
    several = f", {event.attempts} attempts" if event.attempts > 1 else ""
    how = f"{'passed' if event.passed else 'failed'} in {event.seconds:.2f} s{several}"
    return f"{event.name}: {how}{_because(event.error)}"


@describe.register
def _(event: TaskDone) -> str:
    course = f"{event.seconds:.1f} s, {event.attempts} attempts, {event.failures} failed"
    return f"task {event.final_state}{_because(event.code)} ({course})"


def one_line(text: str, width: int = 200) -> str:
    """Without line breaks, and of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _because(why: str) -> str:
    return f": {one_line(why)}" if why else ""
