"""Finds agents by name: in the settings, else among the installed packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol, cast

from harness.agents.python import AgentSource, ModelsOf, PythonAgent, chosen_index
from harness.model.agent_settings import AgentSettings
from harness.model.plan import Plan
from harness.model.policy import UNLIMITED, AgentPolicy
from harness.model.ports import Ask, Observation, Observe, Sight
from harness.model.record import History, TaskEnding
from harness.recovery.catalog import Family
from harness.recovery.failure import Failed, Failure
from harness.resilience.breaker import Breaker, Call, CircuitOpen, Policy, describe_error, guard
from harness.resilience.events import Emit, GaveUp, ResilienceEvent, discard
from harness.spec.agents import BRIDGE, GROUP, MANUAL, SCRIPTED, known_agents, unknown_agent
from harness.spec.problems import did_you_mean, join_or
from harness.spec.steps import Step
from harness.values import replace


class ScriptedAgent:
    """Proposes `steps[len(history)]`: rewinding is slicing the history."""

    async def propose(self, plan: Plan, history: History, observe: Observe) -> Step | None:  # noqa: ARG002
        """The next step; None after the last. `history` contains only records of steps (index >= 0)."""
        place = len(history)
        return plan.steps[place] if place < len(plan.steps) else None


_LLM = ("harness.agents.llm", "LlmAgent")
"""The agent whose steps a language model chooses: without a policy it writes only what the task declares."""
_CRASHED = "AGENT_FAILED"
"""The code of an agent that has raised an error."""
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
        *,
        emit: Emit = discard,
        retries: bool = True,
        tools: Mapping[str, tuple[str, ...]] | None = None,
        remote: Callable[[], RemoteAgent] | None = None,
    ) -> None:
        """`breaker` returns the circuit of an agent, by its name; `emit` receives the events of its retries.

        Without `retries`, an agent that has raised an error is not asked again. `tools`: the tool servers that are
        offered to agents, with patterns of the tools. `remote` makes the agent `bridge` for one run of a task.
        """
        self.remote = remote
        self._settings = settings
        self._root = root
        self._breaker = breaker
        self._emit = emit
        self._retries = retries
        self._unlimited = replace(UNLIMITED, tools=tools or {})

    @property
    def names(self) -> tuple[str, ...]:
        """All names that `agent` accepts."""
        return known_agents(self._settings)

    def check(self, name: str | None) -> None:
        """Raises Failed if there is no agent of that name, or none of a name that the settings of agents contain."""
        for each, settings in self._settings.items():
            named = [("fallback", other) for other in settings.fallback]
            named += [("agent", settings.agent)] if settings.agent else []
            for key, other in named:
                self._refuse_unknown(other, f"[tool.harness.agents.{each}] {key}: ")
        if name is not None:
            self._refuse_unknown(name)

    def agent(
        self, name: str | None, *, models: ModelsOf | None = None, ask: Ask | None = None, saw: Saw | None = None
    ) -> TaskAgent:
        """The agent for one run of a task; None: its own steps are executed. `ask` asks a person.

        `models` returns the models for one proposal, for agents that want them. `saw` is told what they see. Raises
        Failed if there is no agent of that name.
        """
        if name is not None:
            self._refuse_unknown(name)
        return TaskAgent(
            self.source, self._breaker, models=models, ask=ask, emit=self._emit, saw=saw, remote=self.remote
        )

    def source(self, name: str) -> AgentSource:
        """The source of an agent. Raises Failed if there is none of that name."""
        settings = self._settings.get(name, AgentSettings())
        retry = settings.retry if self._retries else 0
        if name == BRIDGE:
            return AgentSource(name, "", "", self._root, settings.timeout, {}, _policy(settings, self._unlimited))
        if settings.agent is not None:
            other = self.source(settings.agent)
            timeout = settings.timeout if "timeout" in settings.model_fields_set else other.timeout
            options, policy = {**other.options, **settings.options}, _policy(settings, other.policy)
            retry = 0 if other.command is not None else retry
            return replace(other, name=name, timeout=timeout, options=options, policy=policy, retry=retry)
        if settings.command is not None:
            policy = _policy(settings, self._unlimited)
            return AgentSource(name, "", "", self._root, settings.timeout, {}, policy, command=settings)
        if settings.python is not None:
            module, _, attribute = settings.python.partition(":")
        else:
            found = tuple(entry_points(group=GROUP, name=name))
            if not found:
                raise self._unknown(name)
            module, attribute = found[0].module, found[0].attr
        usual = self._unlimited
        policy = _policy(settings, replace(usual, writes="declared") if (module, attribute) == _LLM else usual)
        return AgentSource(name, module, attribute, self._root, settings.timeout, settings.options, policy, retry)

    def _refuse_unknown(self, name: str, place: str = "") -> None:
        """Raises Failed if there is no agent of that name; `place` is where it is named."""
        if unknown_agent(name, self._settings):
            raise self._unknown(name, place)
        if name != MANUAL:
            self.source(name)

    def _unknown(self, name: str, place: str = "") -> Failed:
        others = [other for other in self.names if other != name]
        near = did_you_mean(name, others) or f"write `python` into [tool.harness.agents.{name}]"
        message = f"{place}There is no agent `{name}`: there is {join_or(self.names)}; {near}"
        return Failed(Failure("AGENT_UNAVAILABLE", message, details={"agent": name, "agents": list(self.names)}))


class RemoteAgent(Protocol):
    """An agent that runs elsewhere, for one run of a task."""

    async def propose(
        self, plan: Plan, history: History, observe: Sight, policy: AgentPolicy
    ) -> Mapping[str, Any] | None:
        """The step that it chooses, unchecked; None when it is done. Raises Failed."""

    def end(self, verdict: TaskEnding | None) -> None:
        """The task is over. `verdict`: None if it has none, as after Ctrl-C."""


class CommandProcess(RemoteAgent, Protocol):
    """An agent that is a process of its own for one run of a task."""

    async def close(self) -> None:
        """End its processes. Bounded; it never raises."""


_MakeCommand = Callable[[AgentSource], CommandProcess]
"""The source of a command -> the agent, whose process begins with its first proposal."""
Saw = Callable[[Plan, str, int, Observation], None]
"""Is told what an agent sees: the task, the agent, the index of the step that it chooses, the page."""


class TaskAgent:
    """Chooses the steps of one task, and of the tasks that run inside it, which may have other agents."""

    def __init__(
        self,
        source: Callable[[str], AgentSource],
        breaker: Callable[[str], Breaker | None],
        *,
        models: ModelsOf | None = None,
        ask: Ask | None = None,
        emit: Emit = discard,
        saw: Saw | None = None,
        remote: Callable[[], RemoteAgent] | None = None,
    ) -> None:
        self._source = source
        self.make_command: _MakeCommand | None = None
        """Makes the agents that are processes of their own."""
        self._commands: dict[str, CommandProcess] = {}
        self._make_remote = remote
        self._remote: RemoteAgent | None = None
        self._models = models
        self._saw = saw
        self._breaker = breaker
        self._emit = emit
        self._scripted = ScriptedAgent()
        self._manual = ManualAgent(ask)
        self._policies: dict[str, AgentPolicy] = {}
        self._python_agents: dict[tuple[str, str], PythonAgent] = {}

    async def propose(self, plan: Plan, history: History, observe: Sight) -> Step | None:
        """The next step; None when there is no more to do. Raises Failed, and an agent's errors."""
        if plan.agent is None:
            return await self._scripted.propose(plan, history, observe)
        if plan.agent == MANUAL:
            return await self._manual.propose(plan, history, observe)
        source, breaker = self._source(plan.agent), self._breaker(plan.agent)
        call: Call[Step | None] = partial(self._propose, source, plan, history, observe)
        if source.retry:
            call = self._retried(source, call)
        if breaker is None:
            return await call()
        asked: Policy[Step | None] = guard(breaker, counts=_is_the_agents, describe=_describe_generally)
        try:
            return await asked(call)()
        except CircuitOpen as refusal:
            message = f"Agent `{plan.agent}` was not asked: {refusal}"
            details = {"agent": plan.agent, "last_error": refusal.error, "failures": refusal.failures}
            failure = Failure("AGENT_UNAVAILABLE", message, details=details, cause=refusal, advice=_LEFT_ALONE)
            raise Failed(failure) from refusal

    def policy(self, plan: Plan) -> AgentPolicy:
        """The policy of the plan's agent. Raises Failed if there is no such agent."""
        if plan.agent is None or plan.agent == MANUAL:
            return UNLIMITED
        if plan.agent not in self._policies:
            self._policies[plan.agent] = self._source(plan.agent).policy
        return self._policies[plan.agent]

    def restricts_writes(self, plan: Plan) -> bool:
        """Whether the policy of the plan's agent, or of one that may follow it, holds some requests back."""
        names = (plan.agent, *(plan.chain.names if plan.chain else ()))
        agents = [name for name in names if name != SCRIPTED]
        return any(self.policy(replace(plan, agent=name)).restricts_writes for name in agents)

    async def relieve(self, plan: Plan, failure: Failure) -> str | None:
        """The agent that goes on after this failure of the plan's agent; None: the failure ends the task."""
        return successor(plan, failure)

    async def _propose(self, source: AgentSource, plan: Plan, history: History, observe: Sight) -> Step | None:
        """The proposal of the agent, which is made at its first one, and anew after it has raised an error."""
        look = observe
        if self._saw is not None:
            look = _NotedSight(observe, partial(self._saw, plan, source.name, chosen_index(history)))
        if (elsewhere := self._elsewhere(source)) is not None:
            return cast("Step | None", await elsewhere.propose(plan, history, look, source.policy))
        place = plan.key, source.name
        if place not in self._python_agents:
            self._python_agents[place] = PythonAgent(source, self._models)
        try:
            return await self._python_agents[place].propose(plan, history, look)
        except Failed as failed:
            if failed.failure.code == _CRASHED:
                await self._python_agents.pop(place).close()
            raise

    def _elsewhere(self, source: AgentSource) -> RemoteAgent | None:
        """The agent, if it does not run in this process. Raises Failed if there can be none here."""
        if source.name == BRIDGE:
            if self._make_remote is None:
                message = f"Agent `{BRIDGE}`: this run serves no agents that run elsewhere"
                advice = "`pytest` serves them in a run without `-n`: its tasks are offered to who connects."
                raise Failed(Failure("AGENT_UNAVAILABLE", message, details={"agent": BRIDGE}, advice=advice))
            self._remote = self._remote or self._make_remote()
            return self._remote
        if source.command is None:
            return None
        if self.make_command is None:
            message = f"Agent `{source.name}` is a command, and none is started here"
            raise Failed(Failure("AGENT_UNAVAILABLE", message, details={"agent": source.name}))
        if source.name not in self._commands:
            self._commands[source.name] = self.make_command(source)
        return self._commands[source.name]

    def _retried(self, source: AgentSource, call: Call[Step | None]) -> Call[Step | None]:
        """The call, which is made again, to a new object, if the agent raises an error."""
        from harness.resilience.retry import DelayTable, retry  # only some runs have agents
        from harness.resilience.verdict import KINDS, RetryVerdict

        def judge(error: BaseException) -> RetryVerdict:
            crashed = isinstance(error, Failed) and error.failure.code == _CRASHED  # not merely late, or refused
            said = error.failure.message if isinstance(error, Failed) else describe_error(error)
            return KINDS["agent crashed" if crashed else "unknown"].verdict(said)

        def emit_retry(event: ResilienceEvent) -> None:
            if not isinstance(event, GaveUp):  # the engine tells when an agent is given up
                self._emit(event)

        waits, name = DelayTable((0.0,), source.retry), f"agent {source.name}"
        policy: Policy[Step | None] = retry(waits, classify=judge, emit=emit_retry, name=name)
        return policy(call)

    async def close(self, verdict: TaskEnding | None = None) -> None:
        """Close the agents after the run, whose end a remote one is told. Bounded; it never raises."""
        if self._remote is not None:
            self._remote.end(verdict)
        for command in self._commands.values():
            command.end(verdict)
            await command.close()
        for agent in self._python_agents.values():
            await agent.close()


class _NotedSight:
    """A view of the page that tells what was seen (ports.Sight)."""

    def __init__(self, sight: Sight, saw: Callable[[Observation], object]) -> None:
        self._saw = saw
        self._look = sight
        self.suspend = sight.suspend

    async def __call__(self, *, screenshot: bool = False) -> Observation:
        """Look at the page, and tell it. Raises Failed."""
        seen = await self._look(screenshot=screenshot)
        self._saw(seen)
        return seen


def _policy(settings: AgentSettings, usual: AgentPolicy) -> AgentPolicy:
    own = settings.policy
    acts = usual.acts if own.acts is None else own.acts
    return AgentPolicy(acts, own.writes or usual.writes, usual.tools, usual.only if own.tools is None else own.tools)


def _describe_generally(error: BaseException) -> str:
    """The error in general words: other tasks see it, and cannot know the secrets of this one."""
    return error.failure.code if isinstance(error, Failed) else type(error).__name__


def _is_the_agents(error: BaseException) -> bool:
    """Return whether a failure is the agent's own: not that of the page, nor of a provider.

    An agent that is stuck, gives up or proposes what is not a step has answered: that belongs to its task.
    """
    return isinstance(error, Failed) and error.failure.code in (_CRASHED, "AGENT_TIMEOUT", "AGENT_LOST")


_UNMET = "CRITERIA_UNMET"
_BREAKS = frozenset({Family.ELEMENT, Family.AMBIGUOUS, Family.ACTION})
"""Failures of a step that another step may avoid, since the page is not as the file expects it."""
_BREAKS_TOO = frozenset({"STEP_TIMEOUT", "INVALID_INPUT", "MEMORY_MISSING"})


def successor(plan: Plan, failure: Failure) -> str | None:
    """The agent that goes on after this failure of the plan's agent; None: there is none, or it ends the task."""
    return plan.chain.after(plan.agent) if plan.chain is not None and _relieves(plan, failure) else None


def _relieves(plan: Plan, failure: Failure) -> bool:
    if failure.row.relieves:
        return True
    if plan.agent is None and not plan.heal:
        return False
    if failure.code == _UNMET:
        return plan.chain is not None and plan.chain.if_unmet
    return plan.agent is None and (failure.family in _BREAKS or failure.code in _BREAKS_TOO)


DONE, ABORT = "done", "abort"


class ManualAgent:
    """A person at the terminal, who ends the task in its browser window."""

    def __init__(self, ask: Ask | None) -> None:
        self._ask = ask

    async def propose(self, plan: Plan, history: History, observe: Observe) -> Step | None:
        """None when the person has done the task. Raises Failed if there is nobody, or if the person gives up."""
        answer = await self._ask(await _question(plan, history, observe), (DONE, ABORT)) if self._ask else None
        if answer is None:
            message = f"Agent `{MANUAL}`: nobody at a terminal took the task over"
            advice = "Run the task at a terminal, with `--task-headed` and without `-n`, or leave `manual` out."
            raise Failed(Failure("AGENT_UNAVAILABLE", message, details={"agent": MANUAL}, advice=advice))
        if answer == ABORT:
            raise Failed(Failure("AGENT_GAVE_UP", f"Agent `{MANUAL}`: the person at the terminal ended the task"))
        return None


async def _question(plan: Plan, history: History, observe: Observe) -> str:
    seen = await observe()
    failure = history[-1].failure if history else None
    last = f" The last step failed: {failure.message}." if failure else ""
    goal = f" Goal: {plan.spec.goal}." if plan.spec.goal else ""
    where = f"{plan.task_id}: no other agent goes on; the page is {seen.url} (a window needs `--task-headed`)."
    return f"{where}{goal}{last} Do the rest by hand, then answer."
