"""The tools as one task has them: the port's `ToolBox`, with the ledger of its calls and their events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from msgspec import Struct

from harness.model.events import Event, ToolAnswered, ToolCalled, emit_of_call
from harness.model.plan import Plan
from harness.model.ports import Seat, Session
from harness.model.tool_settings import ToolServerSettings
from harness.model.tools import PAGE, OfferedTool, ToolAnswer, ToolCall, ToolDescription, ToolRequest
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock, Deadline
from harness.resilience.events import discard
from harness.spec.step_base import EffectClass
from harness.spec.steps import Tool
from harness.task_secrets import hidden
from harness.tools.calls import CallTerms, ServerCall, ToolTry, Way, straight
from harness.tools.catalogue import effect_in_page, effect_of, find
from harness.tools.exchange import ToolServerError
from harness.tools.schemas import misfit
from harness.tools.server import ToolServer
from harness.tools.verdicts import VERDICTS, WAITS, CallFacts, failure_of, no_server, refused
from harness.values import replace

_ServerOf = Callable[[str], ToolServer]
"""Name of a server in the settings -> the server, for this task. It connects to nothing."""
_NO_SETTINGS: Final = ToolServerSettings()
_NOTHING: Final[Mapping[str, str]] = {}


class BoxTerms(Struct, frozen=True):
    """What the tools of a task need of the run."""

    clock: Clock
    emit: Callable[[Event], None]
    meta: Mapping[str, str] = _NOTHING
    again: bool = True
    """Whether calls are tried again at all (RESILIENCE_ENABLED)."""


class TaskToolBox:
    """The tools of one task (ports.ToolBox). Use it on the harness's loop."""

    def __init__(
        self, plan: Plan, settings: Mapping[str, ToolServerSettings], server: _ServerOf, terms: BoxTerms
    ) -> None:
        self._plan = plan
        self._settings = settings
        self._server = server
        self._terms = terms
        self._way: Way = straight
        self._session: Session | None = None
        self._of_page: tuple[ToolDescription, ...] = ()
        self._learnt: set[str] = set()
        """The servers whose tools an agent has waited for."""
        self._ledger = ToolLedger(plan, terms.clock, terms.emit)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The ledger: the calls so far, in the order in which they began."""
        return self._ledger.calls

    def attach(self, session: Session) -> None:
        """Take the pages of this session as the server `page`."""
        self._session = session

    def struck_by(self, way: Way) -> None:
        """Let each try of a call go this way: the faults of the task."""
        self._way = way

    # What may be called.

    def offered(self) -> tuple[OfferedTool, ...]:
        return tuple(
            OfferedTool(name, tool, self._effect(name, tool.name, tool, None))
            for name, settings in self._settings.items()
            if settings.agents
            for tool in self._known_tools(name)
            if settings.allows(tool.name)
        )

    async def learn(self, within: float) -> None:
        offered = [name for name, settings in self._settings.items() if settings.agents]
        if PAGE in offered:
            with contextlib.suppress(Failed):
                await self.look_at_page(within)
        new = [name for name in offered if name != PAGE and name not in self._learnt]
        self._learnt.update(new)
        listing = [asyncio.ensure_future(self._listed_if_it_can(name, within)) for name in new]
        if listing:
            await asyncio.wait(listing, timeout=within)

    async def _listed_if_it_can(self, name: str, within: float) -> None:
        with contextlib.suppress(Failed, ToolServerError):
            await self._listed(name, within)

    def _known_tools(self, name: str) -> tuple[ToolDescription, ...]:
        if name == PAGE:
            return self._of_page
        server = self._server(name)
        server.begin()
        return server.catalogue.tools

    async def look_at_page(self, within: float, awaited: str | None = None) -> tuple[ToolDescription, ...]:
        """Ask the page for its tools, for `offered` and for checks; it may take a moment to offer the awaited one.

        Raises Failed.
        """
        self._of_page = await self._page().page_tools(within, awaited)
        return self._of_page

    def _page(self) -> Seat:
        if self._session is None:
            raise Failed(Failure("INVALID_INPUT", f"Tool server `{PAGE}`: there is no page here, outside a task"))
        return self._session.of()

    async def effect_of(self, step: Tool, within: float) -> EffectClass:
        name, settings = step.server, self._settings.get(step.server, _NO_SETTINGS)
        if name != PAGE and (declared := step.effect or settings.declared_effect(step.tool)):
            return declared
        try:
            tools = await (self.look_at_page(within, step.tool) if name == PAGE else self._listed(name, within))
        except (Failed, ToolServerError):  # the call itself will tell
            tools = ()
        return self._effect(name, step.tool, find(tools, step.tool), step.effect)

    def _effect(
        self, server: str, tool: str, described: ToolDescription | None, declared: EffectClass | None
    ) -> EffectClass:
        """The effect of a call. A tool that nobody has described has no hints, and is a `write` by itself."""
        settings = self._settings.get(server, _NO_SETTINGS)
        hints = (described or ToolDescription(tool)).hints
        if server == PAGE:
            return effect_in_page(tool, hints, settings, declared)
        return declared or effect_of(tool, hints, settings)

    async def _listed(self, name: str, within: float) -> tuple[ToolDescription, ...]:
        """The tools of a server, which is connected to if nobody knows them yet. Raises ToolServerError, Failed."""
        server, until = self._known(name, "tools/list"), Deadline.after(within, self._terms.clock.now())
        if not server.catalogue.known and not server.phase.permanent:
            with server.in_use():
                await server.connected(within)
                await server.know_tools(until.left(self._terms.clock.now()))
        return server.catalogue.tools

    def _known(self, name: str, tool: str) -> ToolServer:
        """The server of that name. Raises Failed."""
        if name not in self._settings:
            raise no_server(name, tool, self._settings)
        return self._server(name)

    # Calls.

    async def call(self, request: ToolRequest, within: float) -> ToolAnswer:
        until = Deadline.after(within, self._terms.clock.now())
        with self._ledger.entry(request) as entry:
            answer = await self._call(request, until, entry)
            entry.answer = answer
            return answer

    async def _call(self, request: ToolRequest, until: Deadline, entry: CallEntry) -> ToolAnswer:
        settings = self._settings.get(request.server, _NO_SETTINGS)
        if not settings.allows(request.tool):
            where = f"`allow` of [tool.harness.tools.{request.server}]"
            advice = f"Add it to {where} if it may be called, or call another one."
            raise refused("POLICY_TOOL", request, f"{where} does not name it", advice)
        if request.server == PAGE:
            return await self._call_page(request, settings, until, entry)
        server = self._known(request.server, request.tool)
        terms = CallTerms(self._terms.clock, self._way, self._terms.meta, self._terms.again)
        # The tries of a step's call are events of the task.
        emit = discard if (step := request.step) is None else partial(emit_of_call, self._terms.emit, self._plan, step)
        call = ServerCall(server, request, terms, until, emit)
        try:
            return await call.run()
        finally:
            entry.tries, entry.will_repeat = call.tries, call.will_repeat

    async def _call_page(
        self, request: ToolRequest, settings: ToolServerSettings, until: Deadline, entry: CallEntry
    ) -> ToolAnswer:
        """Call a tool of the page, once: it is the task's rules that answer when the page does not."""
        session, clock = self._page(), self._terms.clock
        tool = find(await self.look_at_page(until.left(clock.now()), request.tool), request.tool)
        if tool is not None and (wrong := misfit(tool.parameters, request.arguments)):
            raise refused("TOOL_INVALID", request, f"its arguments do not fit its schema: {wrong}")
        within = min(settings.limit_of(request.tool), until.left(clock.now()))
        entry.tries = 1
        call = partial(session.call_page_tool, request.tool, request.arguments, within, request.effect)
        try:
            return await self._way(ToolTry(request, call, within))
        except ToolServerError as error:  # a fault has struck it
            facts = CallFacts(request, 1, VERDICTS[error.problem].acted)
            raise failure_of(error, facts, "") from error


# The ledger of a task's calls of tools: each call has an entry from its begin, and events at its begin and end.

_LONGEST_MESSAGE = 2_000
"""Characters of the text of a tool that says that it failed which the entry keeps as its message."""


class CallEntry:
    """What is known of a call when it ends."""

    def __init__(self) -> None:
        self.answer: ToolAnswer | None = None
        self.failure: Failure | None = None
        self.tries = 0
        self.will_repeat = False
        """Whether its last error is one after which it is tried again, if there is time."""

    def facts(self) -> dict[str, Any]:
        """The fields of the ledger's entry that the end of the call decides."""
        told: dict[str, Any] = {"tries": self.tries}
        if (failure := self.failure) is not None:
            details = failure.details
            told |= {"outcome": "failed", "code": failure.code, "message": failure.message}
            told |= {"exit_code": details.get("exit_code"), "stderr": details.get("stderr", "")}
            return told | {"retryable": self.will_repeat, "max_retries": WAITS.retries if self.will_repeat else 0}
        if (answer := self.answer) is None:
            return told
        if answer.is_error:
            told |= {"code": "TOOL_FAILED", "message": hidden(answer.text)[:_LONGEST_MESSAGE]}
        return told | {"outcome": "error" if answer.is_error else "answered", "result": answer.document}


class ToolLedger:
    """The calls of one task, in the order in which they began."""

    def __init__(self, plan: Plan, clock: Clock, emit: Callable[[Event], None]) -> None:
        self._plan = plan
        self._clock = clock
        self._emit = emit
        self._calls: list[ToolCall] = []

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(self._calls)

    @contextmanager
    def entry(self, request: ToolRequest) -> Iterator[CallEntry]:
        """The entry of a call that begins now and ends with this; without an answer or failure it was cancelled."""
        self._plan.learned.learn_named(request.arguments)
        began, at, place, entry = self._clock.now(), self._clock.wall(), len(self._calls), CallEntry()
        call = ToolCall(
            id=f"tool-{place + 1}",
            server=request.server,
            tool=request.tool,
            arguments=request.arguments,
            effect=request.effect,
            step=request.step,
            at=at,
            seconds=0.0,
            tries=0,
            outcome="cancelled",
        )
        self._calls.append(call)
        self._emit(ToolCalled(self._plan, request.server, request.tool, request.step, at))
        try:
            yield entry
        except Failed as failed:
            entry.failure = failed.failure
            raise
        finally:
            if entry.answer is not None:
                self._plan.learned.learn_named(entry.answer.document)
            ended = replace(call, seconds=round(self._clock.now() - began, 3), **entry.facts())
            self._calls[place] = ended
            self._emit(ToolAnswered(self._plan, ended))
