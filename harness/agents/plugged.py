"""An agent that somebody else wrote."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from harness.agents.blame import scene
from harness.agents.looks import Looks
from harness.agents.source import Source
from harness.agents.thread import AgentThread
from harness.model.plan import Plan
from harness.model.ports import Observe
from harness.model.record import History
from harness.recovery.failure import Failed, Failure
from harness.spec.steps import Step

CLOSE_SECONDS = 5.0
SHORTEST_WAIT = 0.05
"""Seconds; how exact an agent's time is."""

_log = logging.getLogger(__name__)


class PluggedAgent:
    """Foreign code behind the port: on a thread of its own, made at its first proposal, every call bounded."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._thread = AgentThread(source.name)
        self._agent: Any = None

    async def propose(self, plan: Plan, history: History, observe: Observe) -> Step | None:
        """What the agent returns, unchecked. Raises Failed: it was not made, raised an error, or was too late."""
        looks = Looks(observe)
        try:
            if self._agent is None:
                self._agent = await self._bounded(self._source.make, looks, "was not made")
            propose = self._agent.propose
            look = looks.later if _is_async(propose) else looks.now
            proposed: Step | None = await self._bounded(
                partial(propose, plan, history, look), looks, "did not propose a step"
            )
        except Failed:
            raise
        except Exception as error:
            raise self._failed(error) from error
        finally:
            looks.close()
        return proposed

    def _failed(self, error: Exception) -> Failed:
        name, place = self._source.name, scene(error, self._source)
        message = f"Agent `{name}` failed: {type(error).__name__}: {error}" + (f" ({place})" if place else "")
        return Failed(Failure("AGENT_FAILED", message, cause=error))

    async def _bounded(self, function: Callable[[], Any], looks: Looks, what: str) -> Any:
        loop, limit = asyncio.get_running_loop(), self._source.timeout
        task = asyncio.ensure_future(self._thread.run(function))
        began = loop.time() - looks.seconds
        try:
            while not task.done():
                left = limit - (loop.time() - began - looks.seconds)
                if left <= 0:
                    message = f"Agent `{self._source.name}` {what} within {limit:g}s"
                    raise Failed(Failure("AGENT_TIMEOUT", message))
                await asyncio.wait({task}, timeout=max(left, SHORTEST_WAIT))
            return task.result()
        finally:
            task.cancel()

    async def close(self) -> None:
        """Tell the agent, when it has a `close`. Bounded; never raises."""
        close = getattr(self._agent, "close", None)
        try:
            if callable(close) and not self._thread.busy:
                await asyncio.wait_for(self._thread.run(close), CLOSE_SECONDS)
        except Exception:  # noqa: BLE001 - the task is over and judged: this must not change it
            _log.warning("Agent `%s`: close() failed", self._source.name, exc_info=True)
        finally:
            self._thread.close()


def _is_async(function: Callable[..., Any]) -> bool:
    inner = inspect.unwrap(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004
