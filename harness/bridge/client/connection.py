"""The connection of an agent to the bridge: it is made again after a loss, and no message is done twice or lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from enum import StrEnum
from types import TracebackType
from typing import Any, Final
from uuid import uuid4

from msgspec import Struct

from harness.bridge.client.link import BridgeLink, OpenLink, bridge_url, certificate_of, fetch_blob, open_link, read_pin
from harness.bridge.client.losses import BridgeError, LinkLost, QueueFullError, ReconnectionExhausted, refusal
from harness.bridge.client.tasks import TakenTask
from harness.resilience.breaker import Breaker, BreakerSettings, CircuitOpen
from harness.resilience.clock import Clock, SystemClock
from harness.resilience.retry import SCHEDULES

_CLIENT: Final = "pytest-taskspec python client"
_JOINED_WITHIN: Final = 10.0
"""Seconds for the messages by which a connection begins."""
_CLOSED_WITHIN: Final = 2.0
"""Seconds that the end of a session may take."""
_SHORTEST_POLL: Final = 0.2
"""Seconds between two questions for a pending answer, at least."""
_NO_MORE: Final = ("SESS_NO_TASK", "SYS_STOPPING")
"""The refusals that mean: there is no task."""
_CIRCUIT: Final = BreakerSettings(failure_threshold=5, success_threshold=1, reset_seconds=30.0)

_log = logging.getLogger("harness.bridge.client")


class LinkState(StrEnum):
    """How the connection of a client is."""

    CONNECTING = "connecting"
    JOINED = "joined"
    AWAY = "away"
    """It was lost, and is being made again."""
    CLOSED = "closed"
    FAILED = "failed"
    """There will be no further attempt; `reconnect` begins anew."""


# What was asked and not answered, and when it is tried to connect again. Pure.

_LONGEST_QUEUE: Final = 1000
"""Messages that wait for the connection at most."""
_LARGEST_QUEUE: Final = 1024 * 1024
"""Bytes of the messages that wait for the connection at most."""
_TICK: Final = 0.001
"""Seconds by which a wait for the circuit is longer, so that it never ends just too early."""


class KeptMessage(Struct):
    """A message without an answer yet. It keeps its id for ever: the server knows by it what it has done already."""

    id: str
    text: str
    size: int
    sent: bool = False


class Outbox:
    """The messages without an answer, in the order in which they were given."""

    def __init__(self) -> None:
        self._kept: dict[str, KeptMessage] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, id: str, text: str) -> None:  # noqa: A002 - the envelope's word
        """Keep a message until it is answered. Raises QueueFullError, and keeps what it has."""
        size = len(text.encode())
        if len(self._kept) >= _LONGEST_QUEUE or self._size + size > _LARGEST_QUEUE:
            limits = f"{_LONGEST_QUEUE:,} messages or {_LARGEST_QUEUE:,} bytes"
            raise QueueFullError("CONN_QUEUE_FULL", f"more than {limits} wait for an answer of the server")
        self._kept[id] = KeptMessage(id, text, size)
        self._size += size

    def answered(self, id: str) -> None:  # noqa: A002 - the envelope's word
        """Forget a message: its answer has come, or nobody waits for it."""
        if (found := self._kept.pop(id, None)) is not None:
            self._size -= found.size

    def unsent(self) -> Iterator[KeptMessage]:
        """What has to be sent on this connection, in order; what is added meanwhile comes too."""
        while (found := next((each for each in self._kept.values() if not each.sent), None)) is not None:
            found.sent = True
            yield found

    def again(self, id: str) -> None:  # noqa: A002 - the envelope's word
        """Send a message once more: its answer is missing, and the server keeps it under the same id."""
        if (found := self._kept.get(id)) is not None:
            found.sent = False

    def lost(self) -> None:
        """The connection was lost: whether the server has what was sent is unknown, so all of it is sent again."""
        for each in self._kept.values():
            each.sent = False

    def clear(self) -> None:
        """Forget everything: those who waited were told that it failed."""
        self._kept.clear()
        self._size = 0


class Attempts:
    """The waits before each attempt to connect, after a loss or a failed first attempt."""

    def __init__(self, delays: tuple[float, ...], circuit: Breaker) -> None:
        self._left = list(delays)
        self._circuit = circuit
        self._first = True

    def wait(self, loss: LinkLost) -> float | None:
        """Seconds until the next attempt; None: there is none.

        An open circuit makes a wait longer: its next attempt is the probe.
        """
        first, self._first = self._first, False
        if first and loss.at_once:
            return 0.0
        if not self._left:
            return None
        rests = self._circuit.rests_for()
        return max(self._left.pop(0), rests + _TICK if rests else 0.0)


class _Waiting:
    def __init__(self, takes_pending: bool) -> None:
        self.answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.takes_pending = takes_pending
        """Whether `pending` is an answer, as it is for `command_result`."""
        self.following: asyncio.Task[None] | None = None


class Bridge:
    """An agent's session at a bridge. Use it with `async with`; each session works on one task at a time.

    After a loss the connection is made again after 1, 2, 5, 10 and 30 s, the first time at once if the loss showed
    itself within 2 s. Messages wait meanwhile, 1,000 or 1 MiB at most, and are sent in order with the same ids: the
    server does none of them twice.

    `session`: the id of a session to go on with. `pin`: the SHA-256 of a self-signed certificate. `delays`: seconds
    before each attempt after a loss. `tell` gets a sentence when the connection changes.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        agent: str = "",
        folder: str = "",
        session: str = "",
        pin: str = "",
        delays: tuple[float, ...] = SCHEDULES["reconnect"],
        clock: Clock | None = None,
        connect: OpenLink | None = None,
        tell: Callable[[str], None] = _log.info,
    ) -> None:
        """Raises ValueError for a bad address or pin."""
        self.url = address = bridge_url(url)
        self._pin = digits = read_pin(pin)
        self.session = session
        self.state = LinkState.CONNECTING
        self.status: dict[str, Any] = {}
        """What the server said last about the session."""
        self.epoch = ""
        self.seq = 0
        """The number of the last message of the server."""
        self._hello = {"token": token, "client": _CLIENT}
        self._session = {"agent": agent, "folder": folder}
        self._delays = delays
        self._clock = clock or SystemClock()
        self._open = connect or (lambda: open_link(address, digits))
        self._tell = tell
        self.circuit = Breaker(f"bridge:{address}", _CIRCUIT, now=self._clock.now)
        self._outbox = Outbox()
        self._waiting: dict[str, _Waiting] = {}
        self._link: BridgeLink | None = None
        self._sending = asyncio.Lock()
        self._keeper: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._failure: BridgeError | None = None
        self._task: TakenTask | None = None
        self._found: TakenTask | None = None

    # What an agent does.

    async def __aenter__(self) -> Bridge:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect, and open or join the session. Raises ReconnectionExhausted and ConnectionRefusedForGood."""
        try:
            link = await self._connect(SCHEDULES["connect"], None)
        except BridgeError as error:
            self._fail(error, LinkState.FAILED)  # a request would wait for ever
            raise
        self.state, self._link = LinkState.JOINED, link
        self._keeper = asyncio.create_task(self._keep(link))

    async def reconnect(self) -> None:
        """Begin anew after the attempts have failed. Raises as `open` does, at once while the circuit is open."""
        if self.state is LinkState.FAILED:
            self._failure = None
            await self.open()

    async def close(self) -> None:
        """Close the session, and with it a task that was not finished. This never fails."""
        if self.state is LinkState.JOINED:
            with contextlib.suppress(BridgeError, TimeoutError):
                async with asyncio.timeout(_CLOSED_WITHIN):
                    await self.request("session_close")
        await self.detach()

    async def detach(self) -> None:
        """Close the connection alone: within the server's grace, `Bridge(..., session=ID)` goes on."""
        self.state, link, self._link = LinkState.CLOSED, self._link, None
        self._fail(BridgeError("CONN_CLOSED", "the bridge was closed"), LinkState.CLOSED)
        try:
            for each in (self._keeper, *self._background):
                if each is not None:
                    each.cancel()
                    await asyncio.wait({each})
        finally:
            if link is not None:
                await link.close()

    async def take(self, task: str = "", *, wait: float = 30.0) -> TakenTask | None:
        """Take the next task that is offered, or the one with that id. A joined session gives the one that it has.

        None: there is none in `wait` seconds, or the run is over.
        """
        if (found := self._left()) is not None:
            return found
        try:
            answer = await self.request("task_take", task=task, wait_ms=round(wait * 1000))
        except BridgeError as error:
            if error.code in _NO_MORE:
                return None
            if error.code == "SESS_BUSY" and (found := self._left()) is not None:
                return found
            raise
        self._task = TakenTask(self, answer["payload"])
        return self._task

    def _left(self) -> TakenTask | None:
        """The task that is this session's, and that nobody here has."""
        found, self._found = self._found, None
        return found if found is not None and not found.over else None

    async def blob(self, sha256: str) -> bytes:
        """A body that a message named, such as a screenshot. Raises BridgeError if the server no longer has it."""
        certificate = await certificate_of(self.url, self._pin) if self._pin else b""
        return await fetch_blob(self.url, self._hello["token"], sha256, certificate)

    async def request(self, type: str, /, **payload: Any) -> dict[str, Any]:  # noqa: A002 - the envelope's word
        """Send one message of messages.py and return its answer, over losses of the connection and long work.

        Raises MessageRefusedError, QueueFullError, and what ended the connection.
        """
        if self._failure is not None:
            raise self._failure
        message = self._message(type, payload)
        number, waiting = message["id"], _Waiting(takes_pending=type == "command_result")
        self._outbox.add(number, json.dumps(message))
        self._waiting[number] = waiting
        try:
            await self._flush()
            return await waiting.answer
        finally:
            self._outbox.answered(number)
            del self._waiting[number]
            if waiting.following is not None:
                waiting.following.cancel()

    # The connection.

    async def _connect(self, delays: tuple[float, ...], loss: LinkLost | None) -> BridgeLink:
        """Attempt until one succeeds; `loss` is what happened before the first."""
        attempts, count = Attempts(delays, self.circuit), 0
        while True:
            if loss is not None:
                wait = attempts.wait(loss)
                if wait is None:
                    told = f"{count} attempts to connect failed, the last: {loss.message}"
                    raise ReconnectionExhausted("CONN_RECONNECTION_EXHAUSTED", told, {"attempts": count})
                self._tell(f"{loss.message}; the next attempt is {f'in {wait:.0f} s' if wait else 'made at once'}")
                await self._clock.sleep(wait)
            count += 1
            try:
                return await self._attempt()
            except LinkLost as error:
                loss = error

    async def _attempt(self) -> BridgeLink:
        try:
            ticket = self.circuit.admit()
        except CircuitOpen as refused:
            raise ReconnectionExhausted("CONN_CIRCUIT_OPEN", str(refused)) from refused
        try:
            link = await self._open()
            await self._begin(link)
            ticket.succeeded()
            return link
        except LinkLost as error:
            ticket.failed(error.message)
            raise
        finally:
            ticket.released()

    async def _begin(self, link: BridgeLink) -> None:
        try:
            async with asyncio.timeout(_JOINED_WITHIN):
                await self._join(link)
        except TimeoutError as error:
            await link.close()
            raise LinkLost("CONN_CONNECT_FAILED", "the server does not answer the first messages") from error
        except BaseException:
            await link.close()
            raise

    async def _join(self, link: BridgeLink) -> None:
        """The messages by which a connection begins: who this is, the session, and what was missed."""
        await self._exchange(link, "auth", self._hello)
        if not self.session:
            self.status = await self._exchange(link, "session_create", self._session)
            self.session = str(self.status["session"])
            return
        join = {"session": self.session, "after": self.seq, "epoch": self.epoch}
        if not self.epoch:  # a session of another process: there is nothing to go on from but its present state
            self.status = await self._exchange(link, "session_join", join)
            self.seq = int(self.status.get("seq") or 0)
            if turn := self.status.get("open_turn"):  # the task that the session has; `take` will return it
                self._task = self._found = TakenTask(self, turn)
            return
        replay = await self._exchange(link, "session_join", join, until="replay_buffer")
        if not replay["complete"]:
            self.status = await self._exchange(link, "synchronize", {})

    async def _exchange(
        self,
        link: BridgeLink,
        type: str,  # noqa: A002
        payload: Mapping[str, Any],
        until: str = "",
    ) -> dict[str, Any]:
        """One message and its answer, before the session's messages flow. `until`: the type of the last answer."""
        message = self._message(type, payload)
        await link.send(json.dumps(message))
        while True:
            answer = json.loads(await link.receive())
            mine = answer.get("id") == message["id"]
            if mine and answer["type"] in ("error", "connection_error"):
                raise refusal(answer["payload"], joining=True)
            self._take_in(answer)
            if mine and until in ("", answer["type"]):
                found: dict[str, Any] = answer["payload"]
                return found

    async def _keep(self, link: BridgeLink) -> None:
        """Read, and connect again after each loss, until that is useless."""
        try:
            while True:
                loss = await self._serve(link)
                self.state, self._link = LinkState.AWAY, None
                self._outbox.lost()
                await link.close()
                link = await self._connect(self._delays, loss)
                self.state, self._link = LinkState.JOINED, link
                self._tell(f"connected again, session {self.session}")
        except BridgeError as error:
            await self._give_up(link, error)
        except Exception as error:  # noqa: BLE001 - what the server sent, or `tell`: nobody may wait for ever
            _log.exception("The bridge's connection is given up")
            await self._give_up(link, BridgeError("CONN_FAILED", f"{type(error).__name__}: {error}"))

    async def _give_up(self, link: BridgeLink, error: BridgeError) -> None:
        self._link = None
        self._fail(error, LinkState.FAILED)
        await link.close()
        self._tell(str(error))

    async def _serve(self, link: BridgeLink) -> LinkLost:
        """Take in messages until the connection is lost. What waits for it is sent first."""
        self._in_background(self._flush())
        try:
            while True:
                self._take_in(json.loads(await link.receive()))
        except LinkLost as loss:
            return loss

    async def _flush(self) -> None:
        """Send what was not sent on this connection, in order. A loss is the reader's to see."""
        async with self._sending:
            link = self._link
            if link is None:
                return
            for each in self._outbox.unsent():
                try:
                    await link.send(each.text)
                except BridgeError:
                    each.sent = False
                    return
                except asyncio.CancelledError:
                    each.sent = False  # whether it was is unknown, and the server does none twice
                    raise

    def _message(self, type: str, payload: Mapping[str, Any]) -> dict[str, Any]:  # noqa: A002
        moment = self._clock.wall().isoformat(timespec="milliseconds")
        return {"type": type, "id": str(uuid4()), "timestamp": moment, "payload": payload}

    def _fail(self, error: BridgeError, state: LinkState) -> None:
        """Everybody who waits is told, and nothing that waited is sent later: its sender has given it up."""
        self._failure, self.state = error, state
        self._outbox.clear()
        for each in self._waiting.values():
            if not each.answer.done():
                each.answer.set_exception(error)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    # What the server sends.

    def _take_in(self, message: dict[str, Any]) -> None:
        """Take in one message. One that was seen before is an answer that is waited for, or nothing."""
        kind, payload = message["type"], message["payload"]
        waiting = self._waiting.get(message.get("id", ""))
        if kind == "connection_error":
            raise refusal({"recoverable": False, **payload})
        if kind == "replay_buffer":
            for each in payload["messages"]:
                self._take_in(each)
        elif not self._is_new(message) and waiting is None:
            return
        if kind == "turn" and waiting is None:  # whoever asked has given up: the next one gets it
            self._task = self._found = TakenTask(self, payload)
        if kind == "task_ended" and self._task is not None:
            self._task.has_ended(payload)
        if waiting is not None and not waiting.answer.done():
            self._answer(waiting, message)

    def _is_new(self, message: Mapping[str, Any]) -> bool:
        seq, epoch = message.get("seq"), message.get("epoch", self.epoch)
        if seq is None:
            self.epoch = self.epoch or str(epoch)
            return True
        if epoch == self.epoch and seq <= self.seq:
            return False
        self.epoch, self.seq = epoch, seq
        return True

    def _answer(self, waiting: _Waiting, message: dict[str, Any]) -> None:
        kind, payload = message["type"], message["payload"]
        if kind == "pending" and not waiting.takes_pending:
            if waiting.following is None:
                waiting.following = self._in_background(self._follow(waiting, message))
        elif kind in ("error", "tool_error"):
            waiting.answer.set_exception(refusal(payload))
        else:
            waiting.answer.set_result(message)

    async def _follow(self, waiting: _Waiting, pending: Mapping[str, Any]) -> None:
        """Ask for the answer of long work until it is there."""
        number, payload = str(pending["id"]), pending["payload"]
        try:
            while not waiting.answer.done():
                await self._clock.sleep(max(_SHORTEST_POLL, payload.get("poll_ms", 1000) / 1000))
                answer = await self.request("command_result", correlation_id=payload["correlation_id"])
                if answer["type"] != "pending":
                    if not waiting.answer.done():
                        waiting.answer.set_result(answer)
                elif answer["payload"].get("status") in ("expired", "unknown"):
                    self._outbox.again(number)  # the answer is kept by the message's id, too
                    await self._flush()
        except BridgeError as error:
            if not waiting.answer.done():
                waiting.answer.set_exception(error)
