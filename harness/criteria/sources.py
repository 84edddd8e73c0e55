"""The sources of values, and one pass of reading them."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Hashable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Protocol, TypeVar

from harness.criteria.patterns import Patience
from harness.criteria.syntax import Happened, Json, PageQuery, Read

_Found = TypeVar("_Found")


class LateError(Exception):
    """The page did not answer in time: there was no look, so nothing is known. `cause` is the error that says so."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


class Sources(Protocol):
    """What a criterion may read. Errors of these pass through evaluation: unreadable does not mean false."""

    async def page(self, query: PageQuery, until: float) -> Json:
        """exists, visible: bool; count: int; text, text_content, value, attr: text, or None; url, title.

        `text` is that of the first match that is displayed. Raises LateError if the page has not answered at `until`
        (monotonic seconds; infinite: as long as the source itself can wait).
        """
        ...

    async def memory(self) -> Mapping[str, Json]:
        """The exact keys and their values."""
        ...

    async def channel(self, name: str) -> Json:
        """The whole document of an environment channel."""
        ...

    async def happened(self, function: str, pattern: str, until: float) -> Happened:
        """What the pages have done so far: requests that match `POST **/api/orders`, dialogs, and other `HAPPENINGS`.

        `until` is as in `page`.
        """
        ...

    async def result(self) -> Json:
        """The answer that the step has got, of a tool or a request."""
        ...

    def of(self, user: str) -> Sources:
        """The same, as this user of the task sees it."""
        ...

    def now(self) -> datetime:
        """The world's time, timezone-aware."""
        ...

    @property
    def locale(self) -> str | None:
        """The locale of the browser context, by which numbers in texts are read; None if none is declared."""
        ...


class Pass:
    """One pass over the sources: nothing is read before it is needed, and nothing is read twice."""

    def __init__(self, sources: Sources, patience: Patience) -> None:
        self._sources = sources
        self.patience = patience
        self.limit = math.inf
        """The end of the present look, in monotonic seconds: a page that is busy until then was not looked at."""
        self.locale = sources.locale
        self._read: dict[Hashable, Any] = {}
        self._now: datetime | None = None

    @contextmanager
    def limited(self, limit: float) -> Iterator[None]:
        """Look no longer than until `limit`, or until an earlier limit that holds already."""
        before, self.limit = self.limit, min(self.limit, limit)
        try:
            yield
        finally:
            self.limit = before

    async def page(self, query: PageQuery) -> Json:
        return await self._once(query, lambda: self._sources.page(query, self.limit))

    async def channel(self, name: str) -> Json:
        return await self._once(("channel", name), lambda: self._sources.channel(name))

    async def happened(self, of: Read) -> Happened:
        what, sources = (of.function, "".join(of.arguments)), self.of(of.user)
        return await self._once((*what, of.user), lambda: sources.happened(*what, self.limit))

    def of(self, user: str | None) -> Sources:
        """The sources as a user sees them."""
        return self._sources if user is None else self._sources.of(user)

    async def memory(self) -> Mapping[str, Json]:
        return await self._once("memory", self._sources.memory)

    async def result(self) -> Json:
        return await self._once("result", self._sources.result)

    async def _once(self, key: Hashable, read: Callable[[], Coroutine[Any, Any, _Found]]) -> _Found:
        if key not in self._read:
            self._read[key] = await read()
        found: _Found = self._read[key]
        return found

    def now(self) -> datetime:
        if self._now is None:
            self._now = self._sources.now()
        return self._now
