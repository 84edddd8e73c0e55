"""A lasting fault whose time ends while the session moves to another context."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from types import SimpleNamespace
from typing import Any

from pydantic import TypeAdapter

from harness.browser.faults import Sabotage
from harness.model.ports import Injection
from harness.resilience import SystemClock
from harness.spec.faults import Fault

MISSING = {"kind": "missing", "selector": "#login", "step": 1, "seconds": 1}


class Context:
    """A context that takes its time to add a script to its documents."""

    def __init__(self) -> None:
        self.pages: list[Any] = []
        self.scripts = 0
        self.adding, self.may_add = asyncio.Event(), asyncio.Event()

    async def expose_binding(self, _name: str, _told: Any) -> None:
        pass

    async def add_init_script(self, _script: str) -> Any:
        self.adding.set()
        await self.may_add.wait()
        self.scripts += 1
        return self._added()

    @asynccontextmanager
    async def _added(self) -> AsyncIterator[None]:
        yield
        self.scripts -= 1


async def struck(handle: Any) -> Any:
    """Strike with a fault that lasts; returns what undoes it."""
    fault = TypeAdapter(Fault).validate_python(MISSING)
    sabotage = Sabotage(handle, SimpleNamespace(), SystemClock())  # type: ignore[arg-type]
    handle.tab.context.may_add.set()
    return await sabotage.strike(Injection(fault, Random(0), lambda: None, lambda _: False))  # type: ignore[arg-type]


async def test_it_does_not_stay_in_the_context_into_which_it_was_just_being_injected() -> None:
    first, second = Context(), Context()
    handle = SimpleNamespace(tab=SimpleNamespace(context=first), chromium=None, on_move=None)
    undo = await struck(handle)
    assert first.scripts == 1
    handle.tab = SimpleNamespace(context=second)
    moving = asyncio.ensure_future(handle.on_move(handle.tab))
    await second.adding.wait()
    undoing = asyncio.ensure_future(undo())
    await asyncio.sleep(0)
    second.may_add.set()
    await asyncio.gather(moving, undoing)
    assert second.scripts == 0


async def test_it_is_not_injected_into_a_new_context_once_its_time_has_ended() -> None:
    first, second = Context(), Context()
    handle = SimpleNamespace(tab=SimpleNamespace(context=first), chromium=None, on_move=None)
    await (await struck(handle))()
    second.may_add.set()
    await handle.on_move(SimpleNamespace(context=second))
    assert (first.scripts, second.scripts) == (0, 0)
