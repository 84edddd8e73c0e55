"""Resilience around any call: clock, deadline, backoff, supervisor, child processes. It knows no browsers and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.exports import exports

if TYPE_CHECKING:
    from harness.resilience.backoff import Backoff
    from harness.resilience.clock import Clock, Deadline, SystemClock, poll_until
    from harness.resilience.supervisor import Condition, Supervisor

__all__ = ["Backoff", "Clock", "Condition", "Deadline", "Supervisor", "SystemClock", "poll_until"]

if not TYPE_CHECKING:  # type checkers would otherwise accept any name
    __getattr__ = exports(
        __name__,
        {
            "harness.resilience.backoff": ("Backoff",),
            "harness.resilience.clock": ("Clock", "Deadline", "SystemClock", "poll_until"),
            "harness.resilience.supervisor": ("Condition", "Supervisor"),
        },
    )
