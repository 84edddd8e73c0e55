"""Messages of MCP as lines: written to the standard input of a tool server, and read from its standard output."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections import deque
from collections.abc import Awaitable, Callable
from typing import IO, Any, Final, Self

import anyio
import mcp_types as protocol
from mcp.shared.message import SessionMessage
from msgspec import Struct

from harness.tools.exchange import SentCall, current

_CHUNK: Final = 256 * 1024
BREATH: Final = 100
"""Lines after which other tasks of the loop have their turn."""
_SHOWN: Final = 200
"""Characters of a line that a message shows."""
_LOGGER = logging.getLogger(__name__)


class OutgoingLine(Struct):
    """A message on its way to the server."""

    data: bytes
    sending: SentCall | None
    request: Any
    """The id of the request; None for other messages."""
    written: int = 0


class LineWriter:
    """The stream of messages to the server. A server that does not read blocks nobody: its messages wait here."""

    def __init__(self, pipe: int) -> None:
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._lines: deque[OutgoingLine] = deque()
        self._waits = False
        self.broken = False
        """Whether nobody can read it any more."""

    async def send(self, item: SessionMessage) -> None:
        """Write the message as soon as the pipe takes it; each call of a tool is known by its context."""
        message = item.message
        name, request = getattr(message, "method", ""), getattr(message, "id", None)
        if name == "notifications/cancelled" and self._withdraw((message.params or {}).get("requestId")):  # type: ignore[union-attr]
            return
        data = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        self._lines.append(OutgoingLine(data, current.get(), request))
        self._write()

    def _withdraw(self, request: Any) -> bool:
        """Take back a request of which nothing was written; return whether it was one."""
        line = next((line for line in self._lines if line.request == request and not line.written), None)
        if line is not None:
            self._lines.remove(line)
        return line is not None

    def _write(self) -> None:
        try:
            while self._lines:
                if (first := self._lines[0]).sending is not None and first.sending.ended and not first.written:
                    self._lines.popleft()
                else:
                    self._write_of(first)
        except BlockingIOError:
            self._wait(on=True)
            return
        except OSError:  # the reading end is closed
            self.broken = True
            self._lines.clear()
        self._wait(on=False)

    def _write_of(self, line: OutgoingLine) -> None:
        line.written += os.write(self._pipe, memoryview(line.data)[line.written :])
        if line.sending is not None:
            line.sending.sent = True
        if line.written == len(line.data):
            self._lines.popleft()

    def _wait(self, *, on: bool) -> None:
        loop = asyncio.get_running_loop()
        if on and not self._waits:
            loop.add_writer(self._pipe, self._write)
        elif self._waits and not on:
            loop.remove_writer(self._pipe)
        self._waits = on

    def close(self) -> None:
        """Write no more."""
        self._lines.clear()
        self._wait(on=False)

    async def aclose(self) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


_EDGE: Final = 300
"""Bytes at the beginning and the end of a message in which the id of one that is too long is sought."""
_ID_FIRST: Final = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)')
_ID_LAST: Final = re.compile(rb'"id"\s*:\s*(\d+)(?:\s*,\s*"jsonrpc"\s*:\s*"2\.0")?\s*\}\s*$')


class LineReader:
    """Reads messages from the output of a server. What is no message is left out."""

    def __init__(self, deliver: Callable[[SessionMessage], Awaitable[None]], longest: int) -> None:
        self._deliver, self._longest = deliver, longest
        self._parts: list[bytes] = []
        self._size = 0
        self._head = self._tail = b""
        self.trouble = ""

    async def read(self, pipe: IO[bytes]) -> None:
        """Read to the end."""
        reader = asyncio.StreamReader(limit=_CHUNK)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        try:
            while chunk := await reader.read(_CHUNK):
                *ends, rest = chunk.split(b"\n")
                for number, end in enumerate(ends, 1):
                    self._keep(end)
                    await self._take()
                    if number % BREATH == 0:
                        await asyncio.sleep(0)  # a server that writes without end must not stop the other tasks
                self._keep(rest)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the client has ended
        finally:
            transport.close()

    def _keep(self, part: bytes) -> None:
        """Add to the present line. Of one that is too long only the edges are kept."""
        if len(self._head) < _EDGE:
            self._head = (self._head + part[:_EDGE])[:_EDGE]
        self._tail = (self._tail + part[-_EDGE:])[-_EDGE:]
        self._size += len(part)
        self._parts.append(part)
        if self._size > self._longest:
            self._parts.clear()

    async def _take(self) -> None:
        line, size, head, tail = b"".join(self._parts), self._size, self._head, self._tail
        self._parts.clear()
        self._size, self._head, self._tail = 0, b"", b""
        if size > self._longest:
            found = _ID_FIRST.search(head) or _ID_LAST.search(tail)
            await self._spoiled(int(found[1]) if found else None, f"a message of {size} bytes, which is too large")
        elif line.strip():
            await self._parse(line)

    async def _parse(self, line: bytes) -> None:
        try:
            if not line.lstrip().startswith(b"{"):
                raise ValueError("no object")  # what programs print is told apart without parsing it
            message = protocol.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            shown = line[:_SHOWN].decode(errors="replace")
            await self._spoiled(_answers(line), f"what is no message of MCP: {shown!r}")
        else:
            await self._deliver(SessionMessage(message))

    async def _spoiled(self, request: int | None, what: str) -> None:
        """Answer the request instead of the server; other output is only remembered."""
        self.trouble = f"it wrote to its standard output {what}"
        _LOGGER.debug("a tool server wrote %s", what)
        if request is not None:
            error = protocol.ErrorData(code=protocol.PARSE_ERROR, message=self.trouble)
            await self._deliver(SessionMessage(protocol.JSONRPCError(jsonrpc="2.0", id=request, error=error)))


def _answers(line: bytes) -> int | None:
    if b'"id"' not in line:
        return None
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        return None
    request = read.get("id") if isinstance(read, dict) and "method" not in read else None
    return request if isinstance(request, int) else None
