"""The way to a tool server at an address: Streamable HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

from harness.resilience import Clock
from harness.tools.connection import ToolConnection
from harness.tools.exchange import (
    FORGOTTEN,
    Connect,
    ConnectionEvents,
    Hosts,
    ServerDied,
    Streams,
    ToolProblem,
    ToolServerError,
)

_LONGEST: Final = 20 * 1024 * 1024
"""Bytes of one answer, or of one event of a stream."""


def over_http(url: str, headers: Mapping[str, str], hosts: Hosts, clock: Clock, *, longest: int = _LONGEST) -> Connect:
    """Connections to the server at `url`; requests to a host of `hosts` go to its port, with its name as `Host`.

    `headers` are sent with each request. `longest`: bytes of one answer; one that is longer is GARBLED.
    """

    def connect(events: ConnectionEvents) -> ToolConnection:
        return ToolConnection(AddressLink(url, headers, hosts, clock, longest), events)

    return connect


class AddressLink:
    """An address. It has no process, and ends by itself only if the server forgets the session."""

    trouble = ""
    pid: int | None = None
    died: ServerDied | None = None

    def __init__(self, url: str, headers: Mapping[str, str], hosts: Hosts, clock: Clock, longest: int) -> None:
        self._url, self._headers, self._hosts, self._clock, self._longest = url, headers, hosts, clock, longest
        self._forgotten = False

    @contextlib.asynccontextmanager
    async def streams(self, over: Callable[[], None]) -> AsyncIterator[Streams]:
        from mcp.client.streamable_http import streamable_http_client

        from harness.tools.http_transport import ToolTransport, client_with

        def forgotten() -> None:
            self._forgotten = True
            over()

        transport = ToolTransport(self._hosts, self._clock, self._longest, forgotten)
        async with (
            client_with(transport, self._headers) as client,
            streamable_http_client(self._url, http_client=client, max_sse_event_size=self._longest) as streams,
        ):
            yield streams

    async def stop(self) -> None:
        """Nothing is left of it when the client has ended."""

    def lost(self, *, sent: bool) -> ToolServerError:
        problem = ToolProblem.LOST if sent else ToolProblem.UNREACHED
        return ToolServerError(problem, FORGOTTEN if self._forgotten else "the connection to it has ended")
