"""The names of agents: who chooses the steps of a task, and who goes on when that one fails."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from harness.spec.problems import JsonPath, Problem, did_you_mean, join_or
from harness.spec.source import Origin

if TYPE_CHECKING:
    from harness.spec.task import TaskSpec

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


def agent_problems(spec: TaskSpec, origin: Origin, declared: Collection[str] | None) -> Iterator[Problem]:
    """Yield the problems of `agent` and `agent_fallback`. `declared`: the project's agents; None: any name will do."""
    named: list[tuple[JsonPath, str]] = [] if spec.agent is None else [(("agent",), spec.agent)]
    named += [(("agent_fallback", number), name) for number, name in enumerate(spec.agent_fallback or ())]
    first = spec.agent or (SCRIPTED if spec.steps else None)
    before = {first} if first else set()
    for path, name in named:
        if declared is not None and (unknown := unknown_agent(name, declared)):
            yield origin.problem(path, f"there is no agent `{name}`", expected=unknown[0], hint=unknown[1])
        if name == SCRIPTED and not spec.steps:
            yield origin.problem(path, "the agent `scripted` executes the task's `steps`, and there are none")
        if path[0] == "agent_fallback" and name in before:
            hint = "an agent that has failed is not asked again: name each agent once"
            yield origin.problem(path, f"the agent `{name}` is there already", hint=hint)
        before.add(name)
    if spec.agent_fallback_if_unmet and not spec.agent_fallback:
        message = "`agent_fallback_if_unmet` has no effect without `agent_fallback`"
        yield origin.problem(("agent_fallback_if_unmet",), message, hint="name the agents that go on", key=True)
