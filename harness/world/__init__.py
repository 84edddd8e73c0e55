"""Memory and environment of a task (DESIGN 4.9)."""

from harness.world.channels import Channels
from harness.world.memory import Entry, MemoryStore
from harness.world.task_world import TaskWorld

__all__ = ["Channels", "Entry", "MemoryStore", "TaskWorld"]
