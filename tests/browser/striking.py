"""Faults for a session under test: struck, counted, healed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pydantic import TypeAdapter

from harness.browser import PlaywrightSession
from harness.model.ports import Injection, Undo
from harness.spec.faults import Fault
from tests.browser.moments import until

FAULT: TypeAdapter[Fault] = TypeAdapter(Fault)


@dataclass
class Struck:
    """One strike, and what came of it."""

    count: int = 0
    heal: Undo | None = None
    asked: list[str] = field(default_factory=list)

    def met(self) -> None:
        self.count += 1

    async def mets(self, at_least: int = 1) -> int:
        """How often it had an effect, once that is known."""
        with suppress(TimeoutError):
            await until(lambda: self.count >= at_least)
        return self.count

    async def healed(self) -> None:
        assert self.heal is not None
        await self.heal()


async def strike(
    session: PlaywrightSession, takes: Callable[[str], bool] = lambda _: True, seed: int = 1, **fault: Any
) -> Struck:
    """Strike with a fault given as in a task file; a request fault breaks the requests that `takes` picks."""
    struck = Struck()

    def taken(urls: tuple[str, ...]) -> bool:
        struck.asked += urls
        if takes(urls[0]):
            struck.met()
            return True
        return False

    made = Injection(FAULT.validate_python(fault), Random(seed), struck.met, taken)
    struck.heal = await session.sabotage.strike(made)
    return struck
