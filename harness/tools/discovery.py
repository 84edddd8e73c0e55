"""Lists the tools of a server: in the background, once for all who notice that the list may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from harness.model.tools import ToolDescription
from harness.resilience import Clock
from harness.tools.catalogue import Catalogue
from harness.tools.exchange import ToolServerError

LONGEST: Final = 5.0
"""Seconds that the server may take to list its tools."""
COLLECTED: Final = 0.5
"""Seconds for which messages that the list has changed are collected."""

ListTools = Callable[[float], Awaitable[tuple[ToolDescription, ...]]]
"""Asks the server for its tools, within so many seconds. Raises ToolServerError."""


class Discovery:
    """At most one is under way. One that fails leaves the catalogue as it is, and stale."""

    def __init__(self, catalogue: Catalogue, list_tools: ListTools, clock: Clock, done: Callable[[], None]) -> None:
        """`done` is called when the catalogue has been renewed."""
        self._catalogue = catalogue
        self._list = list_tools
        self._clock = clock
        self._done = done
        self._under_way: asyncio.Task[None] | None = None
        self._collecting: asyncio.Task[None] | None = None
        self.problem = ""
        """Why the last one has failed; empty if it has not."""

    def begin(self) -> None:
        """List the tools in the background, unless that is under way."""
        self._begun()

    def _begun(self) -> asyncio.Task[None]:
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
            await asyncio.wait((self._begun(),), timeout=within)

    async def cancel(self) -> None:
        """End what is under way."""
        tasks = [task for task in (self._under_way, self._collecting) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _collect(self) -> None:
        await self._clock.sleep(COLLECTED)
        if self._under_way is not None and not self._under_way.done():
            await asyncio.wait((self._under_way,))  # what it lists may be older than the change
        self.begin()

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(LONGEST):
                tools = await self._list(LONGEST)
        except TimeoutError:
            self._fail(f"no answer within {LONGEST:g} s")
        except ToolServerError as error:
            self._fail(error.message)
        else:
            self.problem = ""
            self._catalogue.take(tools)
            self._done()

    def _fail(self, problem: str) -> None:
        self.problem = problem
        self._catalogue.stale = self._catalogue.known
