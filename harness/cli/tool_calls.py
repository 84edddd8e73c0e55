"""Connections that `harness tools` makes to tool servers: their tools, and one call by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from harness.cli.ending import fail
from harness.environment.ownership import LOGS, ServiceState
from harness.environment.status import statuses
from harness.model.settings import Settings
from harness.model.tool_settings import ToolServerSettings
from harness.model.tools import ToolAnswer, ToolDescription, ToolRequest
from harness.recovery.failure import Failed
from harness.reporting.files import printable, visible
from harness.reporting.tables import columns
from harness.resilience import Deadline, SystemClock
from harness.resilience.events import discard
from harness.runner.toolbox import RunTools
from harness.spec.names import how_many
from harness.spec.step_base import EffectClass
from harness.tools.calls import CallTerms, ServerCall
from harness.tools.catalogue import effect_of, find
from harness.tools.exchange import ToolServerError
from harness.tools.server import ToolServer

_LOG_LINES = 5
"""The number of lines of a dead server's log that are shown, the last ones."""
_DESCRIPTION = 100


def effect_and_source(tool: ToolDescription, settings: ToolServerSettings) -> tuple[EffectClass, str]:
    """The effect of a tool, and what says so: `effects` of the settings, the server's hint, or nobody."""
    effect = effect_of(tool.name, tool.hints, settings)
    if settings.declared_effect(tool.name):
        return effect, "by `effects`"
    hinted = tool.hints.read_only or tool.hints.idempotent
    return effect, "its server says so" if hinted else "nothing says otherwise"


class ListedServer(Struct, frozen=True):
    """A server with its tools, or why it has none to show."""

    name: str
    settings: ToolServerSettings
    introduced: str = ""
    tools: tuple[ToolDescription, ...] = ()
    problem: str = ""

    def effect_of(self, tool: ToolDescription) -> tuple[EffectClass, str]:
        """The effect of one of its tools, and what says so."""
        return effect_and_source(tool, self.settings)

    def lines(self) -> list[str]:
        """The server and a line for each tool: name, effect, where that comes from, description."""
        if self.problem:
            return [self.problem]
        table = [f"  {line}" for line in columns(list(map(self._row, self.tools)))]
        introduced = f" ({self.introduced})" if self.introduced else ""
        return [f"{self.name}: {how_many(len(self.tools), 'tool')}{introduced}", *table]

    def _row(self, tool: ToolDescription) -> tuple[str, ...]:
        effect, source = self.effect_of(tool)
        allowed = "" if self.settings.allows(tool.name) else "not allowed: "
        return printable(tool.name), effect, f"({source})", f"{allowed}{printable(tool.description)[:_DESCRIPTION]}"

    def as_json(self) -> dict[str, Any]:
        """The same as plain JSON, with the schemas of the arguments."""
        found: dict[str, Any] = {"server": self.name, "introduced": self.introduced, "problem": self.problem}
        return {**found, "tools": [self._tool_document(tool) for tool in self.tools]}

    def _tool_document(self, tool: ToolDescription) -> dict[str, Any]:
        effect, source = self.effect_of(tool)
        return {
            "name": tool.name,
            "description": tool.description,
            "effect": effect,
            "effect_from": source,
            "allowed": self.settings.allows(tool.name),
            "parameters": dict(tool.parameters),
        }


class Called(Struct, frozen=True):
    """A call by hand that was answered."""

    request: ToolRequest
    source: str
    """What says what effect it has."""
    answer: ToolAnswer

    def as_json(self) -> dict[str, Any]:
        asked, answer = self.request, self.answer
        told = {"server": asked.server, "tool": asked.tool, "effect": asked.effect, "effect_from": self.source}
        return {**told, "seconds": round(answer.seconds, 3), "is_error": answer.is_error, "result": answer.document}


async def listed(settings: Settings, names: Sequence[str], within: float | None) -> tuple[ListedServer, ...]:
    """Connect to servers side by side and ask each for its tools; a problem of one is its own."""
    hosts, away = await _ways(settings, names)
    async with _servers(settings, [name for name in names if name not in away], hosts) as servers:
        found = {each.name: each for each in await asyncio.gather(*(_list_one(settings, s, within) for s in servers))}
    found |= {name: ListedServer(name, settings.tools[name], problem=f"{name}: {why}") for name, why in away.items()}
    return tuple(found[name] for name in names)


async def _list_one(settings: Settings, server: ToolServer, within: float | None) -> ListedServer:
    table = settings.tools[server.name]
    try:
        await _know(server, within or table.ready_timeout)
    except (ToolServerError, Failed) as error:
        return ListedServer(server.name, table, problem=_problem(server, error))
    info = server.info
    introduced = f"{printable(f'{info.name} {info.version}')}, MCP {info.protocol}" if info else ""
    if not server.catalogue.known:
        return ListedServer(
            server.name, table, introduced, problem=f"{server.name}: it is there, but does not list its tools"
        )
    return ListedServer(server.name, table, introduced, server.catalogue.tools)


class CallByHand(Struct, frozen=True):
    """One call of a tool that a person wants."""

    settings: Settings
    server: str
    tool: str
    arguments: Mapping[str, Any]
    within: float | None
    redact: Callable[[str], str]

    async def made(self, agreed: Callable[[EffectClass, str], None]) -> Called:
        """Connect, tell the effect, and call. `agreed` ends the command if nobody agrees. It ends for a failure."""
        table = self.settings.tools[self.server]
        if not table.allows(self.tool):
            fail(f"{self.server}.{self.tool} was not called: `allow` of [tool.harness.tools.{self.server}] forbids it")
        hosts, away = await _ways(self.settings, (self.server,))
        if away:
            fail(away[self.server])
        async with _servers(self.settings, (self.server,), hosts) as (server,):
            try:
                await _know(server, self.within or table.ready_timeout)
                tool = self._found(server)
                effect, source = effect_and_source(tool, table)
                await asyncio.to_thread(agreed, effect, source)
                request = ToolRequest(self.server, self.tool, self.arguments, effect)
                return Called(request, source, await self._call(server, request))
            except (ToolServerError, Failed) as error:
                fail(self.redact(visible(_problem(server, error))))

    def _found(self, server: ToolServer) -> ToolDescription:
        """The tool as the server lists it; ends for one that it does not list."""
        if (tool := find(server.catalogue.tools, self.tool)) is not None:
            return tool
        if server.catalogue.known:
            fail(f"{self.server} has no tool `{self.tool}`: {server.catalogue.nearest(self.tool)}")
        return ToolDescription(self.tool)

    async def _call(self, server: ToolServer, request: ToolRequest) -> ToolAnswer:
        clock = SystemClock()
        limit = self.within or self.settings.tools[self.server].limit_of(self.tool)
        return await ServerCall(server, request, CallTerms(clock), Deadline.after(limit, clock.now()), discard).run()


async def _know(server: ToolServer, within: float) -> None:
    """Connect and wait for the tools. Raises ToolServerError, Failed."""
    with server.in_use():
        await server.connected(within)
        await server.know_tools(within)


def _problem(server: ToolServer, error: ToolServerError | Failed) -> str:
    """What went wrong, with the end of the log of a process that died, and where there is more."""
    if isinstance(error, Failed):
        failure = error.failure
        told, log, died = failure.message, str(failure.details.get("stderr", "")), "stderr" in failure.details
        told += f". {failure.advice}" if failure.advice else ""
    else:
        death = error.died or server.last_death
        told, log, died = f"{server.name}: {error.message}", death.log_end if death else "", death is not None
    lines = [line for line in log.splitlines() if line.strip()][-_LOG_LINES:]
    more = [f"  `harness tools logs {server.name}` has its log"] if died and server.stdio else []
    return "\n".join([told, *(f"  | {line}" for line in lines), *more])


@asynccontextmanager
async def _servers(
    settings: Settings, names: Sequence[str], hosts: Mapping[str, int]
) -> AsyncIterator[tuple[ToolServer, ...]]:
    """Servers of this command alone, which restarts no services: no run sees them, and no process is left."""
    tools = RunTools(
        settings, "harness tools", SystemClock(), discard, lambda _slot: hosts, lambda _slot, _url: asyncio.sleep(0)
    )
    made = tuple(tools.make(name, hosts, 0) for name in names)
    try:
        yield made
    finally:
        await asyncio.gather(*(server.close() for server in made))


async def _ways(settings: Settings, names: Sequence[str]) -> tuple[Mapping[str, int], Mapping[str, str]]:
    """The ways to servers behind services of the project: host -> port of the services that run.

    Then: name of a server whose service does not run -> what to do.
    """
    asked = {name: urlsplit(url).hostname or "" for name in names if (url := settings.tools[name].url)}
    behind = {name: each for name, each in settings.services.items() if {*asked.values()} & {*each.hosts}}
    found = await statuses(behind, settings.root / LOGS, SystemClock()) if behind else ()
    down = {host: each.name for each in found if each.state is not ServiceState.UP for host in behind[each.name].hosts}
    ports = ((host, port) for each in found for host, port in each.hosts.items() if host not in down)
    start = "the service `{0}` does not run: start it with `harness services start --persist {0}`"
    away = {name: start.format(down[host]) for name, host in asked.items() if host in down}
    return {host: port for host, port in ports if isinstance(port, int)}, away
