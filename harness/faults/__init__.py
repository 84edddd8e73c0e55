"""Injects the declared faults (`faults:`): when they strike, how, and how they are undone."""

from harness.faults.injector import FaultInjector, Where
from harness.faults.network import Network, prepare
from harness.faults.services import SiteTarget
from harness.faults.state import StateTarget

__all__ = ["FaultInjector", "Network", "SiteTarget", "StateTarget", "Where", "prepare"]
