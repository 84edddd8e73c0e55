"""The one place where concrete classes are chosen."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harness.agents.registry import Agents, TaskAgent
from harness.browser import Browsers, Endpoints, PlaywrightSession, SessionRequest, Storage, StorageState, wants_webmcp
from harness.engine import run_task
from harness.environment.channel import SlotPlaceholders
from harness.environment.channels import Channels
from harness.environment.memory import MemoryStore
from harness.environment.ownership import is_back
from harness.environment.reset import StateReset
from harness.environment.services import Services
from harness.environment.slots import Slot, Slots
from harness.environment.world import TaskWorld
from harness.model.events import Event
from harness.model.outcome import ended_as_declared
from harness.model.plan import Plan, ReadyUser
from harness.model.ports import Ports, Stage, not_recorded
from harness.model.record import TaskEnding, TaskResult
from harness.model.settings import LOGINS, Settings
from harness.model.tool_settings import offered_to_agents
from harness.recovery.failure import Failed, Failure
from harness.reporting.archive import DirectoryArchive, PassedEvidence
from harness.reporting.telemetry.stream import in_task, of_all_tasks
from harness.reporting.trajectory import Trajectories
from harness.reporting.workspace import unusable_folders
from harness.resilience import SystemClock
from harness.resilience.events import Emit, ResilienceEvent, ServiceChanged, discard
from harness.runner.circuits import RunCircuits
from harness.runner.compile import recovers
from harness.runner.ground import NO_INTERACTION, Episodes, Ground, Interaction, NoFaults, routing_of
from harness.runner.inference import Inference, TaskInference
from harness.runner.logins import LoginArchive, Logins
from harness.runner.needs import Needs
from harness.runner.proposal_notes import ProposalNotes
from harness.runner.scratch import Scratch
from harness.runner.shared_services import OpenServices, own_services
from harness.runner.toolbox import RunTools
from harness.spec.task import TaskSpec
from harness.task_secrets import LearnedSecrets
from harness.values import replace

if TYPE_CHECKING:
    from harness.browser.seats import Seats
    from harness.browser.write_gate import WriteGate
    from harness.runner.bridging import BridgeAddress, ServesAgents
    from harness.runner.commands import RunCommands, TaskCommands


class Harness:
    """Everything that the tasks of one process share: services, browsers, memory, archive."""

    bridge: ServesAgents | None = None
    """Where agents that run elsewhere take tasks; None in most runs."""
    before_write: Callable[[Plan], Awaitable[None]] = staticmethod(not_recorded)
    """As in `Ports`."""
    commands: RunCommands | None = None
    """The agents that are processes of their own; None in most runs."""

    def __init__(
        self, settings: Settings, run_id: str, tell: Emit = discard, open_services: OpenServices = own_services
    ) -> None:
        """`tell` receives the events of circuits and services, on the loop's thread. Raises ValueError or OSError."""
        if found := unusable_folders(settings):
            raise OSError("; ".join(found))
        self.settings, self.clock, self._tell = settings, SystemClock(), tell
        # The sites come first, since the actors ask for their hosts and circuits, and the records before the actors,
        # since browsers keep their profiles in the scratch folder. Nothing is started here but the reaper of that
        # folder: services and browsers begin with the first task that needs them.
        self._make_sites(run_id, settings.root / ".harness", open_services)
        self._make_records(run_id)
        self._make_actors(run_id)
        self._started = asyncio.Lock()
        self._ready = False
        self._services_begun: asyncio.Task[Sequence[Failure]] | None = None
        self._browser_begun: asyncio.Task[None] | None = None
        """Their start before the first task, if it was prepared."""

    def _make_sites(self, run_id: str, state: Path, open_services: OpenServices) -> None:
        """What the tasks work on: services, tools, channels, slots, logins."""
        settings, clock, tell = self.settings, self.clock, self._tell
        state.mkdir(exist_ok=True)
        self.circuits = RunCircuits(settings, clock, tell, os.environ)
        self.services = open_services(settings, clock, self._of_services)
        hosts_of, mended = self.services.hosts_of, self.circuits.tool_mended
        self.tools = RunTools(settings, run_id, clock, tell, hosts_of, self._recover, mended)
        self._needs, self._starts = Needs(settings), state / "starts" / run_id
        self._states = SlotStates(settings, self.services, self._needs, self.tools, self._recover, self._starts)
        self._slots = Slots(lambda: self.services.instances, state / "slots", clock, tell)
        self._logins = Logins(settings.root / LOGINS, settings.logins_of(run_id), clock, tell)
        self._episodes = Episodes()
        self._states.channels(0)

    def _make_records(self, run_id: str) -> None:
        """What is kept of the tasks: artifacts, evidence, trajectories, memory, without secrets."""
        settings, self._runs = self.settings, Counter[str]()
        self.archive = DirectoryArchive.of(settings, run_id)
        self.redactor = self.archive.redactor
        self._learned: defaultdict[str, LearnedSecrets] = defaultdict(LearnedSecrets)
        """World -> the secrets that its tasks have met: those of an episode share a memory."""
        self._trajectories = Trajectories(settings, run_id, self.redactor)
        passed = PassedEvidence(settings.root, run_id, self.redactor, settings.keep_previous)
        self._witness = passed.keep if settings.evidence == "all" else None
        self._scratch = Scratch(self.clock, self.archive.workspace)
        self.memory = MemoryStore(self._scratch.path / "memory.sqlite3")

    def _make_actors(self, run_id: str) -> None:
        """Who works: browsers, agents, models."""
        settings, tell, scratch = self.settings, self._tell, self._scratch
        hosts = [self.services.hosts_of(slot) for slot in range(self.services.instances)]
        ends = Endpoints.of(settings, self.circuits.endpoint, os.environ)
        self.browsers = Browsers(
            settings.browser, self.clock, ends, temp=scratch.path, guard=scratch.guard, hosts=hosts, tell=tell
        )
        self.agents = self._make_agents()
        self.inference = Inference(settings, run_id, self.clock, self.circuits, tell)

    def _make_agents(self) -> Agents:
        settings = self.settings
        return Agents(
            settings.agents, settings.root, self.circuits.agent, emit=self._tell,
            retries=recovers(settings, os.environ), tools=offered_to_agents(settings.tools),
            remote=self.bridge.agent if self.bridge else None,
        )  # fmt: skip

    async def serve_bridge(self, port: int, wait: float) -> BridgeAddress:
        """Serve agents that run elsewhere from now on; once. Raises ValueError if the port is taken, and OSError."""
        from harness.runner.bridging import BridgeHost  # few runs serve agents

        host = BridgeHost(self.settings, self.clock, self._tell, wait, self.redactor)
        self.use_bridge(host)
        return await host.start(port)

    def use_bridge(self, bridge: ServesAgents) -> None:
        """Let agents of this bridge choose the steps of the tasks whose agent is `bridge`."""
        self.bridge, self.agents.remote = bridge, bridge.agent

    def _of_services(self, event: ResilienceEvent) -> None:
        """Close the circuits of a service that is back, whoever has started it: waiting tasks need not wait longer."""
        with of_all_tasks():
            if self._ready and isinstance(event, ServiceChanged) and is_back(event):
                for host in self.services.hosts_by(event.service):
                    self.circuits.answers_again(host)
            self._tell(event)

    async def start(self) -> Sequence[Failure]:
        """Find or start the services; once. Returns the failures, which the tasks report that need those services."""
        async with self._started:
            if self._ready:
                return ()
            begun, self._services_begun = self._services_begun, None
            failures = await (begun or self.services.begin())
            self._ready = True
            return failures

    async def start_all(self) -> None:
        """Find or start the services. Raises Failed if one of them is not ready."""
        if failures := await self.start():
            raise Failed(failures[0])
        await self.services.await_ready()

    async def prepare(self, spec: TaskSpec) -> None:
        """Begin to start what the first task needs, and return. The task itself reports what fails."""
        if not (self._ready or self._started.locked()):
            self._services_begun = asyncio.create_task(self.services.begin())
            self._browser_begun = asyncio.create_task(self._prepare_browser(spec, self._services_begun))

    async def _prepare_browser(self, spec: TaskSpec, services: asyncio.Task[Sequence[Failure]]) -> None:
        await self.browsers.prepare(None)
        await asyncio.wait([services])  # the ports of its hosts are final then
        if services.cancelled() or services.exception() or spec.faults or self.settings.faults:
            return  # with faults the task may have other hosts, and so another browser
        settings, temp = self.settings, self._scratch.path
        await self.browsers.prepare(
            SessionRequest(
                world="",
                folder=temp,
                uploads=temp,
                hosts=dict(self.services.hosts_of(0)),
                allowed_domains=spec.allowed_domains,
                webrtc=settings.browser.webrtc,
                webmcp=wants_webmcp(spec, settings),
            )
        )

    async def run(
        self, plan: Plan, emit: Callable[[Event], None], interaction: Interaction = NO_INTERACTION
    ) -> TaskResult:
        """Run one task. Failures are in the result; only a cancellation before it began is raised."""
        plan = self._in_a_fresh_world(plan)
        plan.learned.learn_from(self._learned[plan.world])
        inference = self.inference.of(plan, emit)
        notes = ProposalNotes.of(plan, self.clock)
        verdict: TaskEnding | None = None
        models, saw = (notes.models(inference.client), notes.saw) if notes else (inference.client, None)
        commands = self._commands(inference, plan.key)
        agent = self.agents.agent(None, models=models, ask=interaction.ask, saw=saw)
        agent.make_command = commands.make if commands else None
        try:
            with in_task(plan, wake=emit):
                async with self._ground(plan) as empty, self.tools.task(plan, emit, empty.slot) as tools:
                    begun = self._episodes.begin(plan, replace(empty, tools=tools, commands=commands))
                    ground = await self._logged_in(plan, begun)
                    result = await run_task(plan, self._ports(plan, agent, emit, interaction, ground, inference))
            well, key = ended_as_declared(plan.spec, result), (result.alternative or result).key
            more = [*inference.finish(well=well), *(self._episodes.hand_on(plan, key, ground.left) if well else ())]
            result = replace(result, warnings=(*result.warnings, *more))
            lost = self._trajectories.kept(plan, result, notes.noted) if notes else ()
            verdict = result.verdict
            return replace(result, warnings=(*result.warnings, *lost))
        finally:
            self._learned[plan.world].learn_from(plan.learned)
            await agent.close(verdict)
            await inference.close()

    def _commands(self, inference: TaskInference, key: str) -> TaskCommands | None:
        """The agents of a task that are processes; None if the project has none."""
        if not any(each.command for each in self.settings.agents.values()):
            return None
        from harness.runner.commands import RunCommands, TaskCommands  # few runs start agents

        if self.commands is None:
            redact, learn = self._redacted, self.redactor.learn
            self.commands = RunCommands(self.settings, redact, learn, self.clock, self._tell)
        return TaskCommands(self.commands, inference, key)

    def _redacted(self, value: Any, plan: Plan) -> Any:
        """A JSON value as the agents of a task see it."""
        return self.redactor.plus(plan.secrets).json(value)

    async def _logged_in(self, plan: Plan, ground: Ground) -> Ground:
        """The ground of a task that names logins, with the browser storages of users who are logged in."""
        if ground.trouble is not None:
            return ground
        place = plan.world if self.settings.isolation == "world" else f"slot {ground.slot}"
        for user in plan.users:
            if user.login is None or user.name in ground.storages:  # the episode's last task has left the same login
                continue
            try:
                storage = await self._logins.storage(user.login, place, partial(self._play_login, plan, ground, user))
            except Failed as failed:
                return replace(ground, trouble=failed.failure)
            ground = replace(ground, storages={**ground.storages, user.name: storage})
        return ground

    async def _play_login(
        self, task: Plan, ground: Ground, user: ReadyUser, plan: Plan, storage: StorageState | None
    ) -> tuple[TaskResult, Storage | None]:
        """Play a login or its check in the world of the task (logins.Play)."""
        plan = replace(plan, world=task.world)
        tools = self.tools.of(plan, lambda _: None, ground.slot)
        storages = {"": storage} if storage is not None else {}
        inside = Ground(ground.slot, of_login=True, storages=storages, tools=tools, needed=ground.needed)
        inference = self.inference.of(plan, lambda _: None)
        agent = self.agents.agent(None, models=inference.client)
        try:
            ports = self._ports(plan, agent, lambda _: None, NO_INTERACTION, inside, inference)
            assert user.login is not None
            archive = LoginArchive(self.archive, quiet=plan.key == user.login.check.key)
            witness = ports.witness if plan.key == user.login.plan.key else None
            result = await run_task(plan, replace(ports, archive=archive, witness=witness))
            left = inside.left.get((plan.key, ""))
            return result, left if isinstance(left, Storage) else None
        finally:
            await agent.close()
            await tools.close()
            await inference.close()

    @asynccontextmanager
    async def _ground(self, plan: Plan) -> AsyncIterator[Ground]:
        """The resources of the task; if a state is shared, a reset slot of its own. The task's time has not begun."""
        episode, needed = plan.spec.episode_id is not None, self._needs.of(plan)
        if not self.settings.shared_state:
            yield Ground(episode=episode, needed=needed)
            return
        one_state = episode and self.settings.isolation == "reset"
        try:
            await self.start()
            slot = await self._slots.take(plan.world, episode=one_state, task=plan.key)
        except Failed as failed:
            yield Ground(trouble=failed.failure)
            return
        more = False
        try:
            ground = Ground(slot.number, await self._not_reset(plan.world, slot, needed), episode, needed=needed)
            more = one_state and not plan.last_of_episode and ground.trouble is None
            yield ground
        finally:
            self._slots.give_back(slot, plan.world, more=more)

    async def occupy(self, world: str, name: str) -> tuple[Slot | None, Mapping[str, int]]:
        """Take a slot for the ordinary test of that name, reset, and its hosts; `release_slot` frees it. Raises Failed.

        The slot is None if no state is shared.
        """
        await self.start_all()
        if not self.settings.shared_state:
            return None, self.services.hosts
        slot = await self._slots.take(world, episode=False, task=name)
        try:
            if trouble := await self._not_reset(world, slot):
                raise Failed(trouble)
        except BaseException:
            await self.release_slot(slot, world)
            raise
        return slot, self.services.hosts_of(slot.number)

    async def release_slot(self, slot: Slot, world: str) -> None:
        """Release the slot of an ordinary test."""
        self._slots.give_back(slot, world, more=False)

    async def _not_reset(self, world: str, slot: Slot, needed: frozenset[str] | None = None) -> Failure | None:
        """Reset the state of a slot, if the isolation is by resets; returns the failure, if any."""
        if self.settings.isolation != "reset" or slot.goes_on:
            return None
        try:
            await self._states.reset(slot.number, world, needed)
        except Failed as failed:
            slot.occupy("")
            return failed.failure
        slot.occupy(world)
        return None

    async def forget_python(self) -> None:
        """Load channels and agents anew with the next task: the project's Python has changed."""
        self.agents = self._make_agents()
        await self._states.forget()

    def _in_a_fresh_world(self, plan: Plan) -> Plan:
        """Give a task that runs again (a rerun, `execute_task` twice) a world without the traces of its first run."""
        count = 1 if plan.spec.episode_id else self._runs[plan.world] + 1
        self._runs[plan.world] = count
        return plan if count == 1 else replace(plan, world=f"{plan.world}.{count}", trial=plan.trial + count - 1)

    def _ports(
        self, plan: Plan, agent: TaskAgent, emit: Callable[[Event], None], interaction: Interaction, ground: Ground,
        inference: TaskInference,
    ) -> Ports:  # fmt: skip
        random = Random(plan.spec.seed).random
        breaker = self.circuits.of(plan)
        explain = partial(self.services.explain, slot=ground.slot, needed=ground.needed)
        crashed = partial(self.services.crashed, self.clock.now(), ground.slot, ground.needed)
        recover, stage = partial(self._recover, ground.slot), partial(self._stage, ground, inference)
        ports = Ports(
            stage, agent, self.archive, self.clock, emit, random, explain, breaker, recover,
            partial(self.services.await_ready, ground.slot, ground.needed), inference.calls, ask=interaction.ask,
            repair=interaction.repair, policy=agent.policy, witness=None if plan.in_full else self._witness,
            tool_breaker=self.circuits.tool_of(plan), before_write=self.before_write, crashed=crashed,
        )  # fmt: skip
        if self.bridge is not None:
            ports = self.bridge.joined(ports)
        if ground.commands is not None:
            told = ground.commands.told_by_hooks(ports.agent_events)
            ports = replace(ports, agent_events=told, agent_warnings=ground.commands.warnings_of)
        return replace(ports, tool_calls=ground.tools.calls) if ground.tools else ports

    async def _recover(self, slot: int, url: str) -> None:
        """Recover the service at a URL; a failure is ignored, since the next attempt reports it."""
        name = self.services.name_of(urlsplit(url).hostname or "", slot)
        if name is not None:
            with contextlib.suppress(Failed):
                await self.services.recover(name)

    async def _stage(self, ground: Ground, inference: TaskInference, plan: Plan, folder: Path) -> Stage:
        if ground.trouble is not None:
            raise Failed(ground.trouble)
        await self.start()
        await self.services.await_ready(ground.slot, ground.needed)
        if ground.commands is not None:
            ground.commands.folders[plan.key] = folder
        world = TaskWorld(
            plan,
            self.memory,
            self._states.usable_channels(ground.slot, ground.needed),
            self.clock,
            self.settings.memory.channel,
            put_back=self.settings.isolation != "none",
        )
        routing, gate = await routing_of(plan, world.memory), self._gate(plan)
        request = replace(
            SessionRequest.of(plan, self.settings, folder), hosts=dict(self.services.hosts_of(ground.slot)),
            storage=ground.storages.get(plan.user), leave=ground.leave_for(plan, plan.user), routing=routing, gate=gate,
        )  # fmt: skip
        inference.found_at(plan, request.hosts)
        if not plan.faults:
            stage = Stage(await self._session(plan, request, ground), world, NoFaults())
        else:
            stage = await self._stage_with_faults(plan, request, world, ground, inference)
        return replace(stage, toolbox=ground.tools.box(plan, stage.session, stage.injector)) if ground.tools else stage

    async def _session(self, plan: Plan, request: SessionRequest, ground: Ground) -> PlaywrightSession | Seats:
        """Open the browser's session; an agent that drives it itself is told where. Raises Failed."""
        session = await self.browsers.open_session(request)
        if ground.commands is not None and request.debugged:
            ground.commands.contexts[plan.key] = await session.debugged(), session
        return await self._seats(plan, request, ground, session) if plan.others else session

    async def _seats(self, plan: Plan, request: SessionRequest, ground: Ground, first: PlaywrightSession) -> Seats:
        """Open the sessions of the users after the first. Raises Failed, with none left open."""
        from harness.browser.seats import Seats  # few tasks have several users

        seats = {plan.user: first}
        try:
            for number, user in enumerate(plan.others, 1):
                own = request.of_user(user, number, ground.storages.get(user.name))
                own = replace(own, leave=ground.leave_for(plan, user.name))
                seats[user.name] = await self.browsers.open_session(own)
        except BaseException:
            await Seats(seats).close()
            raise
        return Seats(seats)

    def _gate(self, plan: Plan) -> WriteGate | None:
        """The gate for the writes of the task's agents; None if their policies let all leave. Raises Failed."""
        if not self.agents.agent(None).restricts_writes(plan):
            return None
        from harness.browser.write_gate import WriteGate

        return WriteGate()

    async def _stage_with_faults(
        self, plan: Plan, request: SessionRequest, world: TaskWorld, ground: Ground, inference: TaskInference
    ) -> Stage:
        from harness.faults.injector import FaultInjector, Where
        from harness.faults.network import prepare
        from harness.faults.state import SiteTarget, StateTarget

        network = await prepare(plan.faults, hosts=self.services.hosts_of(ground.slot), clock=self.clock)
        request = replace(
            request, hosts=network.hosts, on_request_failed=network.request_failed, tls_problem=network.tls_problem
        )
        inference.found_at(plan, network.hosts)
        if ground.tools:
            ground.tools.found_at(network.hosts)
        hands = StateTarget(world, self.settings.root, partial(self.services.folder_of, slot=ground.slot))
        slot, services = ground.slot, self.services
        sites = SiteTarget(partial(services.ports, slot=slot), partial(services.end, slot=slot))
        where = Where(network, hands, sites)
        injector = FaultInjector(plan.faults, where, self.clock, seed=plan.fault_seed, task=plan.task_id)
        try:
            session = await self._session(plan, request, ground)
        except BaseException:
            await injector.close()
            raise
        injector.attach(session.sabotage)
        inference.struck_by(plan, injector)
        return Stage(session, world, injector)

    async def close(self) -> None:
        """End browsers and the services that this process started. Bounded."""
        if self.bridge is not None:
            await self.bridge.close()
        if self.commands is not None:
            await self.commands.doors.close()
        begun = [task for task in (self._services_begun, self._browser_begun) if task is not None]
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
        await self.browsers.close()
        self._slots.close()
        if "PYTEST_XDIST_WORKER" not in os.environ:  # the other workers may still use them
            shutil.rmtree(self._starts, ignore_errors=True)
            self._logins.close()
        await self._states.forget()
        self.memory.close()
        await self.inference.close()
        await self.tools.close()
        self.circuits.close()
        await self.services.stop()
        self._scratch.close()


_Recover = Callable[[int, str], Coroutine[Any, Any, None]]
"""Recovers the service at a URL, as the tasks of that slot see it."""


class SlotStates:
    """The state of each slot. If no state is shared, there is only slot 0."""

    def __init__(
        self, settings: Settings, services: Services, needs: Needs, tools: RunTools, recover: _Recover, starts: Path
    ) -> None:
        """`starts` is the folder for the files as they were at the start of the run."""
        self._settings, self._services, self._needs = settings, services, needs
        self._tools, self._recover = tools, recover
        self._starts = starts if settings.isolation == "reset" else None
        self._reset = StateReset(settings.reset, settings.reset_timeout, settings.root)
        self._channels: dict[int, Channels] = {}

    def channels(self, slot: int) -> Channels:
        """The channels as the tasks in that slot see them. Raises ValueError for settings that fit no kind."""
        if slot not in self._channels:
            hosts, settings = self._services.hosts_of(slot), self._settings
            started = [name for name, each in settings.services.items() if each.command is not None]
            folders = {name: partial(self._services.folder_of, name, slot) for name in started}
            self._channels[slot] = Channels(
                settings.channels,
                hosts=hosts,
                recover=partial(self._recover, slot),
                root=settings.root,
                mark=settings.world_mark,
                starts=self._starts and self._starts / str(slot),
                call=partial(self._tools.call, slot),
                places=SlotPlaceholders(slot, hosts, folders),
            )
        return self._channels[slot]

    def usable_channels(self, slot: int, needed: frozenset[str] | None) -> Channels:
        """The channels of a task, without those of services that are down and that it does not need."""
        down = frozenset() if needed is None else self._services.down(slot) - needed
        return self.channels(slot).without(self._needs.channels_of(down))

    async def reset(self, slot: int, world: str, needed: frozenset[str] | None) -> None:
        """Reset the state of a slot before a task that needs these services; None: all of them. Raises Failed."""
        await self._services.reset(slot, needed)
        themselves = any("reset" in each.model_fields_set for each in self._settings.services.values())
        if self._reset.target is not None or not themselves:
            channels = self.usable_channels(slot, needed)
            await self._reset.run(channels, slot, self._services.hosts_of(slot), world)

    async def forget(self) -> None:
        """Load the channels anew when they are next needed: the project's Python has changed."""
        old = list(self._channels.values())
        self._channels.clear()
        await asyncio.gather(*(channels.close() for channels in old))
