"""Runs a task up to a step, and stops there with its page open.

Asking for the next step is the one thing that the engine waits for without a limit, and the agent is who is asked: so
the agent that plays the steps back waits in its turn, while browser, sites and faults go on as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from harness.agents.python import Source
from harness.agents.registry import Agents, TaskAgent
from harness.cli.held_back import CarefulHarness, HeldBack
from harness.model.plan import Plan
from harness.model.ports import Observe
from harness.model.record import History, TaskResult
from harness.model.settings import Settings
from harness.recovery.failure import Failed, Failure
from harness.resilience.breaker import Breaker
from harness.runner.harness import Harness
from harness.runner.loop import Caller, LoopThread
from harness.spec.steps import Step


@dataclass(frozen=True, slots=True)
class Stop:
    """Where to stop: before the step of that number of the plan `key`; the number of steps: before the criteria."""

    key: str
    index: int
    reached: Callable[[str], Awaitable[None]]
    """Called with the page's address; the task goes on to its end when it returns."""


class StoppingAgents(Agents):
    """Those of the project; whoever plays steps back stops."""

    def __init__(self, settings: Settings, stop: Stop) -> None:
        super().__init__(settings.agents, settings.root)
        self._stop = stop

    def agent(self, name: str | None) -> TaskAgent:
        """As of `Agents`."""
        if name is not None:
            self.source(name)
        return StoppingAgent(self.source, self._breaker, self._stop)


class StoppingAgent(TaskAgent):
    """Plays the steps back; in place of the one to stop at it waits, and ends the task."""

    def __init__(self, source: Callable[[str], Source], breaker: Callable[[str], Breaker | None], stop: Stop) -> None:
        super().__init__(source, breaker)
        self._stop = stop

    async def propose(self, plan: Plan, history: History, observe: Observe) -> Step | None:
        """As of `TaskAgent`. Raises Failed where the replay is over."""
        if plan.key != self._stop.key or len(history) < self._stop.index:
            return await super().propose(plan, history, observe)
        await self._stop.reached(await _address(observe))
        raise Failed(Failure("INTERRUPTED", f"The replay stopped before step {self._stop.index}"))


async def _address(observe: Observe) -> str:
    """Empty when the page cannot be looked at."""
    try:
        return (await observe()).url
    except Failed:
        return ""


def _forget(_: asyncio.AbstractEventLoop, __: object) -> None:
    """The run is over: what browser and driver did not answer, as they got the same Ctrl-C, nobody needs to read."""


def replay(
    plan: Plan,
    settings: Settings,
    run_id: str,
    index: int,
    pause: Callable[[str], None],
    held: HeldBack | None = None,
) -> tuple[TaskResult, bool]:
    """The result, and whether it came to the step. `pause` is called there, on this thread, with the page's address.

    `held` decides what is not sent; without it, everything is. The evidence is taken after that, and kept under
    `settings.artifacts`. Raises ValueError or OSError for settings that cannot be met.
    """
    there: list[str] = []
    alone = replace(plan, alternative=None)  # it would run when the replay is over

    async def main(caller: Caller) -> TaskResult:
        async def reached(address: str) -> None:
            there.append(address)
            await caller.call(partial(pause, address))

        harness = Harness(settings, run_id) if held is None else CarefulHarness(settings, run_id, held)
        harness.agents = StoppingAgents(settings, Stop(plan.key, index, reached))
        try:
            return await harness.run(alone, caller)
        finally:
            asyncio.get_running_loop().set_exception_handler(_forget)
            await harness.close()

    loop = LoopThread()
    try:
        return loop.run(main, lambda _: None), bool(there)
    finally:
        loop.close()
