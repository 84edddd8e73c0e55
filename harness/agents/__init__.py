"""Who chooses the steps of a task."""

from harness.agents.registry import Agents, TaskAgent
from harness.agents.scripted import ScriptedAgent

__all__ = ["Agents", "ScriptedAgent", "TaskAgent"]
