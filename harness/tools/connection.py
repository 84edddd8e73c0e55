"""A connection to a tool server: one task of the loop owns the client of MCP, and every failure gets its name."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from harness.model.tools import ToolAnswer, ToolDescription
from harness.tools.exchange import (
    ConnectionEvents,
    Link,
    SentCall,
    ServerDied,
    ServerInfo,
    Streams,
    ToolProblem,
    ToolServerError,
    current,
)

if TYPE_CHECKING:
    from harness.tools.session import McpSession

T = TypeVar("T")
_FAREWELL = 2.0
"""Seconds that the client may take to end, before it is cancelled, and once more after that."""
_NO_MCP = "tool servers need the library `mcp`: pip install 'pytest-taskspec[mcp]'"


class ToolConnection:
    """A `Connection`. The client of MCP lives in a task of its own.

    If the task of a caller owned it, the death of a server would end in that task as a cancellation, like Ctrl-C. Each
    call has a task too, so that no limit depends on how the client takes a cancellation.
    """

    def __init__(self, link: Link, events: ConnectionEvents) -> None:
        self._link = link
        self._events = events
        self._opening = SentCall(opening=True)
        self._over = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._session: McpSession | None = None
        self._info: ServerInfo | None = None
        self._settled = asyncio.Event()
        """Set when it is open, or has ended before it was."""
        self._failure: ToolServerError | None = None
        self._calls: set[asyncio.Task[Any]] = set()

    async def open(self, within: float) -> ServerInfo:
        """Connect to the server, whose process is started for it. Once for each object. Raises ToolServerError."""
        self._owner = asyncio.create_task(self._own(), name="tool server")
        try:
            async with asyncio.timeout(within):
                await self._settled.wait()
        except TimeoutError:
            self._close_soon()
            raise self._silent(ToolProblem.SLOW, f"it was not ready within {within:g} s") from None
        except asyncio.CancelledError:
            self._close_soon()
            raise
        if self._info is None:
            self._close_soon()
            raise self._failure or self._link.lost(sent=False)
        return self._info

    async def list_tools(self, within: float) -> tuple[ToolDescription, ...]:
        return await self._ask(lambda session: session.list_tools(), within)

    async def call(self, tool: str, arguments: Mapping[str, Any], within: float, meta: Mapping[str, str]) -> ToolAnswer:
        return await self._ask(lambda session: session.call(tool, arguments, meta), within)

    async def look(self, within: float) -> None:
        await self._ask(lambda session: session.look(), within)

    async def close(self) -> None:
        await asyncio.wait((self._close_soon(),))

    @property
    def pid(self) -> int | None:
        return self._link.pid

    @property
    def died(self) -> ServerDied | None:
        return self._link.died

    async def _own(self) -> None:
        """Open the client, keep it until the connection is over, and end it: all in this task, as it demands."""
        current.set(self._opening)
        try:
            session_over = await asyncio.to_thread(_load)
            async with (
                self._link.streams(self._over.set) as streams,
                session_over(streams, self._events.tools_changed) as session,
            ):
                self._session, self._info = session, await session.introduce()
                self._settled.set()
                await self._over.wait()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - the library's, kept for who opens or calls
            self._failure = self._named(error)
        finally:
            self._session = None
            self._settled.set()
            if self._info is not None and self._closing is None:
                self._failure = self._link.lost(sent=False)
                self._events.lost(self._failure)

    def _named(self, error: BaseException) -> ToolServerError:
        """Why it was not opened. No call was sent yet, so nothing can have been lost with it."""
        from harness.tools.session import named

        failure = named(error, self._opening, self._link)
        if failure.problem is not ToolProblem.LOST:
            return failure
        return ToolServerError(ToolProblem.UNREACHED, failure.message, died=failure.died)

    async def _ask(self, question: Callable[[McpSession], Coroutine[Any, Any, T]], within: float) -> T:
        session = self._session
        if session is None or self._closing is not None:
            failure = self._failure or ToolServerError(ToolProblem.UNREACHED, "the connection is closed")
            raise ToolServerError(ToolProblem.UNREACHED, failure.message, died=failure.died)
        sending, context = SentCall(), copy_context()
        context.run(current.set, sending)
        task = asyncio.get_running_loop().create_task(question(session), context=context)
        self._calls.add(task)
        task.add_done_callback(self._forget)
        try:
            await asyncio.wait((task,), timeout=within)
        finally:
            sending.ended = True  # the client may still hold the request, and would send it when the server is there
            task.cancel()  # it has no effect on one that is done
        if not task.done():
            if sending.problem is not None:
                raise sending.problem
            problem = ToolProblem.SLOW if sending.sent else ToolProblem.UNREACHED
            what = "did not answer" if sending.sent else "did not take the request"
            raise self._silent(problem, f"it {what} within {within:g} s")
        return self._answer(task, sending)

    def _answer(self, task: asyncio.Task[T], sending: SentCall) -> T:
        if task.cancelled():  # the client was ended under it
            raise sending.problem or self._link.lost(sent=sending.sent)
        if (error := task.exception()) is None:
            return task.result()
        from harness.tools.session import named

        raise named(error, sending, self._link) from error

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may wait for it any more

    def _silent(self, problem: ToolProblem, message: str) -> ToolServerError:
        more = self._link.trouble
        return ToolServerError(problem, f"{message}; {more}" if more else message, died=self._link.died)

    def _close_soon(self) -> asyncio.Task[None]:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        return self._closing

    async def _close(self) -> None:
        self._over.set()
        if self._owner is not None:
            await asyncio.wait((self._owner,), timeout=_FAREWELL if self._info is not None else 0)
            self._owner.cancel()
            await asyncio.wait((self._owner,), timeout=_FAREWELL)
        with contextlib.suppress(OSError):
            await self._link.stop()


def _load() -> Callable[[Streams, Callable[[], None]], AbstractAsyncContextManager[McpSession]]:
    """Import the client of MCP, which takes more than half a second. Raises ToolServerError if it is not installed."""
    try:
        from harness.tools.session import session_over
    except ModuleNotFoundError as error:
        if error.name not in ("mcp", "mcp_types"):
            raise
        raise ToolServerError(ToolProblem.UNREACHED, _NO_MCP) from error
    return session_over
