"""The one place where concrete classes are chosen (DESIGN 2)."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from urllib.parse import urlsplit

from harness.agents.registry import Agents
from harness.browser import Browsers, Endpoints, SessionRequest
from harness.circuits import RunCircuits
from harness.engine import run_task
from harness.engine.ending import reached
from harness.events import Event
from harness.failure import Failed
from harness.faults import FaultInjector, Network, SiteHands, StateHands, Where, prepare
from harness.plan import Plan, new_run_id
from harness.ports import Agent, Ask, Ports, RepairHook, Stage
from harness.record import TaskResult
from harness.reporting.artifacts import DirectoryArchive
from harness.reporting.passing import PassedEvidence
from harness.reporting.redaction import Redactor
from harness.resilience import SystemClock
from harness.resilience.events import Emit, ResilienceEvent, ServiceChanged, nobody
from harness.scratch import Scratch
from harness.services import Services
from harness.services.coherence import Coherence
from harness.services.states import is_back
from harness.settings import Settings
from harness.sync import Caller, LoopThread, Pending
from harness.telemetry import in_task, of_all_tasks
from harness.world import Channels, MemoryStore, TaskWorld


@dataclass(frozen=True, slots=True)
class People:
    """Whom a task may turn to while it runs (ports.Ports)."""

    ask: Ask | None = None
    repair: RepairHook | None = None


NOBODY = People()


class Harness:
    """Everything that the tasks of one process share: services, browsers, memory, archive."""

    def __init__(self, settings: Settings, run_id: str, tell: Emit = nobody) -> None:
        """`tell` hears what happens around calls: circuits, services; on the loop's own thread."""
        state = settings.root / ".harness"
        state.mkdir(exist_ok=True)
        self.settings = settings
        self.clock = SystemClock()
        self.circuits = RunCircuits(settings, self.clock, tell, os.environ)
        self._tell = tell
        self.services = Services(
            settings.services, root=settings.root, logs=state / "logs", clock=self.clock, emit=self._of_services
        )
        self.channels = Channels(settings.channels, hosts=self.services.hosts, root=settings.root)
        self.redactor = Redactor.of(settings)
        self.archive = DirectoryArchive(settings.artifacts, run_id, self.redactor, settings.keep_previous)
        passed = PassedEvidence(settings.root, run_id, self.redactor, settings.keep_previous, reached)
        self._witness = passed.keep if settings.evidence == "all" else None
        self._scratch = Scratch(self.clock, self.archive.workspace)
        temp, guard, hosts = self._scratch.path, self._scratch.guard, self.services.hosts
        ends, root = Endpoints.of(settings, self.circuits.endpoint, os.environ), settings.root
        self.browsers = Browsers(settings.browser, self.clock, ends, root, temp=temp, guard=guard, hosts=hosts)
        self.agents = Agents(settings.agents, settings.root, self.circuits.agent)
        self.memory = MemoryStore(temp / "memory.sqlite3")
        self._coherence = Coherence(
            lambda: self.services.standings, self.circuits.of_hosts, self.clock, self._of_services
        )
        self._runs: Counter[str] = Counter()
        self._started = asyncio.Lock()
        self._ready = False

    def _of_services(self, event: ResilienceEvent) -> None:
        """A service that is there again, whoever has started it: who waits for its sites need not wait on."""
        with of_all_tasks():
            if self._ready and isinstance(event, ServiceChanged) and is_back(event):
                for host in self.settings.services[event.service].hosts:
                    self.circuits.answers_again(host)
            self._tell(event)

    async def start(self) -> None:
        """Find or start the services; once. Raises Failed."""
        async with self._started:
            if not self._ready:
                await self.services.start()
                self._coherence.begin()
                self._ready = True

    async def run(self, plan: Plan, emit: Callable[[Event], None], people: People = NOBODY) -> TaskResult:
        """Run one task. Failures are in the result; nothing is raised but cancellation before it began."""
        agent, heard = self.agents.agent(None), self._coherence.hearing(emit)
        try:
            with in_task(plan, wake=emit):
                return await run_task(self._in_a_fresh_world(plan), self._ports(plan, agent, heard, people))
        finally:
            await agent.close()

    def _in_a_fresh_world(self, plan: Plan) -> Plan:
        """A task that runs again (a rerun, `execute_task` twice) must not meet what its first run left behind."""
        if plan.spec.episode_id:
            return plan
        self._runs[plan.world] += 1
        count = self._runs[plan.world]
        return plan if count == 1 else replace(plan, world=f"{plan.world}.{count}")

    def _ports(self, plan: Plan, agent: Agent, emit: Callable[[Event], None], people: People) -> Ports:
        random = Random(plan.spec.seed).random
        explain, breaker = self.services.explain, self.circuits.of(plan)
        ask, repair, recover = people.ask, people.repair, self._recover
        return Ports(
            self._stage, agent, self.archive, self.clock, emit, random, explain, breaker, recover, ask, repair,
            witness=self._witness,
        )  # fmt: skip

    async def _recover(self, url: str) -> None:
        """The next attempt says what is wrong with a service that does not come back."""
        name = self.services.name_of(urlsplit(url).hostname or "")
        if name is not None:
            with contextlib.suppress(Failed):
                await self.services.recover(name)

    async def _stage(self, plan: Plan, folder: Path) -> Stage:
        await self.start()
        await self.services.ready()
        world = TaskWorld(plan, self.memory, self.channels, self.clock)
        network = await prepare(plan.faults, hosts=self.services.hosts, clock=self.clock)
        where = Where(network, StateHands(world, self.settings.root), SiteHands(self.services))
        injector = FaultInjector(plan.faults, where, self.clock, seed=plan.fault_seed, task=plan.task_id)
        try:
            session = await self.browsers.open_session(self._request(plan, folder, network))
        except BaseException:
            await injector.close()
            raise
        injector.attach(session.sabotage)
        return Stage(session, world, injector)

    def _request(self, plan: Plan, folder: Path, network: Network) -> SessionRequest:
        return SessionRequest(
            world=plan.world,
            hosts=network.hosts,
            allowed_domains=plan.spec.allowed_domains,
            folder=folder,
            uploads=plan.folder,
            start=plan.start,
            base_url=self.settings.base_url,
            recording=self.settings.recording,
            tracing=self.settings.tracing,
            on_request_failed=network.request_failed,
            tls_problem=network.tls_problem,
        )

    async def close(self) -> None:
        """End browsers and the services that this process started. Bounded."""
        self._coherence.end()
        await self.browsers.close()
        await self.channels.close()
        self.memory.close()
        self.circuits.close()
        await self.services.stop()
        self._scratch.close()


T = TypeVar("T")
AskHere = Callable[[str, tuple[str, ...]], str | None]
RepairHere = Callable[[Plan, str, Mapping[str, Any]], Mapping[str, Any] | bool]
"""`Ask` and `RepairHook` of the ports, on the thread that waits."""


class SyncHarness:
    """A Harness behind a sync face; for pytest, the CLI and `execute_task`."""

    def __init__(self, settings: Settings, run_id: str | None = None, tell: Emit = nobody) -> None:
        self.settings = settings
        self._tell = tell
        self.run_id = run_id or new_run_id(datetime.now(UTC), os.getpid())
        self._loop = LoopThread()
        try:
            self._harness = self._loop.call(self._make())
        except BaseException:
            self._loop.close()
            raise

    async def _make(self) -> Harness:
        return Harness(self.settings, self.run_id, self._tell)

    def start(self) -> None:
        """Find or start the services. Raises Failed."""
        self._loop.call(self._harness.start())

    def run(
        self,
        plan: Plan,
        sink: Callable[[Event], None],
        ask: AskHere | None = None,
        repair: RepairHere | None = None,
    ) -> TaskResult:
        """Run one task; events reach `sink` on this thread, and `ask` and `repair` are called on it."""
        return self.begin(lambda caller: self.play(plan, caller, ask, repair)).finish(sink)

    def begin(self, main: Callable[[Caller], Coroutine[Any, Any, T]]) -> Pending[T]:
        """Start something on the loop, such as `play`; whoever finishes it gets its events. From any thread."""
        return self._loop.begin(main)

    async def play(
        self, plan: Plan, caller: Caller, ask: AskHere | None = None, repair: RepairHere | None = None
    ) -> TaskResult:
        """Run one task, on the loop; several may run at once. Events go to the caller, which asks and repairs, too."""
        people = People(ask and partial(caller.call, ask), repair and partial(caller.call, repair))
        return await self._harness.run(plan, caller, people)

    def check_agent(self, name: str) -> None:
        """Raises ValueError when there is no agent of that name."""
        try:
            self._harness.agents.source(name)
        except Failed as failed:
            raise ValueError(failed.failure.message) from failed

    @property
    def archive(self) -> DirectoryArchive:
        return self._harness.archive

    @property
    def redactor(self) -> Redactor:
        return self._harness.redactor

    @property
    def browser(self) -> str:
        """Name, version and place of the browser, once one was started."""
        return self._harness.browsers.described

    def close(self) -> None:
        """Bounded; the process can end afterwards."""
        try:
            self._loop.call(self._harness.close())
        finally:
            self._loop.close()
