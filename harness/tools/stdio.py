"""The way to a tool server that is a process: messages over its standard input and output, under the leash."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from threading import Thread
from typing import IO, TYPE_CHECKING, Any, Final

from harness.resilience import Clock, poll_until
from harness.resilience.process import INTENDED, PipedChild, Program
from harness.tools.connection import ToolConnection
from harness.tools.exchange import Connect, ConnectionEvents, ServerDied, ToolProblem, ToolServerError

if TYPE_CHECKING:
    from harness.tools.lines import LineReader, LineWriter
    from harness.tools.session import Streams

LONGEST: Final = 20 * 1024 * 1024
"""Bytes of one message of a server."""
LOOK: Final = 0.1
"""Seconds between two looks at the process."""
REST: Final = 0.5
"""Seconds in which the last output of a process that has ended is read, and in which one without output must end."""
AFTER_EOF: Final = 1.0
"""Seconds that a server may take to end when its standard input has ended."""
AFTER_SIGTERM: Final = 1.5


LONGEST_LINE: Final = 1024 * 1024
"""Bytes of its standard error that are redacted together: a line, unless it is longer."""
Clean = Callable[[str], str]


def over_stdio(program: Program, log: Path, clock: Clock, clean: Clean = str, *, longest: int = LONGEST) -> Connect:
    """Connections to a server that `program` starts; its standard error goes to the end of `log`, through `clean`.

    `longest`: bytes of one message; an answer that is longer is GARBLED.
    """

    def connect(events: ConnectionEvents) -> ToolConnection:
        return ToolConnection(ProcessLink(program, log, clock, clean, longest), events)

    return connect


class CleanLog:
    """Writes the standard error of a process into a log without secrets, in a thread that ends with the process."""

    def __init__(self, log: Path, clean: Clean) -> None:
        """`errors` is the descriptor for the process. Close it here when the process has it."""
        self._log, self._clean = log, clean
        read, self.errors = os.pipe()
        self._copying = Thread(target=self._copy, args=(read,), name="log of a tool server", daemon=True)
        self._copying.start()

    def _copy(self, read: int) -> None:
        with os.fdopen(read, "rb") as said:
            while line := said.readline(LONGEST_LINE):
                clean = self._clean(line.decode(errors="replace")).encode("utf-8", "replace")
                with contextlib.suppress(OSError), self._log.open("ab", buffering=0) as log:  # a full disk stops nobody
                    log.write(clean)

    def close(self) -> None:
        """Close this end of the descriptor, so that its last line is known when the process has ended."""
        os.close(self.errors)

    @property
    def is_whole(self) -> bool:
        """Whether everything is written. What the process has left behind may still hold the descriptor."""
        return not self._copying.is_alive()


class ProcessLink:
    """A process and its pipes."""

    def __init__(self, program: Program, log: Path, clock: Clock, clean: Clean, longest: int) -> None:
        self._program, self._log, self._clock, self._longest = program, log, clock, longest
        self._clean = clean
        self._child: PipedChild | None = None
        self._said: CleanLog | None = None
        self._input: LineWriter | None = None
        self._output: LineReader | None = None
        self._stopping = False
        self._dumb = False
        """Whether its pipes have ended although it runs."""
        self._ended = asyncio.Event()
        """Set when its process is gone and was reaped."""
        self._died: ServerDied | None = None

    @contextlib.asynccontextmanager
    async def streams(self, over: Callable[[], None]) -> AsyncIterator[Streams]:
        import anyio

        from harness.tools.lines import LineReader, LineWriter

        child = self._start()
        stdin, stdout = child.pipes
        send, receive = anyio.create_memory_object_stream[Any](0)
        self._input = LineWriter(stdin.fileno())
        self._output = LineReader(send.send, self._longest)
        watch = asyncio.create_task(self._watch(child, stdout, self._output, over))
        watch.add_done_callback(lambda _: send.close())
        try:
            yield receive, self._input
        finally:
            self._input.close()
            if not self._ended.is_set():
                watch.cancel()
            await asyncio.wait((watch,))
            receive.close()

    def _start(self) -> PipedChild:
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("a", encoding="utf-8") as log:
                log.write(f"--- started at {self._clock.wall().isoformat(timespec='milliseconds')}\n")
            self._said = CleanLog(self._log, self._clean)
            try:
                self._child = PipedChild(self._program, self._log, self._clock, self._said.errors)
            finally:
                self._said.close()
        except OSError as error:
            raise ToolServerError(ToolProblem.UNREACHED, f"its process did not start: {error}") from error
        return self._child

    async def _watch(self, child: PipedChild, stdout: IO[bytes], output: LineReader, over: Callable[[], None]) -> None:
        """Read its output until it ends, or the process does; then tell."""
        reader = asyncio.create_task(output.read(stdout))
        try:
            while not (reader.done() or child.has_ended() or self._broken):
                await asyncio.wait((reader,), timeout=LOOK)
            if child.has_ended():
                await asyncio.wait((reader,), timeout=REST)
            if await child.wait(REST):
                await self._reap(child)
            self._dumb = self._died is None
            over()
        finally:
            reader.cancel()
            await asyncio.wait((reader,))

    @property
    def _broken(self) -> bool:
        return self._input is not None and self._input.broken

    async def _reap(self, child: PipedChild) -> None:
        """End what it has left in its group, and keep how it ended."""
        code = await child.stop(AFTER_SIGTERM)
        if (said := self._said) is not None:
            await poll_until(self._clock, lambda: said.is_whole, LOOK, REST)
        intended = self._stopping or code == INTENDED
        code = None if code == INTENDED else 128 - code if code is not None and code < 0 else code
        self._died = ServerDied(code, "\n".join(child.tail()), intended)
        self._ended.set()

    async def stop(self) -> None:
        """End its input, then SIGTERM, then SIGKILL to its group: at most about five seconds."""
        child = self._child
        if child is None or self._ended.is_set():
            return
        self._stopping = not child.has_ended()
        with contextlib.suppress(OSError):
            child.pipes[0].close()
        await child.wait(AFTER_EOF)
        await self._reap(child)

    def lost(self, *, sent: bool) -> ToolServerError:
        problem = ToolProblem.LOST if sent else ToolProblem.UNREACHED
        if self._died is not None:
            return ToolServerError(problem, str(self._died), died=self._died)
        if not self._dumb:
            return ToolServerError(problem, "the connection was closed")
        what = "input" if self._broken else "output"
        return ToolServerError(problem, f"its process closed its standard {what}")

    @property
    def trouble(self) -> str:
        return self._output.trouble if self._output is not None else ""

    @property
    def pid(self) -> int | None:
        return self._child.command_pid if self._child is not None and not self._ended.is_set() else None

    @property
    def died(self) -> ServerDied | None:
        return self._died
