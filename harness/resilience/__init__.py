"""Resilience around any call: clock, deadline, backoff, supervisor. Knows nothing of browsers, tasks or files."""

from harness.resilience.backoff import Backoff
from harness.resilience.clock import Clock, SystemClock
from harness.resilience.deadline import Deadline
from harness.resilience.supervisor import Condition, Supervisor

__all__ = ["Backoff", "Clock", "Condition", "Deadline", "Supervisor", "SystemClock"]
