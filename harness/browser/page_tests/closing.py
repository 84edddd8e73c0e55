"""Tells of a test that closes its browser while it handles an exception: afterwards no page can be examined."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from playwright import async_api, sync_api
from playwright.async_api._context_manager import PlaywrightContextManager as AsyncManager
from playwright.sync_api._context_manager import PlaywrightContextManager as SyncManager

Examination = Callable[[BaseException], Coroutine[Any, Any, None] | None]
"""Called with the exception; returns what examines the test, or None if nothing is to be done."""
_SYNC: tuple[tuple[Any, str], ...] = (
    (sync_api.Browser, "close"),
    (sync_api.BrowserContext, "close"),
    (sync_api.Page, "close"),
    (SyncManager, "__exit__"),
)
_ASYNC: tuple[tuple[Any, str], ...] = (
    (async_api.Browser, "close"),
    (async_api.BrowserContext, "close"),
    (async_api.Page, "close"),
    (AsyncManager, "__aexit__"),
)


class Closings:
    """What closes pages, browsers or Playwright itself, in either API, with a look at the exception before that."""

    def __init__(self, examination: Examination, drive: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        """`drive` runs an examination where a test of the sync API waits."""
        self._examination, self._drive = examination, drive
        self._original: list[tuple[Any, str, Any]] = []

    def begin(self) -> None:
        """Tell from now on."""
        for owner, name in _SYNC:
            self._replace(owner, name, self._sync)
        for owner, name in _ASYNC:
            self._replace(owner, name, self._async)

    def end(self) -> None:
        """Tell no more."""
        for owner, name, original in self._original:
            setattr(owner, name, original)
        self._original.clear()

    def _replace(self, owner: Any, name: str, around: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        self._original.append((owner, name, original))
        setattr(owner, name, around(original))

    def _sync(self, original: Any) -> Any:
        @wraps(original)
        def close(*args: Any, **named: Any) -> Any:
            error = sys.exception()
            if error is not None and (work := self._examination(error)) is not None:
                self._drive(work)
            return original(*args, **named)

        return close

    def _async(self, original: Any) -> Any:
        @wraps(original)
        async def close(*args: Any, **named: Any) -> Any:
            error = sys.exception()
            if error is not None and (work := self._examination(error)) is not None:
                await work
            return await original(*args, **named)

        return close
