"""`observe`, as an agent on another thread may call it."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from harness.model.ports import Observation, Observe


class Looks:
    """The looks at the page during one proposal. The time they take is not the agent's."""

    def __init__(self, observe: Observe) -> None:
        """On the loop that `observe` belongs to."""
        self._observe = observe
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Observation]] = set()
        self._seconds = 0.0
        self._since = 0.0
        self._open = True

    def now(self, *, screenshot: bool = False) -> Observation:
        """For an agent that is not async: blocks its thread. Raises Failed when the page cannot be looked at."""
        return self._begun(screenshot).result()

    async def later(self, *, screenshot: bool = False) -> Observation:
        """For an agent that is async. Raises Failed when the page cannot be looked at."""
        return await asyncio.wrap_future(self._begun(screenshot))

    @property
    def seconds(self) -> float:
        """How long somebody was looking so far."""
        return self._seconds + (self._loop.time() - self._since if self._tasks else 0.0)

    def close(self) -> None:
        """The proposal is over: whoever is still looking stops."""
        self._open = False
        for task in self._tasks:
            task.cancel()

    def _begun(self, screenshot: bool) -> Future[Observation]:
        if not self._open:
            raise RuntimeError("observe() can be called only while propose() runs")
        return asyncio.run_coroutine_threadsafe(self._look(screenshot), self._loop)

    async def _look(self, screenshot: bool) -> Observation:
        task = asyncio.current_task()
        assert task is not None
        if not self._tasks:
            self._since = self._loop.time()
        self._tasks.add(task)
        try:
            if not self._open:
                raise asyncio.CancelledError
            return await self._observe(screenshot=screenshot)
        finally:
            self._tasks.discard(task)
            if not self._tasks:
                self._seconds += self._loop.time() - self._since
