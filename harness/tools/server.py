"""One supervised server of tools: it is connected to at its first use, looked at while idle, and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from harness.model.tool_settings import ToolServerSettings
from harness.model.tools import ToolDescription, ToolState
from harness.recovery.failure import Failed
from harness.resilience import Clock, Condition, Supervisor
from harness.resilience.events import Emit, InvariantBroken, ToolServerChanged
from harness.tools.catalogue import Catalogue, Discovery
from harness.tools.exchange import Connection, ConnectionEvents, ServerDied, ServerInfo, ToolProblem, ToolServerError

_GLANCE: Final = 0.5
"""Seconds between two looks at whether a look at the server is due, or a restart was ordered."""
_LOOK_WITHIN: Final = 5.0
"""Seconds that the server may take to answer a look."""
_MISSES: Final = 3
"""The number of looks in a row without an answer after which the server hangs."""
_CLOSED_WITHIN: Final = 10.0
"""Seconds for the end of all connections of a server; each one is bounded by itself."""

_TOLD_AT_CONNECTING: Final = (ToolProblem.UNAUTHORIZED, ToolProblem.BUSY, ToolProblem.GARBLED)

_OF_ONE_CALL: Final = (ToolProblem.UNKNOWN_TOOL, ToolProblem.INVALID_ARGUMENTS, ToolProblem.FORBIDDEN)
"""Refusals that say nothing of other calls: the server is well."""

Connector = Callable[[ConnectionEvents], Awaitable[Connection]]
"""Makes a connection, which is not open yet. Raises Failed if that cannot be done here: a package is missing, ..."""


class ServerTerms(Struct, frozen=True):
    """What a server needs of the run."""

    clock: Clock
    emit: Emit
    connector: Connector
    recover: Callable[[], Awaitable[None]]
    """Restarts the service of the harness behind the server's address, if there is one, and waits for it."""
    noted: Callable[[ToolServer], None]
    """Called after each change of its state or its tools."""
    restart_ordered: Callable[[], bool]
    """Whether a person has ordered a restart since this was last asked."""


class Line:
    """One connection to the server, for the calls that are made over it."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.calls = 0
        self.given_up = False
        """Whether it is to be closed when the last call over it has ended."""

    @property
    def open(self) -> Connection:
        assert self.connection is not None
        return self.connection


class ToolServer:
    """Use it on the harness's loop. All tasks of the process share it."""

    def __init__(self, name: str, settings: ToolServerSettings, terms: ServerTerms) -> None:
        self.name = name
        self.settings = settings
        self.info: ServerInfo | None = None
        self.catalogue = Catalogue()
        self.phase = ToolPhase(name, terms.clock, terms.emit, self._tell)
        self.discovery = Discovery(self.catalogue, self._list_tools, terms.clock, self._tell)
        self.last_death: ServerDied | None = None
        self.last_error = ""
        self._terms = terms
        self._clock = terms.clock
        self._supervisor = Supervisor(terms.clock.now)
        self._line: Line | None = None
        self._connecting: asyncio.Task[ToolServerError | Failed | None] | None = None
        self._sought_at = terms.clock.now()
        """When it was begun to connect."""
        self._watching: asyncio.Task[None] | None = None
        self._looks: asyncio.Task[None] | None = None
        self._ends: set[asyncio.Task[None]] = set()
        """What goes on in the background."""
        self._closings: set[asyncio.Task[None]] = set()
        """Connections that are being closed, which may take seconds."""
        self._users = 0
        self._used_at = terms.clock.now()
        self._recovered = False
        """Whether it has come back since it was last asked for its tools."""
        self._asked = False
        """Whether it was asked for its tools since it was connected to."""
        self._missed = 0
        self._tried = False
        self._intended = False

    @property
    def state(self) -> ToolState:
        return self.phase.state

    @property
    def stdio(self) -> bool:
        return self.settings.command is not None

    @property
    def crashes(self) -> int:
        """Crashes of its process in the last five minutes."""
        return self._supervisor.crashes

    @property
    def pid(self) -> int | None:
        """Its process, while it is used."""
        return self._line.open.pid if self._line and self.state is not ToolState.STOPPED else None

    # For the calls.

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """A call is under way, waits between its tries included: nobody looks meanwhile."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._used_at = self._clock.now()
            if not self._users and self._line is None and self.state is ToolState.CONNECTING and not self._seeking:
                self.phase.note(Sign.LOST, self.last_error)

    async def connected(self, within: float) -> Line:
        """The connection, made anew if there is none; all who need it wait for the same one. Call it `in_use`.

        Raises ToolServerError, or Failed if it cannot be connected to here at all.
        """
        if self._line is None:
            connecting = self._begin_connecting()
            await asyncio.wait((connecting,), timeout=within)
            _raise_of(connecting, self._clock.now() - self._sought_at)
        if self._line is None:
            raise ToolServerError(ToolProblem.UNREACHED, "its connection is lost again", died=self.last_death)
        return self._line

    @contextmanager
    def call_over(self, line: Line, *, listing: bool = False) -> Iterator[Connection]:
        """A call over this connection, which stays open until its end."""
        line.calls += 1
        try:
            yield line.open
        except ToolServerError as error:
            self._take_error(line, error, listing=listing)
            raise
        finally:
            line.calls -= 1
            if line.given_up and not line.calls:
                self._end(line)

    def answered(self, line: Line) -> None:
        """A call over this connection was answered. If the server was away, its tools are listed anew, later."""
        self._missed = 0
        if line is not self._line or self.phase.permanent:
            return
        self._recovered = self._recovered or self.state is not ToolState.ONLINE
        self.phase.note(Sign.ANSWERED)
        if self._recovered:
            self._in_background(self._discover())

    async def know_tools(self, within: float) -> None:
        """Wait until it has listed its tools once, or has failed to since it was connected to. It must be connected."""
        if not self._asked:
            await self.discovery.first(within)

    def intend_death(self) -> None:
        """The next death of its process is intended: it is no crash."""
        self._intended = True

    # Connecting.

    @property
    def _seeking(self) -> bool:
        return self._connecting is not None and not self._connecting.done()

    def begin(self) -> None:
        """Connect in the background and list its tools, if nothing has used it yet."""
        if self.state is ToolState.UNKNOWN:
            self._in_background(self._introduce())

    async def _introduce(self) -> None:
        await asyncio.wait((self._begin_connecting(),))
        if self._line is not None:
            self.discovery.begin()

    def _begin_connecting(self) -> asyncio.Task[ToolServerError | Failed | None]:
        if self._connecting is None or self._connecting.done():
            self._connecting, self._sought_at = self._in_background(self._connect()), self._clock.now()
            self._watching = self._watching or self._in_background(self._look_after())
        return self._connecting

    async def _connect(self) -> ToolServerError | Failed | None:
        """Connect once; a process that dies meanwhile is started again at once, until that is permanent."""
        while True:
            error = await self._attempt()
            if error is None:
                return None
            self.last_error = str(error)
            if not self._starts_again(error):
                return error

    async def _attempt(self) -> ToolServerError | Failed | None:
        if self._users or self.state not in (ToolState.OFFLINE, ToolState.ERROR):
            self.phase.note(Sign.SOUGHT)
        if self._tried and not self.stdio:
            await self._terms.recover()
        self._tried = True
        line = Line()
        events = ConnectionEvents(lambda error: self._lose(line, error), lambda: self._hear_of_change(line))
        try:
            line.connection = await self._terms.connector(events)
            self.info = await line.open.open(self.settings.ready_timeout)
        except (ToolServerError, Failed) as error:
            self._end(line)
            return error
        except BaseException:
            self._end(line)
            raise
        self._line, self._asked, self._missed = line, False, 0
        self._recovered = self.catalogue.stale = self.catalogue.known
        self._supervisor.record_ready()
        self.phase.note(Sign.CONNECTED)
        return None

    def _starts_again(self, error: ToolServerError | Failed) -> bool:
        """Note that connecting has failed; return whether its process is started again at once."""
        if isinstance(error, Failed):
            self.phase.note(Sign.LOST, error.failure.message)
        elif error.problem is ToolProblem.UNAUTHORIZED:
            self.phase.note(Sign.REFUSED, error.message)
        elif error.problem is ToolProblem.GARBLED:
            self.phase.note(Sign.GARBLED, error.message)
        elif self.stdio:
            return self._count_death(error)
        elif not self._users:
            self.phase.note(Sign.LOST, error.message)
        return False

    def _count_death(self, error: ToolServerError) -> bool:
        """Count that its process has died, or could not be started; return whether it is started again."""
        intended = self._intended or (error.died is not None and error.died.intended)
        self._intended, self.last_death, self.last_error = False, error.died or self.last_death, error.message
        condition = self._supervisor.record_death(intended=intended)
        reason = "ended_on_purpose" if intended else f"crash_{self.crashes}"
        if condition is Condition.PERMANENTLY_FAILED:
            self.phase.note(Sign.CRASHED_TOO_OFTEN, reason)
        else:
            self.phase.note(Sign.CRASHED, reason)
        return condition is Condition.RESTARTING

    # What goes wrong with a connection.

    def _take_error(self, line: Line, error: ToolServerError, *, listing: bool) -> None:
        """Note what the error of a call says of the server. A list that fails harms no call, and so no state."""
        if error.problem in (ToolProblem.UNREACHED, ToolProblem.LOST):
            self._lose(line, error)
        elif listing and error.problem is not ToolProblem.UNAUTHORIZED:
            return
        elif error.problem in _OF_ONE_CALL:
            self.answered(line)
        elif line is self._line and error.problem is ToolProblem.UNAUTHORIZED:
            self.phase.note(Sign.REFUSED, error.message)
        elif line is self._line and error.problem is ToolProblem.GARBLED:
            self.phase.note(Sign.GARBLED, error.message)

    def _lose(self, line: Line, error: ToolServerError) -> None:
        """Give the connection up. A dead process is started again at once, off the way of whoever calls."""
        if line is not self._line:
            return
        self._line, self.last_error = None, error.message
        line.given_up = True
        if self.stdio or not line.calls:  # over HTTP, only one of the calls over it is known to have failed
            self._end(line)
        if not self.stdio:
            self.phase.note(Sign.DROPPED if self._users else Sign.LOST, error.message)
        elif self._count_death(error) and not self.phase.permanent:
            self._begin_connecting()

    def _end(self, line: Line) -> None:
        line.given_up = False
        if line.connection:
            closing = self._in_background(line.connection.close())
            self._closings.add(closing)
            closing.add_done_callback(self._closings.discard)

    # Its tools.

    async def _list_tools(self, within: float) -> tuple[ToolDescription, ...]:
        if (line := self._line) is None:
            raise ToolServerError(ToolProblem.UNREACHED, "it is not connected")
        self._asked, self._recovered = True, False
        with self.call_over(line, listing=True) as connection:
            return await connection.list_tools(within)

    async def _discover(self) -> None:
        """List its tools when the answer that has shown its return is on its way to whoever waits for it."""
        await asyncio.sleep(0)
        if self._recovered:
            self.discovery.begin()

    def _hear_of_change(self, line: Line) -> None:
        if line is self._line:
            self.discovery.begin_soon()

    # Supervision.

    async def _look_after(self) -> None:
        """Look at it while it is idle, and listen to orders, until it is closed."""
        while True:
            await self._clock.sleep(_GLANCE)
            self.heed_orders()
            looks = self._looks is not None and not self._looks.done()
            if self._is_due() and not self.phase.permanent and not self._seeking and not looks:
                self._looks = self._in_background(self._look())

    def _is_due(self) -> bool:
        interval = self.settings.health_interval
        return interval > 0 and not self._users and self._clock.now() - self._used_at >= interval

    async def _look(self) -> None:
        """A look takes its time, and orders are listened to meanwhile: a server that hangs is what they are for."""
        try:
            if self._line is None:
                await asyncio.wait((self._begin_connecting(),))
            elif not await self._answers(self._line):
                return
            if self._line is not None:
                self.answered(self._line)
                if self.catalogue.stale or not self.catalogue.known:
                    self.discovery.begin()
        finally:
            self._used_at = self._clock.now()

    async def _answers(self, line: Line) -> bool:
        try:
            with self.call_over(line) as connection:
                await connection.look(_LOOK_WITHIN)
        except ToolServerError as error:
            self._missed += error.problem is ToolProblem.SLOW
            if self._missed >= _MISSES:
                text = f"it did not answer {_MISSES} times in a row within {_LOOK_WITHIN:g} s"
                self._lose(line, ToolServerError(ToolProblem.SLOW, text))
            return False
        return True

    def heed_orders(self) -> None:
        """Restart it if a person has ordered that since this was last called."""
        if self._terms.restart_ordered():
            self.restart()

    def restart(self) -> None:
        """End it and connect anew, by a person's order: its crashes and its refusals are forgotten."""
        self._supervisor.reset()
        self._missed = 0
        line, self._line = self._line, None
        before = self._connecting
        self.phase.note(Sign.ORDERED, "restart_ordered")
        if self.state is not ToolState.CONNECTING:  # nothing has used it yet, or it is closed
            return
        if before is not None:
            before.cancel()
        if line is not None:
            self._end(line)
        self._connecting, self._sought_at = self._in_background(self._connect_after(before)), self._clock.now()

    async def _connect_after(self, before: asyncio.Task[Any] | None) -> ToolServerError | Failed | None:
        """Connect when what was before has ended: there are never two processes of a server."""
        if before is not None and not before.done():
            await asyncio.wait((before,))  # one that was opening ends its connection then
        if self._closings:
            await asyncio.wait(self._closings)
        return await self._connect()

    async def close(self) -> None:
        """End everything that belongs to it. Bounded; it never raises."""
        well = self.state in (ToolState.UNKNOWN, ToolState.ONLINE)
        self.phase.note(Sign.CLOSED, "closed" if well else f"closed while {self.state}: {self.phase.reason}")
        tasks = [task for task in (self._watching, self._looks, self._connecting) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.discovery.cancel()
        if self._line is not None:
            line, self._line = self._line, None
            self._end(line)
        if self._ends:
            await asyncio.wait(self._ends, timeout=_CLOSED_WITHIN)

    def _tell(self) -> None:
        self._terms.noted(self)

    def _in_background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Work that outlives the call that has begun it, and belongs to no task."""
        task = asyncio.create_task(work, context=Context())
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)
        return task


def _raise_of(connecting: asyncio.Task[ToolServerError | Failed | None], waited: float) -> None:
    """Raise the error of a task that has connected, each time as a new one: several calls wait for it."""
    if not connecting.done():
        raise ToolServerError(ToolProblem.UNREACHED, f"it was not ready within {waited:.3g} s")
    if connecting.cancelled():
        raise ToolServerError(ToolProblem.UNREACHED, "it is being restarted or ended")
    match connecting.result():
        case ToolServerError() as error:
            known = error.problem in _TOLD_AT_CONNECTING
            problem = error.problem if known else ToolProblem.UNREACHED  # nothing of a call was sent
            raise ToolServerError(problem, error.message, retry_after=error.retry_after, died=error.died) from error
        case Failed() as failed:
            raise Failed(failed.failure) from failed


# The states of a tool server, as a table: what is noticed of it moves it from one to another.


class Sign(StrEnum):
    """What is noticed of a server."""

    SOUGHT = "sought"
    """A call connects to it; a look does so silently."""
    CONNECTED = "connected"
    ANSWERED = "answered"
    """A call or a look was answered as the protocol demands, also by a refusal of the call."""
    DROPPED = "dropped"
    """Its connection is lost, and a call that is under way connects anew."""
    LOST = "lost"
    """It cannot be reached, or its connection is lost, and nobody tries again now."""
    CRASHED = "crashed"
    """Its process died, or could not be started."""
    CRASHED_TOO_OFTEN = "crashed_too_often"
    REFUSED = "refused"
    """It does not accept the credentials."""
    GARBLED = "garbled"
    """It answers, but not as the protocol demands."""
    ORDERED = "ordered"
    """A person has ordered its restart."""
    CLOSED = "closed"
    """The run, or the task that it belongs to, ends."""


_S = ToolState
_FOUND_BAD: Final = {
    Sign.DROPPED: _S.CONNECTING,
    Sign.LOST: _S.OFFLINE,
    Sign.CRASHED: _S.RESTARTING,
    Sign.CRASHED_TOO_OFTEN: _S.PERMANENTLY_FAILED,
    Sign.REFUSED: _S.REQUIRES_REAUTH,
    Sign.GARBLED: _S.ERROR,
}
"""Where each bad sign leads while the server is in use."""
_BY_PEOPLE: Final = {Sign.ORDERED: _S.CONNECTING, Sign.CLOSED: _S.STOPPED}
_LATE: Final = (*_FOUND_BAD, Sign.ANSWERED)
"""What calls that were under way may still bring when nothing is tried any more."""
_IN_USE: Final = {**_FOUND_BAD, **_BY_PEOPLE, Sign.ANSWERED: _S.ONLINE}
TRANSITIONS: Final[Mapping[ToolState, Mapping[Sign, ToolState]]] = {
    _S.UNKNOWN: {Sign.SOUGHT: _S.CONNECTING, Sign.ORDERED: _S.UNKNOWN, Sign.CLOSED: _S.STOPPED},
    _S.CONNECTING: {**_FOUND_BAD, **_BY_PEOPLE, Sign.SOUGHT: _S.CONNECTING, Sign.CONNECTED: _S.ONLINE},
    _S.ONLINE: _IN_USE,
    _S.OFFLINE: {**_IN_USE, Sign.SOUGHT: _S.CONNECTING, Sign.CONNECTED: _S.ONLINE},
    _S.ERROR: {**_IN_USE, Sign.SOUGHT: _S.CONNECTING, Sign.CONNECTED: _S.ONLINE},
    _S.RESTARTING: {**_FOUND_BAD, **_BY_PEOPLE, Sign.SOUGHT: _S.RESTARTING, Sign.CONNECTED: _S.ONLINE},
    _S.REQUIRES_REAUTH: {**dict.fromkeys(_LATE, _S.REQUIRES_REAUTH), **_BY_PEOPLE},
    _S.PERMANENTLY_FAILED: {**dict.fromkeys(_LATE, _S.PERMANENTLY_FAILED), **_BY_PEOPLE},
    _S.STOPPED: dict.fromkeys((*_LATE, Sign.ORDERED, Sign.CLOSED), _S.STOPPED),
}
"""State -> sign -> the state that follows. A sign that the table lacks is a defect: reported as an InvariantBroken."""
PERMANENT: Final = frozenset({_S.REQUIRES_REAUTH, _S.PERMANENTLY_FAILED, _S.STOPPED})
"""The states that only a person, or nobody, ends: a call is answered at once."""


class ToolPhase:
    """The state of a server; each change is emitted, with a short reason (`crash_1`, `connected`)."""

    def __init__(self, server: str, clock: Clock, emit: Emit, changed: Callable[[], None]) -> None:
        self._server = server
        self._clock = clock
        self._emit = emit
        self._changed = changed
        self.state = ToolState.UNKNOWN
        self.reason = ""
        self.since: datetime = clock.wall()

    @property
    def permanent(self) -> bool:
        return self.state in PERMANENT

    def note(self, sign: Sign, reason: str = "") -> None:
        """Go where the sign leads. `reason`: in words or short; default: the sign itself."""
        before, after = self.state, TRANSITIONS[self.state].get(sign)
        if after is None:
            states = {"server": self._server, "state": before.value, "sign": sign.value, "reason": reason}
            self._emit(InvariantBroken("tool server: a sign that its state does not know", states))
            return
        if after is before:
            if sign is Sign.CRASHED:
                self.reason = reason
                self._changed()
            return
        self.state, self.reason, self.since = after, reason or sign.value, self._clock.wall()
        self._emit(ToolServerChanged(self._server, before.value, after.value, self.reason))
        self._changed()
