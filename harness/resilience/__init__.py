"""Resilience around any call: clock, deadline, backoff, supervisor. It knows no browsers, tasks or files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.exports import exports

if TYPE_CHECKING:
    from harness.resilience.clock import Backoff, Clock, Deadline, SystemClock, poll_until
    from harness.resilience.supervisor import Condition, Supervisor

__all__ = ["Backoff", "Clock", "Condition", "Deadline", "Supervisor", "SystemClock", "poll_until"]

if not TYPE_CHECKING:  # type checkers would otherwise accept any name
    __getattr__ = exports(
        __name__,
        {
            "harness.resilience.clock": ("Backoff", "Clock", "Deadline", "SystemClock", "poll_until"),
            "harness.resilience.supervisor": ("Condition", "Supervisor"),
        },
    )
