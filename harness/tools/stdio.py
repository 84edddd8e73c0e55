"""The way to a tool server that is a process: messages over its standard input and output, under the leash."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import re
import select
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from threading import Thread
from typing import IO, TYPE_CHECKING, Any, Final

from harness.resilience import Clock, poll_until
from harness.resilience.process import INTENDED, PipedChild, Program
from harness.tools.connection import ToolConnection
from harness.tools.exchange import Connect, ServerDied, Streams, ToolProblem, ToolServerError

if TYPE_CHECKING:
    from harness.tools.lines import LineReader, LineWriter

_LONGEST: Final = 20 * 1024 * 1024
"""Bytes of one message of a server."""
_LOOK: Final = 0.1
"""Seconds between two looks at the process."""
_REST: Final = 0.5
"""Seconds in which the last output of a process that has ended is read, and in which one without output must end."""
_AFTER_EOF: Final = 1.0
"""Seconds that a server may take to end when its standard input has ended."""
_AFTER_SIGTERM: Final = 1.5
LONGEST_LINE: Final = 1024 * 1024
"""Characters of a line of its standard error; the rest of a longer one is left out."""
CUT_BACK: Final = 1024
"""Characters before such a cut that are left out too: they may be the beginning of a secret."""
TOO_LONG: Final = "[left out: the rest of a long line]"
LEFT_OUT: Final = "[left out: it could not be redacted]\n"
_AT_ONCE: Final = 64 * 1024
"""Bytes of its standard error that are read at once."""
_QUIET: Final = 0.3
"""Seconds without output after which a line that has no end yet is written: less than REST, so that it is in the log's
end when a process has died whose descriptor another one holds."""
_Clean = Callable[[str], str]
_LINE_END: Final = re.compile(r"[\r\n]")


def over_stdio(program: Program, log: Path, clock: Clock, clean: _Clean = str, *, longest: int = _LONGEST) -> Connect:
    """Connections to a server that `program` starts; its standard error goes to the end of `log`, through `clean`.

    `longest`: bytes of one message; an answer that is longer is GARBLED.
    """
    return lambda events: ToolConnection(ProcessLink(program, log, clock, clean, longest), events)


class CleanLines:
    """Redacts a text that arrives in parts: by whole lines, so that no secret is cut in two."""

    def __init__(self, clean: _Clean) -> None:
        self._clean = clean
        self._begun = ""
        """A line without its end."""
        self._skips = False
        """Whether the rest of the line is left out."""

    def add(self, part: str) -> str:
        """The lines that are whole with this part."""
        if self._skips:
            end = _LINE_END.search(part)
            self._skips = end is None
            part = part[end.start() :] if end else ""
        text = self._begun + part
        whole = max(map(text.rfind, "\r\n")) + 1
        self._begun = text[whole:]
        done = self._redacted(text[:whole])
        if len(self._begun) > LONGEST_LINE:
            self._skips = True
            done += self.rest()[:-CUT_BACK] + TOO_LONG
        return done

    def rest(self) -> str:
        """The beginning of the line that is not whole."""
        text, self._begun = self._begun, ""
        return self._redacted(text)

    def _redacted(self, text: str) -> str:
        try:
            return self._clean(text) if text else ""
        except Exception:  # noqa: BLE001 - the server must not find its pipe closed, and the log must not have a secret
            return LEFT_OUT


class CleanLog:
    """Writes the standard error of a process into a log without secrets, in a thread that ends with the process.

    The process never waits for it for long, and never finds the pipe closed: whatever fails here, it reads on.
    """

    def __init__(self, log: Path, clean: _Clean) -> None:
        """`errors` is the descriptor for the process. Close it here when the process has it."""
        self._log, self._clean = log, clean
        read, self.errors = os.pipe()
        self._copying = Thread(target=self._copy, args=(read,), name="log of a tool server", daemon=True)
        self._copying.start()

    def _copy(self, read: int) -> None:
        lines, decoder = CleanLines(self._clean), codecs.getincrementaldecoder("utf-8")("replace")
        said = select.poll()
        said.register(read, select.POLLIN)
        try:
            while True:
                if not said.poll(_QUIET * 1000):
                    self._write(lines.rest())
                    said.poll()
                if not (data := os.read(read, _AT_ONCE)):
                    break
                self._write(lines.add(decoder.decode(data)))
            self._write(lines.add(decoder.decode(b"", final=True)) + lines.rest())
        finally:
            os.close(read)

    def _write(self, text: str) -> None:
        if text:
            with contextlib.suppress(OSError), self._log.open("ab", buffering=0) as log:  # a full disk stops nobody
                log.write(text.encode("utf-8", "replace"))

    def close(self) -> None:
        """Close this end of the descriptor, so that its last line is known when the process has ended."""
        os.close(self.errors)

    @property
    def is_whole(self) -> bool:
        """Whether everything is written. What the process has left behind may still hold the descriptor."""
        return not self._copying.is_alive()


class ProcessLink:
    """A process and its pipes."""

    def __init__(self, program: Program, log: Path, clock: Clock, clean: _Clean, longest: int) -> None:
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
                await asyncio.wait((reader,), timeout=_LOOK)
            if child.has_ended():
                await asyncio.wait((reader,), timeout=_REST)
            if await child.wait(_REST):
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
        code = await child.stop(_AFTER_SIGTERM)
        if (said := self._said) is not None:
            await poll_until(self._clock, lambda: said.is_whole, _LOOK, _REST)
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
        await child.wait(_AFTER_EOF)
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
