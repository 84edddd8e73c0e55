"""Who chooses the steps of a task."""

from harness.agents.scripted import ScriptedAgent

__all__ = ["ScriptedAgent"]
