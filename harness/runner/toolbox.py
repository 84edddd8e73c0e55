"""Joins tool servers and the run: tasks and channels get their tools; nothing of them is imported before its use."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from harness.model.events import Event
from harness.model.plan import Plan
from harness.model.ports import Injector, Session, ToolBox
from harness.model.settings import Settings
from harness.model.tool_settings import shared_problem
from harness.model.tools import PAGE, OfferedTool, ToolAnswer, ToolCall, ToolRequest
from harness.recovery.failure import Failed, Failure
from harness.reporting.redaction import Redactor
from harness.reporting.telemetry.stream import of_all_tasks
from harness.resilience import Clock, Deadline
from harness.resilience.events import Emit, ResilienceEvent, ToolServerChanged, discard
from harness.runner.compile import recovers
from harness.spec.step_base import EffectClass
from harness.spec.steps import Tool
from harness.values import replace

if TYPE_CHECKING:
    from harness.tools.box import TaskToolBox
    from harness.tools.server import ToolServer
    from harness.tools.statefile import StateFile

_WORLD: Final = "pytest-taskspec/world"
"""The key in `_meta` of each call under which a server finds the world of the task."""
_STILL_SECRET: Final = 20
"""The number of tasks that have ended whose one-time passwords are still taken out of what servers say.

A server may say them later; each one more makes it slower to look for all of them.
"""
_Hosts = Mapping[str, int]
"""Host name -> port on 127.0.0.1."""
_TASK: ContextVar[TaskTools | None] = ContextVar("taskspec_tools", default=None)
"""The tools of the task that runs here, for the channels that it reads."""


class RunTools:
    """The tool servers of a run, for all tasks of the process. It is used on the harness's loop."""

    def __init__(
        self,
        settings: Settings,
        run_id: str,
        clock: Clock,
        tell: Emit,
        hosts: Callable[[int], _Hosts],
        recover: Callable[[int, str], Awaitable[None]],
        mended: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`hosts` of a slot; `recover` restarts the service behind a URL in a slot. Raises ValueError.

        `mended` is called with the name of a server whose restart a person has ordered.
        """
        if problem := shared_problem(settings.tools, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))):
            raise ValueError(problem)
        self.settings, self.clock, self._run_id, self._tell = settings, clock, run_id, tell
        self._hosts, self._recover, self._mended = hosts, recover, mended
        self._servers: dict[tuple[str, int], ToolServer] = {}
        self._redactor = Redactor.of(settings)
        self._running: list[Plan] = []
        """The tasks that run: they make one-time passwords, which are secrets from then on."""
        self._ended: deque[Plan] = deque(maxlen=_STILL_SECRET)
        self._made: set[str] = set()
        self._cleaner = self._redactor
        """What takes these secrets out, beside those that tasks had when they began."""
        self._learning = Lock()
        self.only_reads = False
        """Whether the steps of tasks call no tool that writes: nobody has agreed to it."""

    def of(self, plan: Plan, emit: Callable[[Event], None], slot: int = 0) -> TaskTools:
        """The tools for one task and the tasks inside it. `emit` receives the events of the task itself."""
        with self._learning:
            self._redactor = self._redactor.plus(plan.all_secrets)  # a server may say what any task has given it
            self._running.append(plan)
        return TaskTools(self, plan, emit, slot)

    def ended(self, plan: Plan) -> None:
        """The task makes no more one-time passwords; those that it has made stay secrets for a while."""
        with self._learning:
            self._running = [each for each in self._running if each is not plan]
            self._ended.append(plan)

    @asynccontextmanager
    async def task(self, plan: Plan, emit: Callable[[Event], None], slot: int) -> AsyncIterator[TaskTools]:
        """The tools for the task that runs within, and for the channels that it reads."""
        tools = self.of(plan, emit, slot)
        token = _TASK.set(tools)
        try:
            yield tools
        finally:
            _TASK.reset(token)
            await tools.close()

    async def call(self, slot: int, request: ToolRequest, within: float) -> ToolAnswer:
        """Call a tool for a channel, as a part of the task that runs here, if one does. Raises Failed."""
        if (task := _TASK.get()) is not None:
            return await task.own.call(request, within)
        from harness.tools.calls import CallTerms, ServerCall
        from harness.tools.verdicts import no_server

        if request.server not in self.settings.tools:
            raise no_server(request.server, request.tool, self.settings.tools)
        server, until = self.server(request.server, slot), Deadline.after(within, self.clock.now())
        return await ServerCall(server, request, CallTerms(self.clock), until, discard).run()

    def server(self, name: str, slot: int = 0) -> ToolServer:
        """The server as all tasks in that slot share it; it is connected to at its first use. Raises Failed."""
        key = (name, slot if self.is_ours(name, slot) else 0)
        if key not in self._servers:
            from harness.tools.statefile import StateFile

            file = StateFile(self.settings.root, name, slot=key[1])
            self._servers[key] = self.make(name, self._hosts(slot), slot, file)
        return self._servers[key]

    def _clean(self, text: str) -> str:
        """Redact what a server says: it may say what any task has given it. Threads call this."""
        with self._learning:
            secrets = {secret for plan in (*self._ended, *self._running) for secret in plan.all_secrets}
            if secrets != self._made:
                self._made, self._cleaner = secrets, self._redactor.plus(secrets)
            cleaner = self._cleaner
        return cleaner.text(text)

    def is_ours(self, name: str, slot: int) -> bool:
        """Whether a service of the harness is behind the address of the server."""
        url = self.settings.tools[name].url
        return url is not None and (urlsplit(url).hostname or "") in self._hosts(slot)

    def make(self, name: str, hosts: _Hosts, slot: int, file: StateFile | None = None) -> ToolServer:
        """A server with a process, or connections, of its own. `file` keeps its state for people; without, it is not of
        the run but of one task or command.
        """
        from harness.tools.places import ServerPlace, connector
        from harness.tools.server import ServerTerms, ToolServer

        table = self.settings.tools[name]
        place = ServerPlace(name, table, self.settings.root, hosts, self.clock, self._clean)
        terms = ServerTerms(
            self.clock,
            self._emit if file is not None else self._emit_own,
            connector(place, os.environ),
            partial(self._recover, slot, table.url or ""),
            partial(self._note, file),
            partial(self._restart_ordered, name, file),
        )
        return ToolServer(name, table, terms)

    def _emit(self, event: ResilienceEvent) -> None:
        with of_all_tasks():
            self._tell(event)

    def _emit_own(self, event: ResilienceEvent) -> None:
        self._emit(replace(event, own=True) if isinstance(event, ToolServerChanged) else event)

    def _restart_ordered(self, name: str, file: StateFile | None) -> bool:
        ordered = file is not None and file.restart_ordered()
        if ordered:
            self._mended(name)
        return ordered

    def _note(self, file: StateFile | None, server: ToolServer) -> None:
        if file is not None:
            from harness.tools.places import kept_state

            file.write(kept_state(server, self._run_id, self._clean))

    async def close(self) -> None:
        """End all servers: bounded, and no process of this run is left."""
        await asyncio.gather(*(server.close() for server in self._servers.values()))


class TaskTools:
    """The tools of one task and of the tasks inside it, each with its own ledger."""

    def __init__(self, run: RunTools, plan: Plan, emit: Callable[[Event], None], slot: int) -> None:
        self._run, self._plan, self._emit, self._slot = run, plan, emit, slot
        self._boxes: dict[str, TaskToolBox] = {}
        self._own: dict[str, ToolServer] = {}
        """The servers that no other task uses, since the faults of this one strike them."""
        self._hosts: _Hosts | None = None

    @property
    def own(self) -> TaskToolBox:
        """The toolbox of the outermost task, for its channels."""
        return self._box(self._plan)

    def found_at(self, hosts: _Hosts) -> None:
        """The hosts of the project as the calls find them: with faults, through their gates."""
        self._hosts = hosts

    def box(self, plan: Plan, session: Session, injector: Injector) -> ToolBox | None:
        """The toolbox of a task with an open session; None if the project names no servers and no step calls a tool."""
        if not (self._run.settings.tools or any(isinstance(step, Tool) for step in plan.spec.steps)):
            return None
        box = self._box(plan)
        box.attach(session)
        if plan.faults:
            from harness.tools.struck import StrikesTools, StruckWay

            if isinstance(injector, StrikesTools):
                box.struck_by(StruckWay(injector, self._run.clock))
        if self._run.only_reads:
            return ReadingToolBox(box)
        return box

    def _box(self, plan: Plan) -> TaskToolBox:
        if plan.key not in self._boxes:
            from harness.tools.box import BoxTerms, TaskToolBox

            settings = self._run.settings
            emit = self._emit if plan.key == self._plan.key else unheard
            meta = {_WORLD: plan.world} if settings.isolation == "world" else {}
            terms = BoxTerms(self._run.clock, emit, meta, recovers(settings, os.environ))
            self._boxes[plan.key] = TaskToolBox(plan, settings.tools, partial(self._server, plan), terms)
        return self._boxes[plan.key]

    def _server(self, plan: Plan, name: str) -> ToolServer:
        if not self._has_own(plan, name):
            return self._run.server(name, self._slot)
        if name not in self._own:
            self._own[name] = self._run.make(name, self._hosts or {}, self._slot)
        return self._own[name]

    def _has_own(self, plan: Plan, name: str) -> bool:
        """Whether the faults of the task strike the server or the way to it: other tasks must not suffer from that."""
        if not plan.faults or self._run.settings.tools[name].url is not None:
            return bool(plan.faults)
        from harness.spec.faults import ToolFault

        return any(isinstance(fault, ToolFault) and fault.server in (None, name) for fault in plan.faults)

    def calls(self, plan: Plan) -> tuple[ToolCall, ...]:
        """The calls of tools that a task has made so far."""
        return self._boxes[plan.key].calls if plan.key in self._boxes else ()

    async def close(self) -> None:
        """End the servers that only this task has used. Bounded; it never raises."""
        await asyncio.gather(*(server.close() for server in self._own.values()))
        self._run.ended(self._plan)


def unheard(_event: Event) -> None:
    """A task inside another one emits no events."""


# The tools of a task whose steps are only tried: those that write are not called, since nobody has agreed to it.

_HELD_BACK = "POLICY_WRITE"
_AGREE = "With `--yes` the command calls tools that write, too. Of one that reads, `effects` of its server can say so."


class ReadingToolBox:
    """A toolbox (`ports.ToolBox`) that calls no tool of a server that writes."""

    def __init__(self, tools: ToolBox) -> None:
        self._tools = tools

    def offered(self) -> tuple[OfferedTool, ...]:
        """The tools that agents may call."""
        return self._tools.offered()

    async def learn(self, within: float) -> None:
        """Wait until the tools that agents are offered are known."""
        await self._tools.learn(within)

    async def effect_of(self, step: Tool, within: float) -> EffectClass:
        """The effect of the call."""
        return await self._tools.effect_of(step, within)

    async def call(self, request: ToolRequest, within: float) -> ToolAnswer:
        """Call the tool, if it does not write. Raises Failed."""
        if request.effect == "write" and request.server != PAGE:  # what a page sends is judged by its host
            name = f"{request.server}.{request.tool}"
            raise Failed(Failure(_HELD_BACK, f"The tool {name} writes, so it was not called", advice=_AGREE))
        return await self._tools.call(request, within)
