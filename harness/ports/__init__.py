"""What the engine needs from outside, as Protocols (DESIGN 3)."""

from harness.ports.fault import Hands, Heal, Strike
from harness.ports.run import Agent, Archive, Ask, Injector, LeftOut, Ports, RepairHook, Stage
from harness.ports.session import ConsoleLine, Evidence, Item, Observation, Observe, Saved, Session
from harness.ports.world import Json, Kept, Snapshot, World

__all__ = [
    "Agent",
    "Archive",
    "Ask",
    "ConsoleLine",
    "Evidence",
    "Hands",
    "Heal",
    "Injector",
    "Item",
    "Json",
    "Kept",
    "LeftOut",
    "Observation",
    "Observe",
    "Ports",
    "RepairHook",
    "Saved",
    "Session",
    "Snapshot",
    "Stage",
    "Strike",
    "World",
]
