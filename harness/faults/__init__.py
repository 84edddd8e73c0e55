"""What goes wrong on purpose: refused connections, hanging requests, values that arrive late (`faults:`)."""

from harness.faults.injector import FaultInjector, prepare

__all__ = ["FaultInjector", "prepare"]
