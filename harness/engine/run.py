"""The state of a running task."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field

from harness.criteria import STUCK_SECONDS, LateError, PageQuery
from harness.criteria.syntax import Happened
from harness.model.plan import Plan
from harness.model.ports import Json, Ports, Saved, Seat, Stage, WorldCheckpoint
from harness.model.record import Sent, StepRecord, TakeOver, TaskResult, seen_writing
from harness.recovery import GiveUp, Remedy, Rewind
from harness.recovery.catalog import ErrorType, Family
from harness.recovery.failure import Failed, Failure, budget_exceeded
from harness.resilience import Deadline
from harness.spec.agents import SCRIPTED
from harness.spec.names import how_many
from harness.spec.step_keys import ArrivalKeys
from harness.spec.steps import Dialog, Hover, Step, SwitchPage, Type
from harness.spec.url_patterns import RequestPattern
from harness.values import replace

T = TypeVar("T")

# The budget of a task. `max_seconds` is part of the deadline, `max_retries` of the permission.


def overspent(run: Run, *, another: bool) -> TaskStop | None:
    """Return the ending if `another` step would exceed `max_steps`, or if the requests exceed `max_requests`."""
    budget, index = run.plan.spec.budget, run.journal.under_way
    most = budget.max_steps
    if most is None and run.agent is not None:
        most = AGENT_STEPS + (len(run.plan.steps) if run.plan.agent is None else 0)
    if another and most is not None and run.journal.begun >= most:
        usual = "" if budget.max_steps else ", the usual number for agents"
        return _over("max_steps", f"{how_many(most, 'step')}{usual}, and another one was to begin", index)
    sent = run.stage.session.requests
    if budget.max_requests is not None and sent > budget.max_requests:
        words = f"{how_many(budget.max_requests, 'request')}, and the task's pages have sent {sent}"
        return _over("max_requests", words, index)
    return None


AGENT_STEPS = 30
"""The largest number of steps of an agent whose task has no `max_steps`; those of a file that broke are more."""


def _over(limit: str, words: str, index: int) -> TaskStop:
    return TaskStop(budget_exceeded(limit, words), index, GiveUp("aborted"))


# The state of one task so far; kept outside of the run, so that an interruption loses nothing.

_PASSING = (Hover, Type, Dialog, SwitchPage)
"""Acts that do not cause a write by themselves, and do not end the page of the act before."""


class Checkpoint(Struct, frozen=True):
    """The state just before a step (docs/design/checkpoints.md). `page`: None for an empty browser."""

    index: int
    page: Saved | None
    world: WorldCheckpoint


class Suspension(Struct, frozen=True):
    """A time in which the agent's client had paused the task, and its pages were closed."""

    index: int
    """The number of the step before which it was."""
    seconds: float
    differences: tuple[str, ...]
    """What could not be restored, a line each."""


class FailingStep(Struct):
    """A step that failed and has not passed since; going back to a checkpoint does not end that."""

    since: float | None = None
    """The time when its first failed attempt ended, in seconds of the task; None if only an observation failed."""
    attempts: int = 0
    """Failed attempts, without those that a circuit refused, and without invalid proposals of an agent."""
    category: str = ""
    """The `category` of the event of its last failure."""
    chosen: Counter[tuple[Family, type[Remedy]]] = field(default_factory=Counter)
    """The number of remedies so far, by the kinds of failure and remedy."""


class TaskJournal(Struct):
    """The records of a task. The history holds what counts, and a rewind cuts it; the trace is append-only."""

    history: list[StepRecord] = field(default_factory=list)
    """The records of the steps that the agent chose."""
    trace: list[StepRecord] = field(default_factory=list)
    """The records of all that happened: preconditions, repairs, criteria, and repeated steps too."""
    under_way: int = -1
    """The number of the step that runs; -1 before the first."""
    begun: int = 0
    """The number of steps begun, repeated ones included."""
    admitted: bool = False
    """Whether the preconditions held."""
    prepared: bool = False
    """Whether the steps of `before_each` were begun."""
    repaired: set[int] = field(default_factory=set)
    """Numbers of the repairs that were applied: none is applied twice, also if it is for several preconditions."""
    hooked: dict[int, Any] = field(default_factory=dict)
    """Number of a precondition -> what the repair hook has answered: its own writes cannot be seen."""
    inside: list[StepRecord] = field(default_factory=list)
    """The writes of the tasks that ran inside this one, as repairs."""
    allowed: list[RequestPattern] = field(default_factory=list)
    """The requests of the agent that a person has allowed."""
    allowed_tools: set[str] = field(default_factory=set)
    """The tools (`server.tool`) that write, and that a person has allowed the agent to call."""
    start: Checkpoint | None = None
    checkpoints: dict[int, Checkpoint] = field(default_factory=dict)
    unsaved: dict[int, str] = field(default_factory=dict)
    """Checkpoint number -> why it could not be taken."""
    lost_on_the_way: list[float] = field(default_factory=list)
    """The times at which page or browser were lost on the way back to a checkpoint, in seconds of the task."""
    unsure: list[StepRecord] = field(default_factory=list)
    """Writes that a rewind did not undo, or that failed: `done_when` decides before they are done again."""
    unshown: bool = False
    """Whether the environment was as saved when the task went back: no channel showed what the writes had done."""
    relaxed: Failure | None = None
    """The unmet criterion that the relaxed ones replace."""
    failing: dict[Hashable, FailingStep] = field(default_factory=dict)
    """Steps that fail now, by the key that stays the same when a step is done again (`figures.step_key`)."""
    soft: dict[int, TaskStop] = field(default_factory=dict)
    """Number of a step -> the failure of its soft assertion, with which the task ends at last."""
    takeovers: list[TakeOver] = field(default_factory=list)
    """The agents that went on in place of one that failed; going back to a checkpoint does not bring one back."""
    suspensions: list[Suspension] = field(default_factory=list)
    handled: Counter[int] = field(default_factory=Counter)
    """Number of a handler -> how often it was done; going back to a checkpoint does not change that."""
    given_up: set[int] = field(default_factory=set)
    """Numbers of steps for which it was emitted that nothing more is tried."""

    @property
    def suspended(self) -> float:
        """The seconds of all suspensions, which are not the task's."""
        return sum(each.seconds for each in self.suspensions)

    @property
    def set_up(self) -> list[StepRecord]:
        """The records of repairs, until the preconditions hold: until then they may be repeated."""
        return [] if self.admitted else self.repairs

    @property
    def repairs(self) -> list[StepRecord]:
        """The records of all that happened before the first step, with the writes of other tasks."""
        return [*(record for record in self.trace if record.index < 0), *self.inside]

    @property
    def spent(self) -> int:
        """The retries and fallbacks of all steps together; going back to a checkpoint is a retry."""
        return sum(record.spent for record in self.trace)

    def attribute(self, sent: tuple[Sent, ...], *, opening: bool = False) -> None:
        """Add the requests that left the pages since the last act to the record of that act, in both lists.

        A request that left a page before it was replaced belongs to the act before the `open` that replaced it. That
        `open` is still under way if `opening`.
        """
        if not sent:
            return
        acts = [place for place, each in enumerate(self.trace) if each.acted]
        self._charge(tuple(each for each in sent if not each.before), acts[-1:])
        last_opened = bool(acts) and not opening and isinstance(self.trace[acts[-1]].step, ArrivalKeys)
        self._charge(tuple(each for each in sent if each.before), acts[-2:-1] if last_opened else acts[-1:])

    def _charge(self, sent: tuple[Sent, ...], places: list[int]) -> None:
        if not (sent and places):
            return
        (place,) = places
        last = self.trace[place]
        self._tell(last, sent)
        self.pass_on(last.step, sent, place)

    def pass_on(self, step: Step, sent: tuple[Sent, ...], place: int | None = None) -> None:
        """Attribute a step's unsafe requests to the act before it, if it is a hover or typing that writes nothing.

        Such requests are late effects of that act. `place` is the index of the step's record in the trace, if it has
        one. A declared `effect` is believed.
        """
        late = tuple(each for each in sent if each.unsafe and not seen_writing(step, (each,)))
        if not late or step.effect is not None or not isinstance(step, _PASSING):
            return
        acts = (each for each in reversed(self.trace[:place]) if each.acted)
        act = next((each for each in acts if not isinstance(each.step, _PASSING)), None)
        if act is not None and seen_writing(act.step, late):
            self._tell(act, late)

    def shows_write(self, step: Step, sent: Sent) -> bool:
        """Return whether a request that leaves now makes a write of this step, or of the act before it that caused it.

        It is attributed as `attribute` and `pass_on` do it after the step.
        """
        for each in (step, *(record.step for record in reversed(self.trace) if not record.left_out)):
            if each.looks_only or (sent.before and each is step):
                continue
            if seen_writing(each, (sent,)):
                return True
            if each.effect is not None or not isinstance(each, _PASSING):
                return False
        return False

    def _tell(self, record: StepRecord, sent: tuple[Sent, ...]) -> None:
        told = replace(record, sent=(*record.sent, *sent))
        for records in (self.history, self.trace):
            records[:] = [told if each is record else each for each in records]

    def done_before(self, index: int, step: Step, *, by_agent: bool) -> StepRecord | None:
        """The record of this same write before a rewind. An agent may choose it at another position."""
        return next((r for r in self.unsure if r.step == step and (by_agent or r.index == index)), None)

    def crashes(self, since: float) -> int:
        """The number of browser losses since then (seconds of the task) that no fault and no other task caused."""
        attempts = [attempt for record in self.trace for attempt in record.attempts if attempt.t >= since]
        lost = (attempt.outcome for attempt in attempts)
        again = sum(t >= since for t in self.lost_on_the_way)
        return again + sum(isinstance(each, Failure) and counts(each) for each in lost)


def chosen_now(plan: Plan, journal: TaskJournal) -> str | None:
    """The name of the agent that chooses the steps now; None: those of the file are executed."""
    name = journal.takeovers[-1].after if journal.takeovers else plan.agent
    return None if name == SCRIPTED else name


def counts(failure: Failure) -> bool:
    """Return whether a lost page or browser counts against the task (the third is permanent).

    A loss that a fault plan caused, or that was for another task's sake, does not count.
    """
    how = failure.circumstances
    return failure.family is Family.BROWSER and not (how.injected or how.innocent)


class Run(Struct, frozen=True):
    """A plan on its stage. `began` is in monotonic seconds."""

    plan: Plan
    ports: Ports
    stage: Stage
    began: float
    journal: TaskJournal
    run_subtask: Callable[[Plan], Awaitable[TaskResult]]
    """Runs another task in the middle of this one, in the same world."""
    stretch: float = 1.0
    """The factor for `timeout` and `step_timeout` after a rewind."""
    more: float = 0.0
    """Seconds beyond the task's own, for what is done after it."""

    @property
    def seat(self) -> Seat:
        """The pages of the user who acts."""
        return self.stage.session.of()

    @contextmanager
    def acting(self, user: str | None) -> Iterator[None]:
        """Inside, this user acts, and criteria read their pages; None: the first one."""
        before = self.stage.session.act_as(user)
        try:
            yield
        finally:
            self.stage.session.act_as(before)

    @property
    def agent(self) -> str | None:
        """The name of the agent that chooses the steps now; None: those of the file are executed."""
        return chosen_now(self.plan, self.journal)

    @property
    def plan_now(self) -> Plan:
        """The plan, with the agent that chooses the steps now."""
        return replace(self.plan, agent=self.agent) if self.journal.takeovers else self.plan

    @property
    def t(self) -> float:
        """Seconds since the task began."""
        return self.ports.clock.now() - self.began

    @property
    def deadline(self) -> Deadline:
        """The end of the task's time: its `timeout`, or `budget: max_seconds` if less. Suspensions extend it."""
        return Deadline(self.began + self.journal.suspended + min(self.timeout, self.allowance) + self.more)

    @property
    def timeout(self) -> float:
        """Seconds for the whole task."""
        return self.plan.timeout * self.stretch

    @property
    def allowance(self) -> float:
        """Seconds that the budget allows."""
        return self.plan.spec.budget.max_seconds or math.inf

    @property
    def left(self) -> float:
        """Seconds until the task's deadline."""
        return self.deadline.left(self.ports.clock.now())

    def limit(self, step: Step) -> float:
        """Seconds for one attempt at a step."""
        return (self.plan.step_timeout if step.timeout is None else step.timeout) * self.stretch

    async def synchronize(self, until: Deadline) -> None:
        """Synchronize memory with the system under test, if it is kept there (ports.World). Raises Failed."""
        await self.read(self.stage.world.synchronize(), until, "The channel of the memory", {})

    async def read(self, reading: Awaitable[T], until: Deadline, what: str, details: Mapping[str, str]) -> T:
        """Read a channel in time. `what`: its name in the failure. Raises Failed."""
        within = max(SHORTEST_READ, until.left(self.ports.clock.now()))
        try:
            async with asyncio.timeout(within):
                return await reading
        except TimeoutError as error:
            message = f"{what} did not answer within {within:.1f}s"
            raise Failed(Failure("CHANNEL_UNREADABLE", message, details=details, cause=error)) from error

    def world_time(self) -> datetime:
        """The present time for the task: its `time` plus the time that has passed since."""
        if self.plan.start is None:
            return self.ports.clock.wall()
        return self.plan.start + timedelta(seconds=self.t)


class TaskStop(Struct, frozen=True):
    """The early end of a task: the failure, its step, and how to give up."""

    failure: Failure
    index: int
    give_up: GiveUp
    skipped: bool = False
    """Whether the task is left out (`on_precondition_fail: skip_task`)."""


class RewindRequest(Struct, frozen=True):
    """A step failed, and the task goes back to a checkpoint."""

    failure: Failure
    index: int
    checkpoint: Checkpoint
    remedy: Rewind


StepTransition = TaskStop | RewindRequest | None
"""What follows a step; None: the next step."""


SHORTEST_READ = 0.1
"""Seconds for a read of the page even when the attempt's time is over."""


class StepAnswer(Protocol):
    """The answer that the act of a step has got."""

    @property
    def changes(self) -> bool:
        """Whether another read may give another answer."""
        ...

    async def read(self) -> Json:
        """The answer. Raises Failed."""
        ...


def of_user(failure: Failure, user: str) -> Failure:
    """The failure, which tells whose page it is about."""
    return replace(failure, details={**failure.details, "user": user})


class PageSources(Struct, frozen=True):
    """The sources of criteria: the page, the memory and the environment of a run (criteria.Sources)."""

    run: Run
    until: Deadline
    """The deadline of the attempt that evaluates the criterion."""
    answer: StepAnswer | None = None
    """The answer of the tool or the request of the step; None: it has none, or its answer was lost."""
    user: str | None = None
    """The user whose pages are read; None: the one who acts."""

    async def page(self, query: PageQuery, until: float = math.inf) -> Json:
        sources = self.of(query.user) if query.user is not None else self
        return await sources._look(until, lambda seat, within: seat.read(query, within))  # noqa: SLF001 - its own

    def of(self, user: str) -> PageSources:
        return replace(self, user=user)

    async def _look(self, until: float, look: Callable[[Seat, float], Awaitable[T]]) -> T:
        """The result of one look, which gets its seconds. Raises LateError for a page that is merely busy."""
        clock, seat = self.run.ports.clock, self.run.stage.session.of(self.user)
        began = clock.now()
        last = min(self.until.at, began + self.run.plan.step_timeout)
        within = max(SHORTEST_READ, min(until, last) - began)
        try:
            return await look(seat, within)
        except Failed as error:
            failed = error if self.user is None else Failed(of_user(error.failure, self.user))
            stuck = until >= last and clock.now() - began >= STUCK_SECONDS and failed.failure.family is Family.BROWSER
            if failed.failure.type != ErrorType.TIMEOUT_STEP or stuck:
                raise failed from error
            raise LateError(failed) from error

    async def memory(self) -> Mapping[str, Json]:
        await self.run.synchronize(self.until)
        return self.run.stage.world.memory()

    async def channel(self, name: str) -> Json:
        reading = self.run.stage.world.channel(name)
        return await self.run.read(reading, self.until, f"Environment channel {name!r}", {"channel": name})

    async def happened(self, function: str, pattern: str, until: float = math.inf) -> Happened:
        seat = self.run.stage.session.of(self.user)
        if function == "requests":
            wanted = RequestPattern.parse(pattern)
            sent = (each for each in seat.exchanged if wanted.matches(each.method, each.url))
            return Happened([each.as_json() for each in sent])
        if function == "dialogs":
            return Happened([each.as_json() for each in seat.dialogs])
        return await self._look(until, lambda seat, within: seat.happened(function, pattern, within))

    async def result(self) -> Json:
        if self.answer is None:
            message = "`result(...)` has no answer to read: the step has got none, or it was lost"
            raise Failed(Failure("NOTHING_TO_REMEMBER", message))
        return await self.answer.read()

    def now(self) -> datetime:
        return self.run.world_time()

    @property
    def locale(self) -> str | None:
        return self.run.stage.session.of(self.user).locale
