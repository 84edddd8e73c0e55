"""Resilience around any call: clock, deadline, backoff, supervisor. It knows no browsers, tasks or files."""

from harness.resilience.clock import Backoff, Clock, Deadline, SystemClock, poll_until
from harness.resilience.supervisor import Condition, Supervisor

__all__ = ["Backoff", "Clock", "Condition", "Deadline", "Supervisor", "SystemClock", "poll_until"]
