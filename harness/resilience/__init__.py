"""Resilience around any call: clock, deadline, backoff. Knows nothing of browsers, tasks or files."""

from harness.resilience.backoff import Backoff
from harness.resilience.clock import Clock, SystemClock
from harness.resilience.deadline import Deadline

__all__ = ["Backoff", "Clock", "Deadline", "SystemClock"]
