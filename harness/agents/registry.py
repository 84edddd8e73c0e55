"""Agents by name: of the settings, else of the installed packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from harness.agents.python import AgentSource, PythonAgent
from harness.model.plan import Plan
from harness.model.ports import Observe
from harness.model.record import History
from harness.model.settings import AgentSettings
from harness.recovery.failure import Failed, Failure
from harness.resilience.breaker import Breaker, CircuitOpen, Policy, guard
from harness.spec.problems import did_you_mean, listed
from harness.spec.steps import Step

# The agent that plays back the steps of the task's file.


class ScriptedAgent:
    """Proposes `steps[len(history)]`: rewinding is slicing the history."""

    async def propose(self, plan: Plan, history: History, observe: Observe) -> Step | None:  # noqa: ARG002
        """The next step; None after the last. `history` holds only records of steps (index >= 0)."""
        place = len(history)
        return plan.steps[place] if place < len(plan.steps) else None


GROUP = "harness.agents"
"""The group of entry points where a package names an agent that it has for everybody."""

_LEFT_ALONE = (
    "The agent failed several times in a row and is not asked for a while: `context.last_error` says how it failed"
    " last. Its circuit closes by itself when it answers again."
)


class Agents:
    """All agents that a project knows. Nothing of an agent is imported before its first proposal."""

    def __init__(
        self,
        settings: Mapping[str, AgentSettings],
        root: Path,
        breaker: Callable[[str], Breaker | None] = lambda _: None,
    ) -> None:
        """`breaker` gives the circuit of an agent, by its name."""
        self._settings = settings
        self._root = root
        self._breaker = breaker

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that `agent` takes."""
        return tuple(sorted({*self._settings, *(point.name for point in entry_points(group=GROUP))}))

    def agent(self, name: str | None) -> TaskAgent:
        """Who chooses the steps in one run of a task; None: its own steps are played back.

        Raises Failed when there is no agent of that name.
        """
        if name is not None:
            self.source(name)
        return TaskAgent(self.source, self._breaker)

    def source(self, name: str) -> AgentSource:
        """Where an agent comes from. Raises Failed when there is none of that name."""
        settings = self._settings.get(name, AgentSettings())
        if settings.python is not None:
            module, _, attribute = settings.python.partition(":")
        else:
            point = self._installed(name)
            module, attribute = point.module, point.attr
        return AgentSource(name, module, attribute, self._root, settings.timeout, settings.options)

    def _installed(self, name: str) -> EntryPoint:
        found = tuple(entry_points(group=GROUP, name=name))
        if found:
            return found[0]
        near = did_you_mean(name, [other for other in self.names if other != name])
        own = f"write `python` into [tool.harness.agents.{name}]"
        message = f"There is no agent `{name}`: there is {listed(self.names)}; {near or own}"
        raise Failed(Failure("AGENT_UNAVAILABLE", message, details={"agent": name, "agents": list(self.names)}))


class TaskAgent:
    """Who chooses the steps in one run: of its task, and of the tasks that run inside of it, which may have others."""

    def __init__(self, source: Callable[[str], AgentSource], breaker: Callable[[str], Breaker | None]) -> None:
        self._source = source
        self._breaker = breaker
        self._scripted = ScriptedAgent()
        self._python_agents: dict[tuple[str, str], PythonAgent] = {}

    async def propose(self, plan: Plan, history: History, observe: Observe) -> Step | None:
        """The next step; None when there is no more to do. Raises Failed, and what an agent raises."""
        if plan.agent is None:
            return await self._scripted.propose(plan, history, observe)
        place = plan.key, plan.agent
        if place not in self._python_agents:
            self._python_agents[place] = PythonAgent(self._source(plan.agent))
        agent, breaker = self._python_agents[place], self._breaker(plan.agent)
        if breaker is None:
            return await agent.propose(plan, history, observe)
        asked: Policy[Step | None] = guard(breaker, counts=_is_the_agents, describe=_said)
        try:
            return await asked(lambda: agent.propose(plan, history, observe))()
        except CircuitOpen as refusal:
            message = f"Agent `{plan.agent}` was not asked: {refusal}"
            details = {"agent": plan.agent, "last_error": refusal.error, "failures": refusal.failures}
            failure = Failure("AGENT_UNAVAILABLE", message, details=details, cause=refusal, advice=_LEFT_ALONE)
            raise Failed(failure) from refusal

    async def close(self) -> None:
        """After the run. Bounded; never raises."""
        for agent in self._python_agents.values():
            await agent.close()


def _said(error: BaseException) -> str:
    """In general words: other tasks are told, and do not know what is secret in this one."""
    return error.failure.code if isinstance(error, Failed) else type(error).__name__


def _is_the_agents(error: BaseException) -> bool:
    """Whether a failure is the agent's own: not that of the page it looked at."""
    return isinstance(error, Failed) and error.failure.code in ("AGENT_FAILED", "AGENT_TIMEOUT")
