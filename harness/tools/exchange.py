"""What the supervision of a tool server needs of a connection to it, and how a call can fail, without any transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from enum import Enum
from typing import Any, Final, Protocol

from msgspec import Struct

from harness.model.tools import ToolAnswer, ToolDescription


class ToolProblem(Enum):
    """Why a connection could not be made, or a call has no answer: the rows of `VERDICTS` (docs/design/tools.md)."""

    UNREACHED = "unreached"
    """Refused, not resolved, never connected, or the process did not start: nothing was sent."""
    LOST = "lost"
    """The connection ended after the request was sent: it may have taken effect."""
    SLOW = "slow"
    """There was no answer within the limit. The call was cancelled, and may have taken effect."""
    UNAUTHORIZED = "unauthorized"
    """401, an error of OAuth, or a 403 before there is a connection: the credentials are not accepted."""
    FORBIDDEN = "forbidden"
    """403 for one call: the credentials are accepted, and do not allow it. Other calls may be allowed."""
    BUSY = "busy"
    """429 or 503 with `Retry-After`: the server did nothing, and says when to come back."""
    UNKNOWN_TOOL = "unknown tool"
    INVALID_ARGUMENTS = "invalid arguments"
    """The server refuses the arguments (-32602) of a tool that it has."""
    GARBLED = "garbled"
    """The answer is not what the protocol demands, or too large."""


class ServerDied(Struct, frozen=True):
    """How the process of a server ended."""

    exit_code: int | None
    log_end: str
    """The last lines of its standard error."""
    intended: bool = False
    """Whether it was ended on purpose: such a death is no crash."""

    def __str__(self) -> str:
        return f"its process ended{'' if self.exit_code is None else f' with exit code {self.exit_code}'}"


class ToolServerError(Exception):
    """A connection was not made, or a call has no answer."""

    def __init__(
        self, problem: ToolProblem, message: str, *, retry_after: float | None = None, died: ServerDied | None = None
    ) -> None:
        """`retry_after`: seconds that the server asks to wait."""
        super().__init__(message)
        self.problem = problem
        self.message = message
        self.retry_after = retry_after
        self.died = died


class ServerInfo(Struct, frozen=True):
    """How a server introduced itself."""

    name: str
    version: str
    protocol: str
    """The revision of MCP, such as `2026-07-28`."""


class Connection(Protocol):
    """One connection to one server, from `open` to `close`; a lost one is replaced by a new object.

    All methods are called on the harness's loop, by any task of it. All but `close` raise ToolServerError, and a
    cancellation only if the caller itself was cancelled.
    """

    async def open(self, within: float) -> ServerInfo: ...

    async def list_tools(self, within: float) -> tuple[ToolDescription, ...]: ...

    async def call(self, tool: str, arguments: Mapping[str, Any], within: float, meta: Mapping[str, str]) -> ToolAnswer:
        """Call a tool; several calls may be under way. `meta` goes along as `_meta`, for servers that know it."""

    async def look(self, within: float) -> None:
        """Ask for the cheapest answer that shows that the server is there."""

    async def close(self) -> None:
        """End the connection, and the process if there is one. Bounded (seconds); it never raises."""

    @property
    def pid(self) -> int | None:
        """The process of the server; None if it has none here."""

    @property
    def died(self) -> ServerDied | None:
        """Set as soon as the process of the server has ended."""


class ConnectionEvents(Struct, frozen=True):
    """What a connection tells by itself, on the loop."""

    lost: Callable[[ToolServerError], None]
    """It ended although nobody closed it; called once."""
    tools_changed: Callable[[], None]
    """The server says that its list of tools has changed."""


Connect = Callable[[ConnectionEvents], Connection]
"""Makes a new connection, which is not open yet."""
Streams = tuple[Any, Any]
"""The stream of messages from the server, and that to it, as the library takes them."""
Hosts = Callable[[], Mapping[str, int]]
"""Host name, in lower case -> port on 127.0.0.1; read for each request."""
FORGOTTEN: Final = "it does not know the session any more"


class SentCall(Struct):
    """What became of the requests of one call on their way to the server."""

    sent: bool = False
    """Whether a part of a request may have left this process."""
    problem: ToolServerError | None = None
    """Why there can be no answer, if the transport knows."""
    final: bool = False
    """Whether the problem says nothing about the revision of the protocol: another one need not be tried."""
    refusal: tuple[int, str] | None = None
    """Number and text of the last error that came back over the transport."""
    opening: bool = False
    """Whether the requests open the connection."""
    ended: bool = False
    """Whether nobody waits for the answer any more: what was not sent by then must not be sent later."""

    def answered(self, code: int, message: str) -> bool:
        """Return whether an error of the client is the server's own answer, and not made here of a lost connection.

        The client uses numbers (-32000, -32001) that are free for servers too, so the number tells nothing.
        """
        return self.problem is None and self.refusal == (code, message)

    def fail(self, problem: ToolProblem, message: str, *, retry_after: float | None = None, final: bool) -> None:
        """Keep the problem, if it is not only what follows from a final one."""
        if not self.final:
            self.problem, self.final = ToolServerError(problem, message, retry_after=retry_after), final


current: ContextVar[SentCall | None] = ContextVar("tool_call", default=None)
"""The call on whose behalf a message is sent. The client of MCP carries it to its transports."""


class Link(Protocol):
    """The way to one server: a process, or an address."""

    def streams(self, over: Callable[[], None]) -> AbstractAsyncContextManager[Streams]:
        """The messages from and to the server. `over` is called if the way ends by itself. Raises ToolServerError."""

    async def stop(self) -> None:
        """End the way, and the process if there is one; bounded."""

    def lost(self, *, sent: bool) -> ToolServerError:
        """Why there is no answer although nobody closed the way."""

    @property
    def trouble(self) -> str:
        """What was seen that may explain a silence; empty if nothing."""

    @property
    def pid(self) -> int | None: ...

    @property
    def died(self) -> ServerDied | None: ...
