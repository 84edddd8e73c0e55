"""The agents that choose the steps of a task."""

from harness.agents.registry import Agents, ScriptedAgent, TaskAgent

__all__ = ["Agents", "ScriptedAgent", "TaskAgent"]
