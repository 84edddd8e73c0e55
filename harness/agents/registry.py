"""Finds agents by name: in the settings, else among the installed packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from harness.agents.python import AgentSource, ModelsOf, PythonAgent
from harness.model.plan import Plan
from harness.model.policy import UNLIMITED, AgentPolicy
from harness.model.ports import Observe
from harness.model.record import History
from harness.model.settings import AgentSettings, WriteMode
from harness.recovery.failure import Failed, Failure
from harness.resilience.breaker import Breaker, CircuitOpen, Policy, guard
from harness.spec.problems import did_you_mean, join_or
from harness.spec.steps import Step

# The agent that plays back the steps of the task's file.


class ScriptedAgent:
    """Proposes `steps[len(history)]`: rewinding is slicing the history."""

    async def propose(self, plan: Plan, history: History, observe: Observe) -> Step | None:  # noqa: ARG002
        """The next step; None after the last. `history` contains only records of steps (index >= 0)."""
        place = len(history)
        return plan.steps[place] if place < len(plan.steps) else None


LLM = ("harness.agents.llm", "LlmAgent")
"""The agent whose steps a language model chooses: without a policy it writes only what the task declares."""
GROUP = "harness.agents"
"""The group of entry points under which an installed package offers an agent."""

_LEFT_ALONE = (
    "The agent failed several times in a row, so it is not asked for a while. `context.last_error` "
    "says how it failed last. Its circuit closes by itself when the agent answers again."
)


class Agents:
    """All agents of a project. Nothing of an agent is imported before its first proposal."""

    def __init__(
        self,
        settings: Mapping[str, AgentSettings],
        root: Path,
        breaker: Callable[[str], Breaker | None] = lambda _: None,
    ) -> None:
        """`breaker` returns the circuit of an agent, by its name."""
        self._settings = settings
        self._root = root
        self._breaker = breaker

    @property
    def names(self) -> tuple[str, ...]:
        """All names that `agent` accepts."""
        return tuple(sorted({*self._settings, *(point.name for point in entry_points(group=GROUP))}))

    def agent(self, name: str | None, models: ModelsOf | None = None) -> TaskAgent:
        """The agent for one run of a task; None: its own steps are executed.

        `models` returns the models for one proposal, for agents that want them. Raises Failed if there is no agent of
        that name.
        """
        if name is not None:
            self.source(name)
        return TaskAgent(self.source, self._breaker, models)

    def source(self, name: str) -> AgentSource:
        """The source of an agent. Raises Failed if there is none of that name."""
        settings = self._settings.get(name, AgentSettings())
        if settings.python is not None:
            module, _, attribute = settings.python.partition(":")
        else:
            point = self._installed(name)
            module, attribute = point.module, point.attr
        usual: WriteMode = "declared" if (module, attribute) == LLM else "allow"
        policy = AgentPolicy(settings.policy.acts, settings.policy.writes or usual)
        return AgentSource(name, module, attribute, self._root, settings.timeout, settings.options, policy)

    def _installed(self, name: str) -> EntryPoint:
        found = tuple(entry_points(group=GROUP, name=name))
        if found:
            return found[0]
        near = did_you_mean(name, [other for other in self.names if other != name])
        own = f"write `python` into [tool.harness.agents.{name}]"
        message = f"There is no agent `{name}`: there is {join_or(self.names)}; {near or own}"
        raise Failed(Failure("AGENT_UNAVAILABLE", message, details={"agent": name, "agents": list(self.names)}))


class TaskAgent:
    """Chooses the steps of one task, and of the tasks that run inside it, which may have other agents."""

    def __init__(
        self,
        source: Callable[[str], AgentSource],
        breaker: Callable[[str], Breaker | None],
        models: ModelsOf | None = None,
    ) -> None:
        self._source = source
        self._models = models
        self._breaker = breaker
        self._scripted = ScriptedAgent()
        self._policies: dict[str, AgentPolicy] = {}
        self._python_agents: dict[tuple[str, str], PythonAgent] = {}

    async def propose(self, plan: Plan, history: History, observe: Observe) -> Step | None:
        """The next step; None when there is no more to do. Raises Failed, and an agent's errors."""
        if plan.agent is None:
            return await self._scripted.propose(plan, history, observe)
        place = plan.key, plan.agent
        if place not in self._python_agents:
            self._python_agents[place] = PythonAgent(self._source(plan.agent), self._models)
        agent, breaker = self._python_agents[place], self._breaker(plan.agent)
        if breaker is None:
            return await agent.propose(plan, history, observe)
        asked: Policy[Step | None] = guard(breaker, counts=_is_the_agents, describe=_describe_generally)
        try:
            return await asked(lambda: agent.propose(plan, history, observe))()
        except CircuitOpen as refusal:
            message = f"Agent `{plan.agent}` was not asked: {refusal}"
            details = {"agent": plan.agent, "last_error": refusal.error, "failures": refusal.failures}
            failure = Failure("AGENT_UNAVAILABLE", message, details=details, cause=refusal, advice=_LEFT_ALONE)
            raise Failed(failure) from refusal

    def policy(self, plan: Plan) -> AgentPolicy:
        """The policy of the task's agent. Raises Failed if there is no such agent."""
        if plan.agent is None:
            return UNLIMITED
        if plan.agent not in self._policies:
            self._policies[plan.agent] = self._source(plan.agent).policy
        return self._policies[plan.agent]

    async def close(self) -> None:
        """Close the agents after the run. Bounded; it never raises."""
        for agent in self._python_agents.values():
            await agent.close()


def _describe_generally(error: BaseException) -> str:
    """The error in general words: other tasks see it, and cannot know the secrets of this one."""
    return error.failure.code if isinstance(error, Failed) else type(error).__name__


def _is_the_agents(error: BaseException) -> bool:
    """Return whether a failure is the agent's own, not that of the page."""
    return isinstance(error, Failed) and error.failure.code in ("AGENT_FAILED", "AGENT_TIMEOUT")
