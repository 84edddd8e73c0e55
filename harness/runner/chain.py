"""Which agent chooses the steps of a task, and which ones go on when it fails."""

from __future__ import annotations

from harness.model.agent_settings import AgentSettings, drives_itself
from harness.model.plan import AgentChain
from harness.model.settings import Settings
from harness.spec.agents import BRIDGE, SCRIPTED
from harness.spec.problems import Problem
from harness.spec.source import Origin
from harness.spec.task import TaskSpec


def first_agent(spec: TaskSpec, settings: Settings, named: str | None) -> str | None:
    """The agent that begins: that of the command line (`named`), of the file, or of the settings; None: its steps."""
    name = named or spec.agent or (None if spec.steps else settings.chosen_agent)
    return None if name == SCRIPTED else name


def is_remote(spec: TaskSpec, settings: Settings, named: str | None) -> bool:
    """Whether an agent that runs elsewhere may choose steps of the task, first or after another one."""
    chain = agent_chain(spec, settings, named)
    return BRIDGE in (first_agent(spec, settings, named), *(chain.names if chain else ()))


def agent_chain(spec: TaskSpec, settings: Settings, named: str | None) -> AgentChain | None:
    """The agents that go on when the first one fails; None: there is none.

    The names of the file belong to its own agent: one of the command line (`named`) has those of its settings.
    """
    first = first_agent(spec, settings, named)
    own = settings.agents.get(first or SCRIPTED, AgentSettings())
    of_file = named is None and spec.agent_fallback is not None
    names = (spec.agent_fallback or ()) if of_file else own.fallback
    names = tuple(name for name in names if name != (first or SCRIPTED) and (name != SCRIPTED or spec.steps))
    if not names:
        return None
    anew = {name for name in names if settings.agents.get(name, AgentSettings()).takeover == "restart"}
    if_unmet = spec.agent_fallback_if_unmet if of_file else own.fallback_if_unmet
    return AgentChain(names, frozenset({*anew, SCRIPTED}), if_unmet)


def chain_problems(first: str | None, chain: AgentChain | None, settings: Settings, origin: Origin) -> list[Problem]:
    """Why the agents of a task cannot follow one another: one that drives the browser itself is alone."""
    for name in (first, *(chain.names if chain else ())):
        if chain is not None and drives_itself(name, settings.agents):
            message = (
                f"the agent `{name}` drives the browser itself (`{{cdp}}`), so that no other agent can be beside it"
            )
            return [
                origin.problem(("agent_fallback",), message, hint="leave out `agent_fallback`, or choose another agent")
            ]
    return []
