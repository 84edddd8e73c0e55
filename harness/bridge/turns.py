"""The agent side of the bridge: a task offers its turns, a session takes them, and the engine gets the steps."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, Final, Literal, Protocol, TypeVar

from msgspec import Struct, field

from harness.bridge.refusals import RefusedMessageError
from harness.bridge.session import PAUSED_AT_MOST, BridgeSession
from harness.model.agent_events import MOST_EVENTS, AgentEvent
from harness.model.plan import Plan
from harness.model.policy import AgentPolicy
from harness.model.ports import Observation, Resume, Sight
from harness.model.record import History, StepRecord, TaskEnding
from harness.model.warnings import warnings
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock
from harness.spec.validation import ACTS

_NOTED_WITHIN: Final = 5.0
"""Seconds in which it must be possible to write down that a write begins."""


class RemoteRules(Struct, frozen=True):
    """How tasks deal with remote agents."""

    timeout: float = 60.0
    """Seconds for the choice of one step (`timeout` in `[tool.harness.agents.bridge]`)."""
    wait: float = 60.0
    """Seconds until an agent has taken the task."""
    reveal: bool = True
    """Whether the agent is told how its task was judged."""
    name: str = "bridge"
    """The name of the agent, for messages."""


class TurnAnswer(Struct, frozen=True):
    """What the agent decides in a turn."""

    kind: Literal["act", "finish", "gave_up"]
    step: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""


class Turn(Struct, eq=False):
    """One question to the agent: what next?"""

    number: int
    observe: Sight
    answer: asyncio.Future[TurnAnswer]
    context: Context
    """The context variables of the engine's task, to which a look at the page belongs."""
    ends: float
    """The moment at which the agent's time for it is over, as long as nobody is away and nothing is looked at."""
    looks: set[asyncio.Task[Observation]] = field(default_factory=set)


Reply = tuple[str, Mapping[str, Any]]
"""Type and payload of a message."""


class RemoteTask:
    """A task whose steps an agent elsewhere chooses. It lives from its first question until the task's end."""

    def __init__(
        self, plan: Plan, rules: RemoteRules, clock: Clock, desk: Desk, policy: AgentPolicy, wanted_by: str = ""
    ) -> None:
        """`wanted_by`: the session that has asked for it, which alone may take it; empty: any may."""
        self.plan = plan
        self.wanted_by = wanted_by
        self.task_id = plan.task_id
        self.number = 0
        """The number of the present turn."""
        self.session: BridgeSession | None = None
        self.context = copy_context()
        """The context of the task, to which the sinks of events attribute what is emitted in it."""
        self.over: Reply | None = None
        """The message `task_ended`, once the task has ended."""
        self._rules = rules
        self._clock = clock
        self._desk = desk
        self._policy = policy
        self._began = clock.now()
        self._turn: Turn | None = None
        self._acted: asyncio.Future[Reply] | None = None
        """The reply to the step that the engine does now."""
        self._news = asyncio.Event()
        self.events: deque[AgentEvent] = deque(maxlen=MOST_EVENTS)
        """What the agent's hooks have told."""
        self._before: list[dict[str, Any]] = []
        """What agents before this one have done."""
        self._stopped = ""
        """The event by which the agent told that it does nothing more."""
        self._resume: Resume | None = None
        """Opens the pages again; None while they are open."""
        self._suspended_at: float | None = None
        self._suspended = 0.0
        """The seconds of all pauses, which are not the task's."""
        self._pausing = asyncio.Lock()

    # The engine's side.

    async def propose(self, plan: Plan, history: History, observe: Sight) -> Mapping[str, Any] | None:
        """Hand a turn to the session and wait for its step. Raises Failed."""
        self.plan, self.number = plan, self.number + 1
        if self.session is None:
            self._before = steps_before(history)
        else:
            self.session.turns = self.number
        ends = self._clock.now() + self._rules.timeout
        turn = Turn(self.number, observe, asyncio.get_running_loop().create_future(), copy_context(), ends)
        self._turn = turn
        self._tell_outcome(history)
        try:
            if self.session is None:
                await self._be_taken()
            answer = await self._answered(turn)
        finally:
            self._turn = None
            for look in turn.looks:
                look.cancel()
        if answer.kind == "act" and self.session is not None and _may_write(answer.step):
            await self._write_down(self.session)
        if answer.kind == "gave_up":
            raise Failed(Failure("AGENT_GAVE_UP", f"Agent `{self._rules.name}` gave up: {answer.why}"))
        return answer.step if answer.kind == "act" else None

    def writes(self) -> None:
        """A request leaves that makes a write of its step, whose file does not say so."""
        if self.session is not None:
            self.session.begins_to_write()

    async def _write_down(self, session: BridgeSession) -> None:
        """Note that a write begins. Raises Failed if that cannot be kept: after a kill it would be done again."""
        until = self._clock.now() + _NOTED_WITHIN
        while not session.begins_to_write():
            if self._clock.now() >= until:
                message = f"The step was not begun: session {session.id} cannot be written down, and a server that is "
                raise Failed(Failure("ARTIFACTS_UNWRITABLE", f"{message}killed might let it be done twice"))
            await self._clock.sleep(0.2)

    async def _be_taken(self) -> None:
        """Offer the task until a session takes it. Raises Failed."""
        self._desk.offer(self)
        try:
            until = self._clock.now() + self._rules.wait
            while self.session is None and (left := until - self._clock.now()) > 0:
                await self._news_within(left)
        finally:
            self._desk.withdraw(self)
        if self.session is None:
            message = f"Agent `{self._rules.name}`: no agent took the task within {self._rules.wait:g} s"
            advice = "Connect an agent to the address that pytest prints; `--task-bridge-wait` waits longer."
            raise Failed(Failure("AGENT_UNAVAILABLE", message, details={"agent": self._rules.name}, advice=advice))

    async def _answered(self, turn: Turn) -> TurnAnswer:
        """The agent's answer. Its clock stands still while it is away, and while the page is read for it."""
        turn.ends = self._clock.now() + self._rules.timeout
        while not turn.answer.done():
            session, before = self._session(), self._clock.now()
            away, looking = not session.attached, bool(turn.looks)
            paused = session.paused_at is not None
            if self._stopped:
                raise Failed(self._has_stopped())
            left = session.grace_left(before) if away else None if looking else turn.ends - before
            if session.paused_at is not None:
                left = PAUSED_AT_MOST - (before - session.paused_at)
            if left is not None and left <= 0:
                if paused:
                    await self._show_again()
                raise Failed(self._lost(session) if away or paused else self._silent())
            await self._news_within(left, turn.answer)
            if away or looking or paused:
                turn.ends += self._clock.now() - before
            if session.over and not turn.answer.done():
                await self._show_again()
                raise Failed(self._lost(session))
        return turn.answer.result()

    async def _show_again(self) -> None:
        """Open the pages of a task that ends in a pause, or while one begins: they are its evidence."""
        with suppress(Failed):
            await self.resume()

    async def _news_within(self, seconds: float | None, answer: asyncio.Future[TurnAnswer] | None = None) -> None:
        self._news.clear()
        news: asyncio.Future[Any] = asyncio.ensure_future(self._news.wait())
        try:
            awaited: list[asyncio.Future[Any]] = [news] if answer is None else [news, answer]
            await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()

    def _session(self) -> BridgeSession:
        if self.session is None or self.session.over:
            raise Failed(self._lost(self.session))
        return self.session

    def _lost(self, session: BridgeSession | None) -> Failure:
        usual = "its client did not come back in time"
        if session is not None and session.paused_at is not None:
            usual = f"it was paused for more than {PAUSED_AT_MOST / 60:g} minutes"
        why = (session and session.why) or usual
        details = {"agent": self._rules.name, **({"session": session.id, "client": session.client} if session else {})}
        return Failure(
            "AGENT_LOST", f"Agent `{self._rules.name}` was lost in turn {self.number}: {why}", details=details
        )

    def _has_stopped(self) -> Failure:
        message = f"Agent `{self._rules.name}` stopped without `finish` (its hook told `{self._stopped}`)"
        details = {"agent": self._rules.name, "reason": "stopped", "event": self._stopped}
        advice = "Its prompt must ask for `finish`; `agent_events` in partial_trace.json shows what it did last."
        return Failure("AGENT_FAILED", message, details=details, advice=advice)

    def _silent(self) -> Failure:
        message = f"Agent `{self._rules.name}` did not propose a step within {self._rules.timeout:g}s"
        details = {"agent": self._rules.name, **({"session": self.session.id} if self.session else {})}
        return Failure("AGENT_TIMEOUT", message, details=details)

    def _tell_outcome(self, history: History) -> None:
        if self.session is not None and history and history[-1].wrote:
            self.session.begins_to_write()
        acted = self._acted
        if acted is None or acted.done():
            return
        known = ("goal", "inputs", "tools")  # the task's first turn has them
        following = {name: value for name, value in self.question().items() if name not in known}
        payload = self._desk.redact(_outcome_of(history[-1] if history else None), self.plan)
        payload = {**payload, "turn": following}
        if self.session is not None:
            self.session.last_outcome = payload
        self._acted = None
        acted.set_result(("outcome", payload))

    def end(self, verdict: TaskEnding | None) -> None:
        """Tell the agent that the task is over. `verdict`: None if there is none, as after Ctrl-C."""
        told: dict[str, Any] = {"task_id": self.task_id, "turn": self.number}
        if verdict is not None and self._rules.reveal:
            shown = described(verdict.failure) if verdict.failure is not None else {}
            told |= {"passed": verdict.passed, "state": verdict.state, **shown}
        self.over = "task_ended", self._desk.redact(told, self.plan)
        self._desk.withdraw(self)
        acted, session = self._acted, self.session
        if session is not None and session.task is self:
            session.task = None
            session.keep(session)
            session.last_outcome = self.over[1]
        if acted is not None and not acted.done():
            acted.set_result(self.over)
        elif session is not None and not session.over:
            session.send(*self.over)
        self._news.set()

    # The session's side.

    async def pause(self) -> None:
        """Save the browser's session and close its pages; the task's time stands still.

        Raises RefusedMessageError while a step is done or the page is read, and Failed if the session cannot be saved.
        """
        turn = self._turn
        if turn is None or turn.answer.done() or turn.looks:
            raise RefusedMessageError("SESS_NOT_PAUSABLE", "a step is being done, or the page is being read")
        async with self._pausing:
            if self._resume is None:
                loop = asyncio.get_running_loop()
                self._resume = await loop.create_task(_awaited(turn.observe.suspend), context=turn.context)
                self._suspended_at = self._clock.now()

    async def resume(self) -> tuple[str, ...]:
        """Open the pages again; returns what is not as before, a line each. Raises Failed if they cannot be opened."""
        async with self._pausing:
            if self._resume is None or self._turn is None or self._suspended_at is None:
                return ()
            again = asyncio.get_running_loop().create_task(_awaited(self._resume), context=self._turn.context)
            differences = await again
            self._suspended += self._clock.now() - self._suspended_at
            self._resume = self._suspended_at = None
            return differences

    @property
    def suspended(self) -> float:
        """The seconds of all pauses until now."""
        present = 0.0 if self._suspended_at is None else self._clock.now() - self._suspended_at
        return self._suspended + present

    def stop(self, event: str) -> None:
        """The agent does nothing more: its turn, or the next one, ends as AGENT_FAILED."""
        self._stopped = event
        self._news.set()

    def suits(self, session: BridgeSession, task_id: str) -> bool:
        """Whether a session that asks for that id, or for any task, may take it."""
        return self.wanted_by in ("", session.id) and (task_id in ("", self.task_id) or self.wanted_by == session.id)

    def taken_by(self, session: BridgeSession) -> Reply:
        """Give the task to a session; returns its first turn."""
        self.session, session.task, session.last_outcome = session, self, None
        self.number += session.turns  # no number comes twice in a session: an old act is never one of this task
        session.turns, session.tasks = self.number, session.tasks + 1
        if self._turn is not None:
            self._turn.number = self.number
        session.wrote = False
        session.keep(session)
        session.changed = self._news.set
        self._desk.withdraw(self)
        self._news.set()
        before = {"history": self._desk.redact(self._before, self.plan)} if self._before else {}
        return "turn", {**self.question(), **before}

    def question(self) -> dict[str, Any]:
        """The present turn, as messages have it."""
        plan, limits = self.plan, self._rules
        left = max(0.0, plan.timeout - (self._clock.now() - self._began - self.suspended))
        asked: dict[str, Any] = self._desk.redact(
            {
                "turn": self.number,
                "task_id": plan.task_id,
                "goal": plan.spec.goal or "",
                "inputs": plan.spec.inputs,
                "turn_ms": int(limits.timeout * 1000),
                "task_ms": int(left * 1000),
                "tools": sorted(self._desk.acts if self._policy.acts is None else self._policy.acts),
            },
            plan,
        )
        return asked

    def open_turn(self) -> dict[str, Any] | None:
        """The turn that waits for an answer; None while a step is done."""
        turn = self._turn
        return None if turn is None or turn.answer.done() else self.question()

    async def act(self, number: int, answer: TurnAnswer) -> Reply:
        """Answer a turn, and wait for what comes of it. Raises RefusedMessageError if it is over."""
        turn = self._present(number)
        self._acted = asyncio.get_running_loop().create_future()
        turn.answer.set_result(answer)
        session = self.session
        if session is not None:
            session.acts(now=True)
        try:
            return await asyncio.shield(self._acted)
        finally:
            if session is not None:
                session.acts(now=False)

    async def look(self, number: int, *, screenshot: bool) -> Observation:
        """Look at the page. Raises RefusedMessageError, and Failed if the page cannot be read."""
        turn = self._present(number)
        call: Coroutine[Any, Any, Observation] = turn.observe(screenshot=screenshot)
        look = asyncio.get_running_loop().create_task(call, context=turn.context)
        turn.looks.add(look)
        self._news.set()
        try:
            return await look
        except asyncio.CancelledError:
            if look.cancelled():
                raise RefusedMessageError("SESS_TURN_OVER", f"turn {number} ended while the page was read") from None
            raise
        finally:
            turn.looks.discard(look)
            self._news.set()

    def _present(self, number: int) -> Turn:
        turn = self._turn
        if self.session is not None and self.session.state == "paused":
            raise RefusedMessageError("SESS_PAUSED", f"session {self.session.id} is paused")
        if turn is None or turn.number != number or turn.answer.done():
            waits = turn is not None and not turn.answer.done()
            now = f"the present turn is {self.number}" if waits else f"turn {self.number} is answered already"
            ended = "is over" if number <= self.number else "has not begun"
            raise RefusedMessageError("SESS_TURN_OVER", f"turn {number} {ended}: {now}", present=self.number)
        return turn


class AskedTask(Protocol):
    """A task that was started because a session asked for it."""

    @property
    def over(self) -> str:
        """Why it can no longer be taken; empty while it can."""


class TaskSource(Protocol):
    """Starts tasks when sessions ask for them, for a server that has no run of its own."""

    async def listed(self) -> list[dict[str, Any]]:
        """The tasks that there are, as lists show them, and the files that cannot be used."""

    async def start(self, session: BridgeSession, task_id: str) -> AskedTask:
        """Start that task, or the next one for an empty id; the same again until it was taken.

        Raises RefusedMessageError.
        """


class Desk:
    """The tasks that wait for an agent, in pytest's order."""

    source: TaskSource | None = None
    """Where tasks come from that nobody has started yet; None in a run, which offers its own."""

    def __init__(self, acts: tuple[str, ...], redact: Callable[[Any, Plan], Any] = lambda value, _: value) -> None:
        """`redact` masks the secrets of a task in a JSON value."""
        self.acts = acts
        self.redact = redact
        self._offers: list[RemoteTask] = []
        self._news = asyncio.Event()

    def offer(self, task: RemoteTask) -> None:
        self._offers.append(task)
        self._news.set()

    def withdraw(self, task: RemoteTask) -> None:
        if task in self._offers:
            self._offers.remove(task)

    async def offered(self) -> list[dict[str, Any]]:
        """The tasks that can be taken, as lists show them."""
        if self.source is not None:
            return await self.source.listed()
        return [each.question() for each in self._offers]

    def wake(self) -> None:
        """Let those who wait for a task look again."""
        self._news.set()

    async def take(self, session: BridgeSession, task_id: str, within: float, clock: Clock) -> Reply:
        """Take the next task, or that one. Raises RefusedMessageError.

        A session without its client takes none: the task would wait for somebody who may never come.
        """
        until = clock.now() + within
        started = await self.source.start(session, task_id) if self.source is not None else None
        while True:
            if refusal := _untakeable(session):  # another message of the session may have been faster
                raise refusal
            found = next((each for each in self._offers if each.suits(session, task_id)), None)
            if found is not None and session.attached:
                return found.taken_by(session)
            if started is not None and started.over:
                raise RefusedMessageError("SESS_TASK_REFUSED", started.over)
            left = 1.0 if started is not None else until - clock.now()  # one that was started comes, or is over
            if left <= 0:
                raise RefusedMessageError("SESS_NO_TASK", f"no task was offered within {within:g} s")
            self._news.clear()
            try:
                async with asyncio.timeout(min(left, 1.0)):
                    await self._news.wait()
            except TimeoutError:
                continue


def task_of(session: BridgeSession) -> RemoteTask | None:
    """The task that the session has taken."""
    return session.task if isinstance(session.task, RemoteTask) else None


def _untakeable(session: BridgeSession) -> RefusedMessageError | None:
    if session.over:
        return RefusedMessageError("SESS_CLOSED", f"session {session.id} is closed: {session.why}")
    if session.paused_at is not None:
        return RefusedMessageError("SESS_PAUSED", f"session {session.id} is paused")
    if session.task is not None:
        return RefusedMessageError("SESS_BUSY", f"the session has the task {session.task.task_id}")
    return None


T = TypeVar("T")


async def _awaited(call: Callable[[], Awaitable[T]]) -> T:
    return await call()


def steps_before(history: History) -> list[dict[str, Any]]:
    """The steps that were done already, as an agent is told them that goes on after another one."""
    return [
        {"step": each.step.describe(), "passed": each.passed, "code": each.failure.code if each.failure else None}
        for each in history
    ]


def _outcome_of(record: StepRecord | None) -> dict[str, Any]:
    failure = record.failure if record is not None else None
    told = [{"type": each.type, "message": each.message} for each in warnings((record,))] if record is not None else []
    if failure is None:
        return {"passed": True, "failure": None, "warnings": told}
    more = {"retryable": failure.row.retryable, "attempts": len(record.attempts) if record else 0}
    return {"passed": False, "failure": {**described(failure), **more}, "warnings": told}


def _may_write(step: Mapping[str, Any]) -> bool:
    """Whether a proposed step may be one that must not be done twice; what is not known counts as that."""
    act, effect = step.get("act"), step.get("effect")
    model = ACTS.get(act) if isinstance(act, str) else None
    usual = "write" if act in ("api", "tool") or model is None else getattr(model, "usual_effect", "write")
    return (effect or usual) == "write"


def described(failure: Failure) -> dict[str, Any]:
    """A failure, as messages have it."""
    hint = failure.advice or failure.row.hint
    return {"code": failure.code, "message": failure.message, "hint": hint, "category": str(failure.category)}
