"""The names of agents: who chooses the steps of a task, and who goes on when that one fails."""

from __future__ import annotations

from collections.abc import Collection

from harness.spec.problems import did_you_mean, join_or

SCRIPTED = "scripted"
"""The name of the agent that executes the steps of the file."""
MANUAL = "manual"
"""The name of the agent that is a person at the terminal."""
BRIDGE = "bridge"
"""The name of the agents that run elsewhere and take tasks over the bridge."""
BUILT_IN = (SCRIPTED, MANUAL, BRIDGE)
"""The agents of the harness."""
GROUP = "harness.agents"
"""The group of entry points under which an installed package offers an agent."""


def known_agents(declared: Collection[str]) -> tuple[str, ...]:
    """All names of agents, sorted: of the project (`declared`), of installed packages, and of the harness."""
    from importlib.metadata import entry_points  # most runs name no agent

    return tuple(sorted({*declared, *(point.name for point in entry_points(group=GROUP)), *BUILT_IN}))


def unknown_agent(name: str, declared: Collection[str]) -> tuple[str, str] | None:
    """The expected names and a hint, if there is no agent of that name."""
    if name in declared or name in BUILT_IN or name in (known := known_agents(declared)):
        return None
    return join_or(known), did_you_mean(name, known) or f"write `python` into [tool.harness.agents.{name}]"
