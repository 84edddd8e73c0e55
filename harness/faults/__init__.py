"""What goes wrong on purpose (`faults:`): schedules, strikes, healing."""

from harness.faults.injector import FaultInjector, Where
from harness.faults.network import Network, prepare
from harness.faults.services import SiteHands
from harness.faults.state import StateHands

__all__ = ["FaultInjector", "Network", "SiteHands", "StateHands", "Where", "prepare"]
