"""The objects of an ordinary test through Playwright's async API, whichever API the test itself uses.

Both APIs of Playwright wrap the same implementation, and each object remembers its one wrapper. Here the async API gets
a memory of its own: so what examines a page awaits it on the loop of the test, and a test that uses the sync API never
meets an object of the async one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from playwright._impl._async_base import mapping
from playwright._impl._impl_to_api_mapping import ImplToApiMapping
from playwright._impl._sync_base import SyncBase
from playwright.async_api import Playwright

T = TypeVar("T")
_VIEW = "_taskspec_view"


class _Apart(ImplToApiMapping):
    """The mapping of the async API, with wrappers that the sync API does not find."""

    def from_maybe_impl(self, obj: Any, visited: Any = None) -> Any:
        kind = self._mapping.get(getattr(obj, "_api_impl_class", type(obj))) if obj else None
        if kind is None:
            return super().from_maybe_impl(obj, visited)
        if (found := getattr(obj, _VIEW, None)) is None:
            found = kind(obj)
            setattr(obj, _VIEW, found)
        return found


def keep_apart() -> None:
    """From now on the wrappers of the async API are its own."""
    mapping.__class__ = _Apart


def view(implementation: Any) -> Any:
    """The object of the async API for one of Playwright's implementation, or of any of its APIs."""
    return mapping.from_impl(getattr(implementation, "_impl_obj", implementation))


def playwright_of(implementation: Any) -> Playwright:
    """The Playwright that an object of the implementation comes from. Raises LookupError if it has ended."""
    objects = implementation._connection._objects.values()  # noqa: SLF001 - no API leads from a page to its Playwright
    found: Playwright | None = next((view(each) for each in objects if type(each).__name__ == "Playwright"), None)
    if found is None:
        raise LookupError("its Playwright has ended")
    return found


class OutOfReachError(Exception):
    """The loop of a test cannot be used: it has ended, or it runs."""


def is_reachable(implementation: Any) -> bool:
    """Return whether the loop of a test can still be used: its Playwright has not ended."""
    loop: asyncio.AbstractEventLoop = implementation._loop  # noqa: SLF001 - both APIs read it, too
    fiber = implementation._dispatcher_fiber  # noqa: SLF001
    return not loop.is_closed() and not (fiber is not None and fiber.dead)


def suspended(implementation: Any) -> set[asyncio.Task[Any]]:
    """What is suspended on the loop of a test of the async API; nothing of the sync API, whose stack says it."""
    if implementation._dispatcher_fiber is not None or not is_reachable(implementation):  # noqa: SLF001
        return set()
    return asyncio.all_tasks(implementation._loop)  # noqa: SLF001


def drive(implementation: Any, main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop of a test that waits now. Raises OutOfReachError, and what the coroutine raises."""
    loop: asyncio.AbstractEventLoop = implementation._loop  # noqa: SLF001 - both APIs read it, too
    fiber = implementation._dispatcher_fiber  # noqa: SLF001
    if not is_reachable(implementation) or (fiber is None and loop.is_running()):
        main.close()
        raise OutOfReachError("its Playwright has ended, or its loop runs")
    if fiber is not None:
        result: T = SyncBase(implementation)._sync(main)  # noqa: SLF001 - as each call of the sync API
        return result
    return loop.run_until_complete(main)
