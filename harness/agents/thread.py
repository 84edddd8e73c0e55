"""A thread of its own for foreign code."""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any

from harness.resilience.threads import Reply, plain


class AgentThread:
    """Runs one agent's code, always on the same thread: it can hold up neither the loop nor the end of the process.

    What is async runs there too, on a loop that lives as long as the thread.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._running: _Job | None = None
        threading.Thread(target=self._work, name=f"agent {name}", daemon=True).start()

    async def run(self, function: Callable[[], Any]) -> Any:
        """What the function returns (awaited, when it can be), or raises.

        When this is cancelled, async code is cancelled too, and sync code is left to itself.
        """
        job = self._running = _Job(function, Reply())
        self._jobs.put(job)
        try:
            return await job.reply
        except asyncio.CancelledError:
            job.abandon()
            raise

    @property
    def busy(self) -> bool:
        """Whether something that was given up on still runs."""
        return self._running is not None and not self._running.over

    def close(self) -> None:
        """The thread ends when nothing runs on it any more; nobody waits for that."""
        self._jobs.put(None)

    def _work(self) -> None:
        with asyncio.Runner() as runner:
            while (job := self._jobs.get()) is not None:
                job.do(runner)


@dataclass(slots=True)
class _Job:
    function: Callable[[], Any]
    reply: Reply[Any]
    task: asyncio.Task[Any] | None = None
    """What is async of it, on the thread's loop."""
    context: Context = field(default_factory=copy_context)
    """Of who waits for it: what the code prints is its task's."""
    abandoned: bool = False
    over: bool = False

    def do(self, runner: asyncio.Runner) -> None:
        """On the agent's thread."""
        try:
            result = self.context.run(self.function)
            if inspect.isawaitable(result):
                result = runner.run(self._awaited(result), context=self.context)
        except BaseException as error:  # noqa: BLE001 - whatever foreign code raises belongs to who asked
            self.over = True
            # An agent's `sys.exit` is not taken for the end of the run, nor its cancellation for the task's.
            self.reply.fail(error if isinstance(error, Exception) else plain(error))
        else:
            self.over = True
            self.reply.give(result)

    async def _awaited(self, awaitable: Awaitable[Any]) -> Any:
        self.task = asyncio.current_task()
        if self.abandoned and self.task:
            self.task.cancel()
        return await awaitable

    def abandon(self) -> None:
        """On the thread of who waited."""
        self.abandoned = True
        if self.task:
            with suppress(RuntimeError):  # its loop is closed: it is over
                self.task.get_loop().call_soon_threadsafe(self.task.cancel)
