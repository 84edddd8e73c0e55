"""Memory and environment of a task (DESIGN 4.9)."""

from harness.world.channels import Channels
from harness.world.memory import Entry, MemoryStore
from harness.world.reset import Reset
from harness.world.slots import Slot, Slots
from harness.world.task_world import TaskWorld

__all__ = ["Channels", "Entry", "MemoryStore", "Reset", "Slot", "Slots", "TaskWorld"]
