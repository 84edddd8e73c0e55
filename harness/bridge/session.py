"""A session: what an agent has at the bridge, whether or not it is connected. It belongs to one loop."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, Protocol
from uuid import uuid4

import msgspec
from msgspec import Struct

from harness.bridge.refusals import RefusedMessageError
from harness.model.ledger import Gone, ItemFacts, why_not
from harness.resilience import Clock
from harness.resilience.connection import EXTENSION, Machine, TransitionTable
from harness.resilience.escalate import KEPT, LateAnswer, PendingWork
from harness.resilience.events import ClientChanged, Emit, discard

_REPLAY_BYTES: Final = 100 * 1024
_REPLAY_SECONDS: Final = 1800.0
THERE: Final = 60.0
"""Seconds after its last request for which such a client counts as being there."""


class Replay(Struct, frozen=True):
    """The messages that a client missed, as far as they are kept."""

    messages: tuple[Mapping[str, Any], ...]
    complete: bool
    """Whether these are all: otherwise the client must ask for the state (`synchronize`)."""
    lost: int
    """How many are missing; of another epoch it is not known, and counts as all before the first one."""

    @property
    def payload(self) -> dict[str, Any]:
        return {"messages": list(self.messages), "complete": self.complete, "lost": self.lost}


class _Sent(Struct, frozen=True):
    message: Mapping[str, Any]
    size: int
    at: float


class ReplayBuffer:
    """Keeps the newest messages, bounded in bytes and in time: a client that was away asks for those that it missed."""

    def __init__(self, epoch: str, most_bytes: int = _REPLAY_BYTES, most_seconds: float = _REPLAY_SECONDS) -> None:
        """`epoch`: names this numbering; after a restart of the server there is another one."""
        self.epoch = epoch
        self.last = 0
        """The number of the newest message."""
        self._most_bytes = most_bytes
        self._most_seconds = most_seconds
        self._kept: deque[_Sent] = deque()
        self.size = 0
        """Bytes of the kept messages."""

    def append(self, message: Mapping[str, Any], now: float) -> dict[str, Any]:
        """Number a message and keep it; a single one above the limit is not kept. `now`: monotonic seconds."""
        self.last += 1
        numbered = {**message, "seq": self.last, "epoch": self.epoch}
        size = len(msgspec.json.encode(numbered))
        self._kept.append(_Sent(numbered, size, now))
        self.size += size
        self._trim(now)
        return numbered

    def after(self, seq: int, epoch: str, now: float) -> Replay:
        """The messages after this number. Without an epoch the number is taken to be of this one."""
        self._trim(now)
        ours = epoch in ("", self.epoch) and seq <= self.last
        known = seq if ours else 0
        found = tuple(each.message for each in self._kept if each.message["seq"] > known)
        lost = self.last - known - len(found)
        return Replay(found, ours and not lost, lost)

    def since(self, moment: datetime, now: float) -> Replay:
        """The messages after a moment; complete only if an older one is kept, too, or none was dropped."""
        self._trim(now)
        found = tuple(each.message for each in self._kept if datetime.fromisoformat(each.message["timestamp"]) > moment)
        dropped = self.last - len(self._kept)
        return Replay(found, not dropped or len(found) < len(self._kept), dropped)

    def _trim(self, now: float) -> None:
        while self._kept and (self.size > self._most_bytes or now - self._kept[0].at > self._most_seconds):
            self.size -= self._kept.popleft().size


_SESSION_STATES: Final = TransitionTable(
    "session",
    "created",
    {
        "created": frozenset({"active", "paused", "closed", "error"}),
        "active": frozenset({"paused", "closed", "error"}),
        "paused": frozenset({"active", "closed", "error"}),
        "error": frozenset({"closed"}),
        "closed": frozenset(),
    },
)
"""created -> active <-> paused -> closed. A lost connection is no state: the session stays active, detached."""
PAUSED_AT_MOST: Final = 1800.0
"""Seconds that a session may be paused."""
REPLIES: Final = 1000
"""Replies that a session keeps by the ids of their messages. What is older is fenced by the turn."""
_BLOBS: Final = 64 * 1024 * 1024
"""Bytes of bodies that a session keeps outside its messages."""
ALL_BLOBS: Final = 256 * 1024 * 1024
"""Bytes of the bodies of all sessions."""


class BridgeLimits(Struct, frozen=True):
    """`[tool.harness.serve]`: what a session may keep, and for how long."""

    grace: float = 300.0
    """Seconds that a session lives without its client."""
    replay_bytes: int = _REPLAY_BYTES
    replay_seconds: float = _REPLAY_SECONDS
    answer_ttl: float = KEPT
    """Seconds that the answer of long work can be asked for after its end."""
    sessions: int = 50


class Outlet(Protocol):
    """The connection to a client, as its session uses it."""

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; never blocks."""

    def cut(self, code: str) -> None:
        """End the connection, with the reason as a code of `WIRE_CODES`."""


class SessionTask(Protocol):
    """The task of a session, as the session shows it."""

    @property
    def task_id(self) -> str: ...

    number: int

    def open_turn(self) -> dict[str, Any] | None: ...


class KeptReply(Struct):
    """The reply to one message, so that the message can come twice and act once."""

    digest: str
    """A digest of the message, without its id and timestamp."""
    reply: tuple[str, Mapping[str, Any]] | None = None
    """Type and payload; None while the work is under way."""
    late: LateAnswer[Any] | None = None
    """The work under way, if it has an id to ask for."""
    quiet: bool = False
    """Whether the client has told that it does not wait."""


class BridgeSession:
    """An agent's session: its messages, its replies, its task."""

    resumed = False
    """Whether it goes on after its server has ended or was killed."""
    tasks = 0
    """The number of tasks that it has taken."""
    turns = 0
    """The number of the newest turn of all its tasks."""
    blob_bytes = 0
    broken = False
    """Whether its last connection broke without a word: its client may not have heard what it was sent last."""
    kept = True
    """Whether it could be written down when it last changed."""

    def __init__(self, clock: Clock, limits: BridgeLimits, agent: str = "", folder: str = "", client: str = "") -> None:
        self.id = f"sess-{uuid4().hex[:12]}"
        self.agent = agent
        self.folder = folder
        self.client = client
        self.created = clock.wall()
        self._clock = clock
        self._limits = limits
        self._machine = Machine(self.id, _SESSION_STATES)
        self.link = Machine(self.id, EXTENSION)
        """000's dimension of the client: disconnected, connected, active while its step is done."""
        self.settled: Callable[[BridgeSession], object] = lambda _: None
        """It is called when all states of a change have been entered, so that invariants can be judged."""
        self.buffer = ReplayBuffer(uuid4().hex[:8], limits.replay_bytes, limits.replay_seconds)
        self.replies: OrderedDict[str, KeptReply] = OrderedDict()
        self.pending = PendingWork(kept=limits.answer_ttl)
        self.works: dict[str, KeptReply] = {}
        """Correlation id -> the reply of that work."""
        self.blobs: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        """SHA-256 -> media type and content."""
        self.task: SessionTask | None = None
        """The task that it has taken; the rest of it is `turns.task_of`."""
        self.last_outcome: Mapping[str, Any] | None = None
        self.wrote = False
        """Whether its task has begun a step that must not be done twice."""
        self.had: list[str] = []
        """Ids of the tasks that a server has run for it: it is given none of them again unless it asks for it."""
        self.paused_at: float | None = None
        self.changing = asyncio.Lock()  # a pause is over before the session goes on, and the other way round
        self.why = ""
        """Why it is closed, or in error."""
        self.outlet: Outlet | None = None
        self.detached_at: float | None = clock.now()
        """The moment at which the client went; None while it is there."""
        self._grace: asyncio.TimerHandle | None = None
        self.changed: Callable[[], None] = lambda: None
        """Called whenever the client comes or goes, or the state changes."""
        self.forget: Callable[[BridgeSession], None] = lambda _: None
        self.keep: Callable[[BridgeSession], None] = lambda _: None
        """Writes it down, so that it outlives its server."""
        self.emit: Emit = discard

    # The state.

    @property
    def state(self) -> str:
        return self._machine.state

    @property
    def attached(self) -> bool:
        return self.detached_at is None

    @property
    def over(self) -> bool:
        return self.state in ("closed", "error")

    def enter(self, state: str, why: str = "") -> None:
        """Enter a state. Raises ForbiddenTransitionError."""
        self._machine.enter(state, why)
        self.paused_at = self._clock.now() if state == "paused" else None
        if self._grace is not None and not self.over:
            self.await_client()  # a paused session waits longer
        if self.over:
            self.why = self.why or why
            self._stop_grace()
        self.keep(self)
        self.changed()

    def begins_to_write(self) -> bool:
        """Note that its task begins a step that must not be done twice; False if that cannot be written down now."""
        if not self.wrote or not self.kept:
            self.wrote = True
            self.keep(self)
        return self.kept

    def has_had(self, task_id: str) -> None:
        """Note that a task was done in it. It is written down."""
        if task_id not in self.had:
            self.had.append(task_id)
            self.keep(self)

    def grace_left(self, now: float) -> float:
        """Seconds that it still waits for its client; the whole grace while that is there."""
        return self._limits.grace - (0.0 if self.detached_at is None else now - self.detached_at)

    # The client comes and goes.

    def attach(self, outlet: Outlet) -> None:
        """From now on this connection has the session; an older one is cut."""
        self._say("detached" if self.outlet is None else "attached", "attached")
        before, self.outlet = self.outlet, outlet
        self.detached_at, self.broken = None, False
        self._stop_grace()
        if before is not None and before is not outlet:
            before.cut("CONN_SUPERSEDED")
        if self.link.state == "disconnected":
            self.link.enter("connected", "its client has joined")
        if self.state == "created":
            self.enter("active")
        self.settled(self)
        self.changed()

    def detach(self, outlet: Outlet, *, broken: bool = False) -> None:
        """The connection is gone; the session waits for the next one. `broken`: no side has closed it."""
        if self.outlet is outlet:
            self.outlet, self.detached_at, self.broken = None, self._clock.now(), broken
            self.link.enter("disconnected", "its connection was lost")
            self.settled(self)
            self._say("attached", "closed" if self.over else "detached", self.why)
            if not self.over:
                self.await_client()
            self.changed()

    def acts(self, *, now: bool) -> None:
        """Note that a step of the agent is being done, or no more."""
        if self.link.state != "disconnected":
            self.link.enter("active" if now else "connected", "a step")
            self.settled(self)

    def _say(self, before: str, after: str, reason: str = "") -> None:
        self.emit(ClientChanged(self.id, self.client, before, after, reason))

    def await_client(self) -> None:
        """Close the session when its client stays away longer than the grace, or than a pause may last."""
        self._stop_grace()
        seconds = self._limits.grace if self.paused_at is None else max(self._limits.grace, PAUSED_AT_MOST)
        self._grace = asyncio.get_running_loop().call_later(seconds, self._grace_over)

    def _grace_over(self) -> None:
        if not self.attached and not self.over:
            paused = self.paused_at is not None
            waited = "the 30 minutes of a pause" if paused else f"{self._limits.grace:g} s"
            self.enter("closed", f"its client did not come back within {waited}")
            self._say("detached", "lost", self.why)
            self.forget(self)

    def _stop_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    # Messages to the client.

    def send(self, type: str, payload: Mapping[str, Any], id: str = "") -> Mapping[str, Any]:  # noqa: A002
        """Number a message, keep it for a replay, and send it if the client is there."""
        message = self.buffer.append(self.envelope(type, payload, id), self._clock.now())
        if self.outlet is not None:
            self.outlet.send(message)
        return message

    def tell(self, type: str, payload: Mapping[str, Any], id: str = "") -> Mapping[str, Any]:  # noqa: A002
        """Send a message about the connection itself: it has no number, since a replay would say nothing with it."""
        message = {**self.envelope(type, payload, id), "epoch": self.buffer.epoch}
        if self.outlet is not None:
            self.outlet.send(message)
        return message

    def envelope(self, type: str, payload: Mapping[str, Any], id: str = "") -> dict[str, Any]:  # noqa: A002
        moment = self._clock.wall().isoformat(timespec="milliseconds")
        return {"type": type, "id": id or str(uuid4()), "timestamp": moment, "payload": dict(payload)}

    def keep_reply(self, id: str, kept: KeptReply) -> None:  # noqa: A002
        """Keep the reply to a message; the oldest finished ones make room. Raises RefusedMessageError if none is."""
        while len(self.replies) >= REPLIES:
            oldest = next((key for key, each in self.replies.items() if each.reply is not None), None)
            if oldest is None:
                raise RefusedMessageError("SESS_BUSY", f"{REPLIES:,} messages of the session wait for their answers")
            del self.replies[oldest]
        self.replies[id] = kept

    def keep_blob(self, sha256: str, kind: str, content: bytes) -> None:
        """Keep a body outside the messages; the oldest ones make room."""
        if sha256 not in self.blobs:
            self.blobs[sha256] = kind, content
            self.blob_bytes += len(content)
        self.blobs.move_to_end(sha256)
        while self.blob_bytes > _BLOBS:
            self.drop_blob()

    def drop_blob(self) -> None:
        """Forget the oldest body."""
        _, (_, content) = self.blobs.popitem(last=False)
        self.blob_bytes -= len(content)

    # What it is.

    def summary(self) -> dict[str, Any]:
        """The session as lists show it."""
        return {
            "session": self.id,
            "state": self.state,
            "attached": self.attached,
            "resumable": not self.over and (self.task is None or not why_not(ItemFacts(wrote=self.wrote), Gone.SERVER)),
            "resumed": self.resumed,
            "agent": self.agent,
            "client": self.client,
            "folder": self.folder,
            "created": self.created.isoformat(timespec="seconds"),
            "task": self.task.task_id if self.task else None,
            "turn": self.task.number if self.task else None,
            "why": self.why,
        }

    def snapshot(self) -> dict[str, Any]:
        """Everything that a client needs to go on (`session_state`)."""
        open_turn = self.task.open_turn() if self.task else None
        return {
            **self.summary(),
            "epoch": self.buffer.epoch,
            "seq": self.buffer.last,
            "open_turn": open_turn,
            "last_outcome": self.last_outcome,
            "pending": [key for key, each in self.works.items() if each.reply is None],
            "grace_ms": int(self._limits.grace * 1000),
        }


class RequestOutlet:
    """What a session has in place of a connection: the client finds its messages in the answers to its requests."""

    def __init__(self, session: BridgeSession) -> None:
        self._session = session
        self._timer: asyncio.TimerHandle | None = None

    def send(self, message: Mapping[str, Any]) -> None:
        """Send nothing; the session keeps the message."""

    def cut(self, code: str) -> None:  # noqa: ARG002 - there is no connection that could be told
        """Count the client as gone no more by time: another connection has the session."""
        if self._timer is not None:
            self._timer.cancel()

    def linger(self) -> None:
        """Count the client as being there for a while from now on."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(THERE, self._session.detach, self)
