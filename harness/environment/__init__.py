"""The systems under test: their services, channels, memory and isolation."""

from harness.environment.channels import Channels
from harness.environment.memory import MemoryEntry, MemoryStore
from harness.environment.reset import StateReset
from harness.environment.services import Services
from harness.environment.slots import Slot, Slots
from harness.environment.world import TaskWorld

__all__ = ["Channels", "MemoryEntry", "MemoryStore", "Services", "Slot", "Slots", "StateReset", "TaskWorld"]
