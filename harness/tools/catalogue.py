"""The tools of one server as it has listed them last, their effects, and whether arguments fit a tool's schema."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from harness.model.tool_settings import ToolServerSettings
from harness.model.tools import ToolDescription, ToolHints
from harness.resilience import Clock
from harness.spec.problems import did_you_mean, join_or
from harness.spec.step_base import EffectClass
from harness.tools.exchange import ToolServerError
from harness.tools.schemas import misfit


class Catalogue:
    """It is never emptied: a list that cannot be had, or has nothing in it, leaves the old one, which is `stale`."""

    def __init__(self) -> None:
        self._tools: dict[str, ToolDescription] = {}
        self.known = False
        """Whether the server has ever listed its tools."""
        self.stale = False
        """Whether the server was away since it has listed its tools."""

    @property
    def tools(self) -> tuple[ToolDescription, ...]:
        return tuple(self._tools.values())

    def take(self, tools: tuple[ToolDescription, ...]) -> None:
        """Take what the server lists now."""
        if self._tools and not tools:
            return
        self._tools = {tool.name: tool for tool in tools}
        self.known, self.stale = True, False

    def surely_has(self, name: str) -> bool:
        """Whether the server has listed the tool since it was away."""
        return name in self._tools and not self.stale

    def nearest(self, name: str) -> str:
        """What may be meant by a name that the server does not know, in words."""
        if not self._tools:
            return "it lists none"
        return did_you_mean(name, self._tools) or f"it has {join_or(self._tools)}"

    def misfit(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What is wrong with the arguments by the schema of the tool; empty if nothing is known to be.

        A list that is stale proves nothing: then the server itself is asked.
        """
        tool = self._tools.get(name)
        return "" if tool is None or self.stale else misfit(tool.parameters, arguments)


def find(tools: Iterable[ToolDescription], name: str) -> ToolDescription | None:
    """The tool of that name, if it is listed."""
    return next((tool for tool in tools if tool.name == name), None)


def effect_of(tool: str, hints: ToolHints, settings: ToolServerSettings) -> EffectClass:
    """The effect of a tool of a named server: by the settings, else by the server's hints, else `write`."""
    if declared := settings.declared_effect(tool):
        return declared
    if hints.read_only:
        return "read"
    return "idempotent" if hints.idempotent else "write"


def effect_in_page(
    tool: str, hints: ToolHints, settings: ToolServerSettings, declared: EffectClass | None
) -> EffectClass:
    """The effect of a tool of the page, which is not trusted: what it says of its tools may only raise the effect."""
    if hints.consequential:
        return "write"
    return declared or settings.declared_effect(tool) or "write"


_LONGEST: Final = 5.0
"""Seconds that the server may take to list its tools."""
_COLLECTED: Final = 0.5
"""Seconds for which messages that the list has changed are collected."""

_ListTools = Callable[[float], Awaitable[tuple[ToolDescription, ...]]]
"""Asks the server for its tools, within so many seconds. Raises ToolServerError."""


class Discovery:
    """At most one is under way. One that fails leaves the catalogue as it is, and stale."""

    def __init__(self, catalogue: Catalogue, list_tools: _ListTools, clock: Clock, done: Callable[[], None]) -> None:
        """`done` is called when the catalogue has been renewed."""
        self._catalogue = catalogue
        self._list = list_tools
        self._clock = clock
        self._done = done
        self._under_way: asyncio.Task[None] | None = None
        self._collecting: asyncio.Task[None] | None = None
        self.problem = ""
        """Why the last one has failed; empty if it has not."""

    def begin(self) -> asyncio.Task[None]:
        """List the tools in the background, unless that is under way."""
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.create_task(self._run())
        return self._under_way

    def begin_soon(self) -> None:
        """List them in half a second, once for all who call this meanwhile: the server says that they have changed."""
        if self._collecting is None or self._collecting.done():
            self._collecting = asyncio.create_task(self._collect())

    async def first(self, within: float) -> None:
        """Wait until the server has listed its tools once, or has failed to: nobody knows them yet."""
        if not self._catalogue.known:
            await asyncio.wait((self.begin(),), timeout=within)

    async def cancel(self) -> None:
        """End what is under way."""
        tasks = [task for task in (self._under_way, self._collecting) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _collect(self) -> None:
        await self._clock.sleep(_COLLECTED)
        if self._under_way is not None and not self._under_way.done():
            await asyncio.wait((self._under_way,))  # what it lists may be older than the change
        self.begin()

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(_LONGEST):
                tools = await self._list(_LONGEST)
        except TimeoutError:
            self._fail(f"no answer within {_LONGEST:g} s")
        except ToolServerError as error:
            self._fail(error.message)
        else:
            self.problem = ""
            self._catalogue.take(tools)
            self._done()

    def _fail(self, problem: str) -> None:
        self.problem = problem
        self._catalogue.stale = self._catalogue.known
