"""The bridge itself: sessions and tasks meet here. All faces use this one object; it belongs to one loop."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Coroutine, Mapping
from contextvars import copy_context
from typing import Any, Final

import msgspec

from harness.bridge.hooks import HookDesk
from harness.bridge.messages import (
    Act,
    Cancel,
    ClientMessage,
    CommandResult,
    Finish,
    HookEvent,
    ObserveMessage,
    RequestReplay,
    SessionCreate,
    SessionJoin,
    TaskTake,
)
from harness.bridge.refusals import RefusedMessageError, no_session
from harness.bridge.session import ALL_BLOBS, BridgeLimits, BridgeSession, KeptReply, RequestOutlet
from harness.bridge.store import SessionStore, StoredSession
from harness.bridge.turns import Desk, RemoteRules, RemoteTask, Reply, TurnAnswer, described, task_of
from harness.model.agent_events import AgentEvent
from harness.model.events import Event, WriteSeen
from harness.model.plan import Plan
from harness.model.policy import UNLIMITED, AgentPolicy
from harness.model.ports import Observation, Ports, Sight
from harness.model.record import History, TaskEnding
from harness.recovery.failure import Failed
from harness.resilience import Clock
from harness.resilience.breaker import Policy
from harness.resilience.connection import SERVER, Invariants, Machine, snapshot
from harness.resilience.escalate import HINTS, STAGES, LateAnswer, StillRunning, WorkStatus, escalate
from harness.resilience.events import ClientChanged, Emit, Escalated, ResilienceEvent, discard
from harness.values import replace

_LONG: Final = frozenset({"task_take", "observe", "act", "finish", "session_pause", "session_resume"})
"""The messages whose answer may take long: it is kept, and asked for by its correlation id."""
_LAST_WORDS: Final = 0.1
"""Seconds in which answers that are ready are still sent when the bridge ends."""
RETURN_WITHIN: Final = 3.0
"""Seconds after its connection broke in which a client may still come back and hear its verdict, as the bridge ends."""
_LOOKS: Final = 0.05
_POLL: Final = 1000
"""Milliseconds after which a client asks again for pending work."""
_STORED = frozenset({"state", "agent", "client", "folder", "created", "task", "turn", "why"})
LONGEST_TEXT: Final = 4000
"""Characters of an address, a title or a dialog that an observation has."""
_MOST_ROWS: Final = 100
"""Pages, dialogs and held back requests that an observation has."""
_INLINE: Final = 16 * 1024
"""Bytes of a body that a message may contain; a larger one is a blob."""

_AFTER_THE_END: Final = frozenset({"command_result", "synchronize", "request_replay", "session_close", "health_check"})
"""What a session that is over still answers."""
_MISTAKE: Final[Reply] = "error", RefusedMessageError("SYS_INTERNAL_ERROR").payload
_log = logging.getLogger(__name__)


class BridgeHub:
    """Sessions of agents, and the tasks that wait for them."""

    def __init__(
        self,
        clock: Clock,
        desk: Desk,
        limits: BridgeLimits | None = None,
        rules: RemoteRules | None = None,
        emit: Emit = discard,
        store: SessionStore | None = None,
    ) -> None:
        """`store` keeps sessions for the case that this process is killed."""
        self._store = store
        self.clock = clock
        self.desk = desk
        self.limits = limits or BridgeLimits()
        self.rules = rules or RemoteRules()
        self.sessions: dict[str, BridgeSession] = {}
        self.closed: dict[str, BridgeSession] = {}
        """The newest sessions that are over, so that their clients hear it."""
        self._emit = emit
        self._server = Machine("bridge", SERVER)
        self._server.enter("up", "it serves")
        self._invariants = Invariants(emit)
        self.hooks = HookDesk(self.sessions, emit)
        self._tasks: dict[str, RemoteTask] = {}
        """Key of a task -> what an agent does in it, until its end."""
        self._works: set[asyncio.Task[Any]] = set()
        self._changes = {"session_pause": self._paused, "session_resume": self._gone_on}

    # The engine's side.

    def agent(self, wanted_by: str = "") -> HubAgent:
        """The agent for one run of a task. `wanted_by`: the session that has asked for it; empty: any may take it."""
        return HubAgent(self, wanted_by)

    def events_of(self, plan: Plan) -> tuple[AgentEvent, ...]:
        """What the hooks of a task's agent have told so far."""
        task = self._tasks.get(plan.key)
        return tuple(task.events) if task else ()

    def joined(self, ports: Ports) -> Ports:
        """The ports of a task, together with what passes between it and its session beside the steps.

        A write that shows only as its request leaves is written down before the answer comes.
        """

        def emit(event: Event) -> None:
            if isinstance(event, WriteSeen) and (task := self._tasks.get(event.plan.key)):
                task.writes()
            ports.emit(event)

        return replace(ports, emit=emit, agent_events=self.events_of)

    def suspended(self, plan: Plan) -> float:
        """The seconds for which a task was paused, which are not its own."""
        task = self._tasks.get(plan.key)
        return task.suspended if task else 0.0

    def begin(self, plan: Plan, policy: AgentPolicy, wanted_by: str = "") -> RemoteTask:
        """A task that begins."""
        task = self._tasks[plan.key] = RemoteTask(plan, self.rules, self.clock, self.desk, policy, wanted_by)
        return task

    def end(self, key: str, task: RemoteTask) -> None:
        """Forget a task that is over."""
        if self._tasks.get(key) is task:
            del self._tasks[key]

    # Sessions.

    def create(self, wanted: SessionCreate, client: str = "") -> BridgeSession:
        """Open a session. Raises RefusedMessageError if there are too many."""
        if len(self.sessions) >= self.limits.sessions:
            raise RefusedMessageError("SESS_LIMIT", f"there are {self.limits.sessions} sessions already")
        session = BridgeSession(self.clock, self.limits, wanted.agent, wanted.folder, client)
        self._begin(session)
        return session

    def _begin(self, session: BridgeSession) -> None:
        session.forget, session.keep, session.emit = self._forget, self._keep, self._emit
        session.settled = self.judge
        self.sessions[session.id] = session
        session.await_client()
        self._keep(session)

    def judge(self, session: BridgeSession) -> tuple[str, ...]:
        """The rules that the states of server, client and its pings break; each is emitted as InvariantBroken."""
        polling = {"polling": "running" if session.outlet is not None else "stopped"}
        return self._invariants.check({**snapshot([self._server, session.link]), **polling}, session.id)

    def _keep(self, session: BridgeSession) -> None:
        if self._store is not None:
            known = {name: each for name, each in session.summary().items() if name in _STORED}
            stored = StoredSession(session.id, wrote=session.wrote, had=tuple(session.had), **known)
            try:
                self._store.save(stored)
                session.kept = True
            except OSError as error:  # a full disk must not keep a session from its change
                if session.kept:
                    _log.warning("Session %s cannot be resumed after a kill: %s", session.id, error)
                session.kept = False

    def join(self, wanted: SessionJoin) -> BridgeSession:
        """The session that a client goes on with. Raises RefusedMessageError."""
        try:
            return self.going_on(wanted.session)
        except RefusedMessageError as refused:
            self._emit(ClientChanged(wanted.session, "", "detached", "refused", code=refused.code))
            raise

    def going_on(self, name: str) -> BridgeSession:
        """A session that is not over, also one of a server that was killed: it goes on here, and only here.

        Its task, if it had one, begins anew when this run offers it. Raises RefusedMessageError.
        """
        if name in self.sessions or name in self.closed or self._store is None:
            return self.find(name)
        try:
            left = self._store.claim(name)
        except OSError as error:  # whether another server goes on with it is not known
            raise RefusedMessageError("SESS_NOT_RESUMABLE", f"session '{name}' cannot be claimed: {error}") from error
        if left is None:
            raise no_session(name)
        if left.over:
            raise RefusedMessageError("SESS_CLOSED", f"session '{name}' is closed: {left.why}")
        if not left.resumable:
            raise RefusedMessageError("SESS_NOT_RESUMABLE", f"task {left.task} of session '{name}': {left.why_lost}")
        session = BridgeSession(self.clock, self.limits, left.agent, left.folder, left.client)
        session.id, session.resumed, session.had = left.id, True, list(left.had)
        self._begin(session)
        return session

    def be_there(self, session: BridgeSession) -> None:
        """Take a request for a sign that the client is there, unless a connection says so already."""
        if isinstance(session.outlet, RequestOutlet):
            session.outlet.linger()
        elif not session.attached and not session.over:
            outlet = RequestOutlet(session)
            session.attach(outlet)
            outlet.linger()
            self.desk.wake()

    def find(self, name: str) -> BridgeSession:
        """A session that is not over. Raises RefusedMessageError."""
        if (session := self.sessions.get(name)) is not None:
            return session
        if (gone := self.closed.get(name)) is not None:
            raise RefusedMessageError("SESS_CLOSED", f"session '{name}' is closed: {gone.why}")
        raise no_session(name)

    def close(self, session: BridgeSession, why: str) -> None:
        """End a session; a task that it has taken ends as AGENT_LOST, unless it is over."""
        if not session.over:
            session.enter("closed", why)
        self._forget(session)

    def _forget(self, session: BridgeSession) -> None:
        self.sessions.pop(session.id, None)
        self.closed[session.id] = session
        while session.blobs:
            session.drop_blob()
        while len(self.closed) > self.limits.sessions:
            del self.closed[next(iter(self.closed))]
        self.desk.wake()

    async def stop(self, *, resumable: bool = False) -> None:
        """End all sessions, and the work that their clients wait for. Bounded.

        `resumable`: the next server of the project may go on with them, as after a kill.
        """
        if resumable:
            self._close_store()
        else:
            await self._await_returns()
        if self._works:  # the verdict of the last task may be on its way to its client
            await asyncio.wait(tuple(self._works), timeout=_LAST_WORDS)
        for session in tuple(self.sessions.values()):
            if session.outlet is not None:
                session.outlet.cut("SYS_STOPPING")
            self.close(session, "the server ends")
            if session.outlet is not None:
                session.detach(session.outlet)
            await session.pending.close()
        self._server.enter("down", "the server ends")
        for work in tuple(self._works):
            work.cancel()
        await asyncio.gather(*self._works, return_exceptions=True)
        self._close_store()

    async def _await_returns(self) -> None:
        """Wait for clients whose connection broke a moment ago. What they missed is sent to them as they join."""

        def may_return(session: BridgeSession) -> bool:
            gone = session.detached_at
            return session.broken and gone is not None and self.clock.now() - gone < RETURN_WITHIN

        while any(map(may_return, self.sessions.values())):
            await self.clock.sleep(_LOOKS)

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    # Messages of a session.

    def receive(self, session: BridgeSession, message: ClientMessage) -> None:
        """Take a message in; its answers go to the session."""
        self.spawn(self.answer(session, message))

    async def answer(self, session: BridgeSession, message: ClientMessage) -> Reply:
        """Do what a message asks, once, and return the answer after sending it to the session.

        That is a `pending` with the status `timeout` for work that takes longer than the last stage; its real answer
        goes to the session when it is there.
        """
        try:
            if message.type not in _LONG:
                return self._sent(session, message.id, self._at_once(session, message))
            return await self._once(session, message)
        except RefusedMessageError as refused:
            return self._sent(session, message.id, ("error", refused.payload))
        except Exception:  # noqa: BLE001 - a mistake of ours must not leave the client without an answer
            _log.exception("The answer to `%s` failed", message.type)
            return self._sent(session, message.id, _MISTAKE)

    def _sent(self, session: BridgeSession, id: str, reply: Reply) -> Reply:  # noqa: A002
        volatile = reply[0] in ("session_state", "replay_buffer", "health")
        (session.tell if volatile else session.send)(*reply, id)
        return reply

    def _at_once(self, session: BridgeSession, message: ClientMessage) -> Reply:
        if session.over and message.type not in _AFTER_THE_END:
            raise RefusedMessageError("SESS_CLOSED", f"session '{session.id}' is closed: {session.why}")
        match message.payload:
            case CommandResult(correlation_id=name):
                return self._result(session, name)
            case HookEvent() as event:
                return "hook_received", self.hooks.receive(event, session)
            case Cancel(correlation_id=name):
                return self._cancelled(session, name)
            case RequestReplay() as wanted:
                return "replay_buffer", self.replay(session, wanted).payload
        if message.type == "health_check":
            return "health", {"status": "ready"}
        if message.type == "session_close":
            self.close(session, "its client has closed it")
        return "session_state", session.snapshot()

    async def _paused(self, session: BridgeSession) -> Reply:
        """Pause a session; its task's pages are closed. Raises RefusedMessageError, and Failed."""
        async with session.changing:
            if session.state in ("created", "active"):
                session.enter("paused", "its client has paused it")  # from now on, nothing is done in its turn
                try:
                    if task := task_of(session):
                        await task.pause()
                except BaseException:
                    if session.state == "paused":
                        session.enter("active", "it could not be paused")
                    raise
            return "session_state", session.snapshot()

    async def _gone_on(self, session: BridgeSession) -> Reply:
        """Let a paused session go on; its task's pages are opened again. Raises Failed, and it is still paused then."""
        differences: tuple[str, ...] = ()
        async with session.changing:
            if session.state == "paused":
                if task := task_of(session):
                    differences = await task.resume()
                if session.state == "paused":  # it may have been closed meanwhile
                    session.enter("active", "its client goes on")
            told = self._redacted(session, list(differences))
            return "session_state", {**session.snapshot(), "restore_incomplete": told}

    def replay(self, session: BridgeSession, wanted: RequestReplay | SessionJoin) -> Any:
        """What a client missed (`replay.Replay`)."""
        now = self.clock.now()
        if isinstance(wanted, RequestReplay) and wanted.since is not None:
            return session.buffer.since(wanted.since, now)
        return session.buffer.after(wanted.after, wanted.epoch, now)

    def _result(self, session: BridgeSession, name: str) -> Reply:
        kept = session.works.get(name)
        if kept is None or kept.late is None:
            return "pending", {"correlation_id": name, "status": "unknown", "hint": "No work has this id."}
        status = kept.late.status
        if status in (WorkStatus.COMPLETE, WorkStatus.ERROR) and kept.reply is not None:
            return kept.reply
        return "pending", _pending(kept.late, None)

    def _cancelled(self, session: BridgeSession, name: str) -> Reply:
        kept = session.works.get(name)
        if kept is not None:
            kept.quiet = True
        return "pending", {"correlation_id": name, "status": "unknown" if kept is None else "cancelled"}

    async def _once(self, session: BridgeSession, message: ClientMessage) -> Reply:
        """Do the work of a message unless it was done: the same message again gets the same reply."""
        content = [message.type, message.payload.model_dump(mode="json")]  # what tells two with the same id apart
        digest = hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()
        kept = session.replies.get(message.id)
        if kept is None:
            kept = KeptReply(digest)
            session.keep_reply(message.id, kept)
            kept.late = late = session.pending.start(lambda: self._work(session, message), message.type)
            session.works[late.id] = kept
            while len(session.works) > 2 * len(session.replies) + 10:
                del session.works[next(iter(session.works))]
            self.spawn(self._finished(session, message, kept, late))
            return await self._followed(session, message, kept, late)
        if kept.digest != digest:
            raise RefusedMessageError("PROTO_ID_REUSED", f"another message had the id {message.id}", id=message.id)
        kept.quiet = False
        if kept.reply is not None:
            return self._sent(session, message.id, kept.reply)
        assert kept.late is not None
        return await self._followed(session, message, kept, kept.late)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something beside, until the bridge ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._works.add(task)
        task.add_done_callback(self._works.discard)

    async def _finished(
        self, session: BridgeSession, message: ClientMessage, kept: KeptReply, late: LateAnswer[Reply]
    ) -> None:
        """Keep the reply, and send it, however long the work has taken."""
        kept.reply = await late
        if kept.reply[1].get("code") == "SESS_PAUSED":  # asked again after the pause, it is done
            session.replies.pop(message.id, None)
        if not kept.quiet:
            session.send(*kept.reply, message.id)

    async def _followed(
        self, session: BridgeSession, message: ClientMessage, kept: KeptReply, late: LateAnswer[Reply]
    ) -> Reply:
        def tell(event: ResilienceEvent) -> None:
            if isinstance(event, Escalated):
                # It is one of the session's task, if that has one.
                context = task.context.copy() if (task := task_of(session)) else copy_context()
                context.run(self._emit, replace(event, correlation_id=late.id))
                if not kept.quiet and kept.reply is None:
                    session.send("pending", _pending(late, event.waited), message.id)

        async def there() -> Reply:
            return await late

        try:
            policy: Policy[Reply] = escalate(STAGES, name=message.type, emit=tell)
            return await policy(there)()
        except StillRunning:
            return "pending", _pending(late, STAGES[-1])

    async def _work(self, session: BridgeSession, message: ClientMessage) -> Reply:
        """The work of a message; a refusal is its reply, too."""
        try:
            return await self._done(session, message)
        except RefusedMessageError as refused:
            return "error", refused.payload
        except asyncio.CancelledError:  # by `stop`: whoever waits at an HTTP request hears why
            return "error", RefusedMessageError("SYS_STOPPING").payload
        except Failed as failed:
            told = {**described(failed.failure), "severity": str(failed.failure.severity)}
            return "error", self._redacted(session, told)
        except Exception:  # noqa: BLE001 - as above
            _log.exception("`%s` failed", message.type)
            return _MISTAKE

    async def _done(self, session: BridgeSession, message: ClientMessage) -> Reply:
        payload = message.payload
        if session.over:
            raise RefusedMessageError("SESS_CLOSED", f"session '{session.id}' is closed: {session.why}")
        if (change := self._changes.get(message.type)) is not None:
            return await change(session)
        if isinstance(payload, TaskTake):
            if session.task is not None:
                raise RefusedMessageError("SESS_BUSY", f"the session has the task {session.task.task_id}")
            return await self.desk.take(session, payload.task, payload.wait_ms / 1000, self.clock)
        if (task := task_of(session)) is None:
            raise RefusedMessageError("SESS_NO_TASK", "the session has no task, or its task is over")
        if isinstance(payload, ObserveMessage):
            seen = await task.look(payload.turn, screenshot=payload.screenshot)
            return "observation", self._observation(session, payload.turn, seen)
        if isinstance(payload, Act):
            return await task.act(payload.turn, TurnAnswer("act", payload.step))
        assert isinstance(payload, Finish)
        kind = TurnAnswer("gave_up", why=payload.gave_up) if payload.gave_up else TurnAnswer("finish")
        return await task.act(payload.turn, kind)

    def _observation(self, session: BridgeSession, turn: int, seen: Observation) -> dict[str, Any]:
        told = {
            "turn": turn,
            "url": seen.url,
            "title": seen.title,
            "aria": seen.aria,
            "pages": list(seen.pages),
            "page": seen.page,
            "dialogs": [dict(each) for each in seen.dialogs],
            "held_back": list(seen.held_back),
            "left": dict(seen.left),
            "tools": [f"{each.server}.{each.tool.name}" for each in seen.tools],
        }
        told = _shortened(self._redacted(session, told))
        aria = str(told["aria"]).encode()
        if len(aria) > _INLINE:
            told["aria"], told["aria_blob"] = "", self.keep_body(session, "text/plain; charset=utf-8", aria)
        if seen.screenshot is not None:
            told["screenshot_blob"] = self.keep_body(session, "image/png", seen.screenshot)
        return told

    def keep_body(self, session: BridgeSession, kind: str, content: bytes) -> dict[str, Any]:
        """Keep a body outside the messages; returns what a message has in its place."""
        name = hashlib.sha256(content).hexdigest()
        session.keep_blob(name, kind, content)
        while sum(each.blob_bytes for each in self.sessions.values()) > ALL_BLOBS:
            max(self.sessions.values(), key=lambda each: each.blob_bytes).drop_blob()
        return {"sha256": name, "bytes": len(content), "type": kind, "path": f"/blobs/{name}"}

    def blob(self, sha256: str) -> tuple[str, bytes] | None:
        """A body that some session has been sent the name of."""
        places = (*self.sessions.values(), *self.closed.values())
        return next((each.blobs[sha256] for each in places if sha256 in each.blobs), None)

    def _redacted(self, session: BridgeSession, value: Any) -> Any:
        return self.desk.redact(value, task.plan) if (task := task_of(session)) else value


class HubAgent:
    """The agent `bridge` of one run of a task, and of the tasks inside it."""

    def __init__(self, hub: BridgeHub, wanted_by: str = "") -> None:
        self._hub = hub
        self._wanted_by = wanted_by
        self._tasks: dict[str, RemoteTask] = {}

    async def propose(
        self, plan: Plan, history: History, observe: Sight, policy: AgentPolicy = UNLIMITED
    ) -> Mapping[str, Any] | None:
        """The step that the remote agent chooses, unchecked; None when it is done. Raises Failed."""
        hub = self._hub
        if plan.key not in self._tasks:
            self._tasks[plan.key] = hub.begin(plan, policy, self._wanted_by)
        return await self._tasks[plan.key].propose(plan, history, observe)

    def end(self, verdict: TaskEnding | None) -> None:
        """The task is over. `verdict`: None if it has none."""
        for key, task in self._tasks.items():
            self._hub.end(key, task)
            task.end(verdict if verdict is not None and verdict.key == key else None)
        self._tasks.clear()


def _shortened(seen: Mapping[str, Any]) -> dict[str, Any]:
    """What was seen, with its texts cut: a page chooses its title, and a message has to fit into a connection."""

    def short(value: Any) -> Any:
        if isinstance(value, str):
            return value if len(value) <= LONGEST_TEXT else f"{value[:LONGEST_TEXT]}..."
        if isinstance(value, Mapping):
            return {key: short(each) for key, each in value.items()}
        return [short(each) for each in value[:_MOST_ROWS]] if isinstance(value, list) else value

    return {key: value if key == "aria" else short(value) for key, value in seen.items()}


def _pending(late: LateAnswer[Any], waited: float | None) -> dict[str, Any]:
    status = WorkStatus.TIMEOUT if waited == STAGES[-1] else late.status
    told = {"correlation_id": late.id, "status": str(status), "poll_ms": _POLL, "hint": HINTS.get(status, "")}
    return told if waited is None else {**told, "waited": waited}
