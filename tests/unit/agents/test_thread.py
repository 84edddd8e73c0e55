"""A thread for foreign code."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from harness.agents.python import AgentThread

TASK: ContextVar[str] = ContextVar("task", default="nobody")


async def later() -> str:
    await asyncio.sleep(0)
    return TASK.get()


def test_the_code_runs_in_the_context_of_who_waits_for_it() -> None:
    """So what it prints is known to be its task's."""

    async def main() -> list[str]:
        thread = AgentThread("a")
        try:
            TASK.set("T-1")
            first = [await thread.run(TASK.get), await thread.run(later)]
            TASK.set("T-2")
            return [*first, await thread.run(TASK.get), await thread.run(later)]
        finally:
            thread.close()

    assert asyncio.run(main()) == ["T-1", "T-1", "T-2", "T-2"]
