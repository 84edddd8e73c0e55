"""Where the values come from, and one pass of reading them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from harness.criteria.patterns import Patience
from harness.criteria.syntax import Json


class Sources(Protocol):
    """What a criterion may look at. Whatever these raise passes through evaluation: unreadable is not untrue."""

    async def page(self, function: str, selector: str | None, name: str | None) -> Json:
        """exists, visible: bool; count: int; text, value, attr: text, or None without the element; url, title."""
        ...

    async def memory(self) -> Mapping[str, Json]:
        """Exact keys and their values."""
        ...

    async def channel(self, name: str) -> Json:
        """The whole document of an environment channel."""
        ...

    def now(self) -> datetime:
        """The world's time, aware."""
        ...


class Pass:
    """One look at the sources: nothing is read before it is asked for, and nothing twice."""

    def __init__(self, sources: Sources, patience: Patience) -> None:
        self._sources = sources
        self.patience = patience
        self._pages: dict[tuple[str, str | None, str | None], Json] = {}
        self._channels: dict[str, Json] = {}
        self._memory: Mapping[str, Json] | None = None
        self._now: datetime | None = None

    async def page(self, function: str, selector: str | None = None, name: str | None = None) -> Json:
        key = (function, selector, name)
        if key not in self._pages:
            self._pages[key] = await self._sources.page(function, selector, name)
        return self._pages[key]

    async def channel(self, name: str) -> Json:
        if name not in self._channels:
            self._channels[name] = await self._sources.channel(name)
        return self._channels[name]

    async def memory(self) -> Mapping[str, Json]:
        if self._memory is None:
            self._memory = await self._sources.memory()
        return self._memory

    def now(self) -> datetime:
        if self._now is None:
            self._now = self._sources.now()
        return self._now
