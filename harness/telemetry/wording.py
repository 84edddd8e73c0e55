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
    SlotAwaited,
    Waiting,
)
from harness.resilience.thresholds import ThresholdCrossed
from harness.telemetry.record import StepDone, TaskDone, TelemetryEvent

_LEVELS = {
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "fatal": logging.CRITICAL,
}
"""Severity of a failure in the catalog (specs/001) -> level of what is logged of it."""
INCONSISTENT = {
    "Cannot be `connected` if server is `down`": "`{of}` was given up, and something still answers at its host",
    "Circuit breaker cannot be `closed` during `booting`": "requests go to `{of}` while it is being started",
    "Polling must be `running` if extension is `connected`": "`{of}` answers, but nobody is monitoring it any more",
    "Cannot be `active` while server is `booting`": "`{of}` is used while it is being started",
}
"""Rule of specs/000, State Invariants -> what its violation means."""


def level(event: TelemetryEvent) -> int:
    """In the levels of `logging` (specs/001: warning, error and critical; specs/003 8.3)."""
    match event:
        case ServiceChanged(after="permanently_failed") | ThresholdCrossed(after="critical"):
            return logging.CRITICAL
        case GaveUp(severity=severity) | TaskDone(expected=False, final_state="failed" | "aborted", severity=severity):
            return _LEVELS.get(severity, logging.ERROR)
        case CircuitChanged(after="open") | Escalated(limit=None):
            return logging.ERROR
        case Retrying() | Waiting() | SlotAwaited() | FellBack() | Degraded() | Escalated() | InvariantBroken():
            return logging.WARNING
        case ServiceChanged(after="down") | ThresholdCrossed(after="warning") | TaskDone(final_state="skipped"):
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
def _(event: SlotAwaited) -> str:
    return (
        f"{event.task} has waited {event.seconds:.0f} s for the one state of the site (isolation), which another task "
        f"holds, perhaps of another run: locks in {event.folder}"
    )


@describe.register
def _(event: CircuitChanged) -> str:
    return f"circuit {event.circuit}: {event.before} -> {event.after} ({event.reason})"


@describe.register
def _(event: FellBack) -> str:
    return f"{event.name}: falling back from {event.before} to {event.after}: {one_line(event.error)}"


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
    meaning = INCONSISTENT.get(event.rule, event.rule).format(of=event.states.get("of", "a service"))
    return f"inconsistent: {meaning} ({states})"


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
    return f"task {event.final_state}{_because(event.code or event.reason)} ({course})"


def one_line(text: str, width: int = 200) -> str:
    """Without line breaks, and of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _because(why: str) -> str:
    return f": {one_line(why)}" if why else ""
