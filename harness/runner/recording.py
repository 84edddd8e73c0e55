"""A run in which a person does the steps: services, hosts, login and browser are those of a task (`harness record`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from harness.agents.python import AgentSource, ModelsOf
from harness.agents.registry import Agents, Saw, TaskAgent
from harness.browser.context import Tab
from harness.browser.recorder import Recorder
from harness.model.plan import Plan
from harness.model.ports import Ask, Sight
from harness.model.record import History, TaskResult
from harness.model.settings import Settings
from harness.model.tool_settings import offered_to_agents
from harness.resilience import SystemClock
from harness.resilience.breaker import Breaker
from harness.runner.harness import Harness
from harness.runner.loop import Caller, LoopThread
from harness.spec.recorded.actions import Recording
from harness.spec.steps import Step

WHOLE_DAY = 24 * 3600.0
"""The limit of a recording, in seconds."""


class RecordingSession:
    """Opens the page of a plan, and records what a person does after that."""

    def __init__(self, plan: Plan, settings: Settings, run_id: str) -> None:
        self._plan = plan
        self._settings = settings
        self._run_id = run_id
        self._tab: Tab | None = None
        self._begun = False
        self._stop: Callable[[], object] = lambda: None
        self.recorder = Recorder(SystemClock())

    def run(self, opened: Callable[[], None]) -> tuple[Recording, TaskResult]:
        """Record until the last page is closed or `stop` is called. `opened` is called when the page is there.

        The result says why the page could not be opened, if so. Raises ValueError or OSError for bad settings.
        """
        loop = LoopThread()
        try:
            result = loop.run(lambda caller: self._record(caller, opened), lambda _: None)
        finally:
            loop.close()
        return self.recorder.recording(), result

    def stop(self) -> None:
        """End the recording, from any thread."""
        self._stop()

    async def _record(self, caller: Caller, opened: Callable[[], None]) -> TaskResult:
        loop = asyncio.get_running_loop()
        self._stop = lambda: loop.call_soon_threadsafe(self.recorder.stop)
        harness = Harness(self._settings, self._run_id)
        harness.browsers.on_tab = self._hold

        async def wait() -> None:
            opened()
            await self.recorder.wait()

        harness.agents = PersonAgents(self._settings, Person(self._plan.key, self._begin, wait))
        try:
            return await harness.run(self._plan, caller)
        finally:
            loop.set_exception_handler(lambda _, __: None)  # browser and driver may have got the same Ctrl-C
            await harness.close()

    async def _hold(self, tab: Tab) -> None:
        self._tab = tab
        if self._begun:
            await self.recorder.attach(tab)

    async def _begin(self) -> None:
        """Begin to record: the tab is the one of the recording, and no longer one in which a login was made."""
        self._begun = True
        if self._tab is not None:
            await self.recorder.attach(self._tab)


class Person(Struct, frozen=True):
    """Who does the steps of the plan of this key, after the first one: `begin` is awaited before that, `wait` after."""

    key: str
    begin: Callable[[], Awaitable[None]]
    wait: Callable[[], Awaitable[None]]


class PersonAgents(Agents):
    """The agents of the project, with a person in the place of the one that executes the steps of a plan."""

    def __init__(self, settings: Settings, person: Person) -> None:
        super().__init__(settings.agents, settings.root, tools=offered_to_agents(settings.tools))
        self._person = person

    def agent(
        self,
        name: str | None,
        *,
        models: ModelsOf | None = None,
        ask: Ask | None = None,  # noqa: ARG002 - nobody is asked
        saw: Saw | None = None,  # noqa: ARG002 - a person's view has no trajectory
    ) -> TaskAgent:
        """Like `Agents.agent`."""
        if name is not None:
            self.source(name)
        return PersonAgent(self.source, self._breaker, models, self._person)


class PersonAgent(TaskAgent):
    """Opens the page of a plan, and then waits until the person has done the rest."""

    def __init__(
        self,
        source: Callable[[str], AgentSource],
        breaker: Callable[[str], Breaker | None],
        models: ModelsOf | None,
        person: Person,
    ) -> None:
        super().__init__(source, breaker, models=models)
        self._person = person

    async def propose(self, plan: Plan, history: History, observe: Sight) -> Step | None:
        """Like `TaskAgent.propose`."""
        if plan.key != self._person.key:
            return await super().propose(plan, history, observe)
        if not history:
            await self._person.begin()
            return plan.steps[0]
        await self._person.wait()
        return None
