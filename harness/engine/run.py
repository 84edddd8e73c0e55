"""What one running task carries through the engine."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from harness.model.plan import Plan
from harness.model.ports import Json, Ports, Saved, Stage, WorldCheckpoint
from harness.model.record import Sent, StepRecord, TaskResult, seen_writing
from harness.recovery import GiveUp, Rewind
from harness.recovery.catalog import Family
from harness.recovery.failure import Failed, Failure
from harness.resilience import Deadline
from harness.spec.steps import Dialog, Hover, Open, Step, SwitchPage, Type

# What a task may use up. `max_seconds` is part of the deadline, `max_retries` of the permission.


def overspent(run: Run, *, another: bool) -> TaskStop | None:
    """The ending, when `another` step would go over `max_steps`, or the requests are over `max_requests`."""
    budget, index = run.plan.spec.budget, run.journal.under_way
    most = budget.max_steps
    if most is None and run.plan.agent is not None:
        most = AGENT_STEPS
    if another and most is not None and run.journal.begun >= most:
        return _ended(f"Budget exceeded: max_steps {most}", index)
    sent = run.stage.session.requests
    if budget.max_requests is not None and sent > budget.max_requests:
        return _ended(f"Budget exceeded: max_requests {budget.max_requests} ({sent} were sent)", index)
    return None


AGENT_STEPS = 30
"""Steps of an agent whose task has no `max_steps`."""


def _ended(message: str, index: int) -> TaskStop:
    return TaskStop(Failure("BUDGET_EXCEEDED", message), index, GiveUp("aborted"))


# What one task has done so far; kept outside of the run, so that an interruption loses nothing.

_PASSING = (Hover, Type, Dialog, SwitchPage)
"""Acts that do not write by what leaves meanwhile, nor end the page of the act before."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state just before a step (docs/design/checkpoints.md). `page`: None for an empty browser."""

    index: int
    page: Saved | None
    world: WorldCheckpoint


@dataclass(slots=True)
class TaskJournal:
    """History is what counts, and a rewind slices it; the trace is append-only."""

    history: list[StepRecord] = field(default_factory=list)
    """Of the steps that the agent chose."""
    trace: list[StepRecord] = field(default_factory=list)
    """All that happened: preconditions, repairs, criteria, and what was done again."""
    under_way: int = -1
    """Number of the step that runs; -1 before the first."""
    begun: int = 0
    """Steps begun, those done again included."""
    admitted: bool = False
    """The preconditions held."""
    start: Checkpoint | None = None
    checkpoints: dict[int, Checkpoint] = field(default_factory=dict)
    unsaved: dict[int, str] = field(default_factory=dict)
    """Checkpoints that could not be taken, and why."""
    lost_on_the_way: list[float] = field(default_factory=list)
    """When page or browser were lost on the way back to a checkpoint, in seconds of the task."""
    unsure: list[StepRecord] = field(default_factory=list)
    """Writes done before a rewind that did not undo them: `done_when` decides before they are done again."""
    unshown: bool = False
    """The environment was as saved when the task went back: no channel showed what the writes had done."""
    relaxed: Failure | None = None
    """The unmet criterion in whose place the relaxed ones hold."""

    @property
    def set_up(self) -> list[StepRecord]:
        """Steps of repairs, as long as the preconditions do not hold: until then they may be done again."""
        return [] if self.admitted else [record for record in self.trace if record.index < 0]

    @property
    def spent(self) -> int:
        """Retries and fallbacks of all steps together; going back to a checkpoint is a retry."""
        return sum(record.spent for record in self.trace)

    def attribute(self, sent: tuple[Sent, ...], *, opening: bool = False) -> None:
        """What has left the pages since the last act is that act's doing: its record gets it, in both lists.

        What left a page before it was left for another one is the doing of the act before that `open`, which is still
        under way when `opening`.
        """
        acts = [place for place, each in enumerate(self.trace) if not each.step.looks_only]
        self._charge(tuple(each for each in sent if not each.before), acts[-1:])
        last_opened = bool(acts) and not opening and isinstance(self.trace[acts[-1]].step, Open)
        self._charge(tuple(each for each in sent if each.before), acts[-2:-1] if last_opened else acts[-1:])

    def _charge(self, sent: tuple[Sent, ...], places: list[int]) -> None:
        if not (sent and places):
            return
        (place,) = places
        last = self.trace[place]
        self._tell(last, sent)
        self.pass_on(last.step, sent, place)

    def pass_on(self, step: Step, sent: tuple[Sent, ...], place: int | None = None) -> None:
        """What left by a step that is no write by it, since it hovers or types, may be late, of the act before.

        `place` is that of its record in the trace, when it has one already. What it says of its effect is believed.
        """
        late = tuple(each for each in sent if each.unsafe and not seen_writing(step, (each,)))
        if not late or step.effect is not None or not isinstance(step, _PASSING):
            return
        acts = (each for each in reversed(self.trace[:place]) if not each.step.looks_only)
        act = next((each for each in acts if not isinstance(each.step, _PASSING)), None)
        if act is not None and seen_writing(act.step, late):
            self._tell(act, late)

    def _tell(self, record: StepRecord, sent: tuple[Sent, ...]) -> None:
        told = replace(record, sent=(*record.sent, *sent))
        for records in (self.history, self.trace):
            records[:] = [told if each is record else each for each in records]

    def done_before(self, index: int, step: Step, *, by_agent: bool) -> StepRecord | None:
        """The record of this very write before a rewind. An agent may choose it at another place."""
        return next((r for r in self.unsure if r.step == step and (by_agent or r.index == index)), None)

    def crashes(self, since: float) -> int:
        """How often the browser was lost since then, in seconds of the task, by no fault and no other task."""
        attempts = [attempt for record in self.trace for attempt in record.attempts if attempt.t >= since]
        lost = (attempt.outcome for attempt in attempts)
        again = sum(t >= since for t in self.lost_on_the_way)
        return again + sum(isinstance(each, Failure) and counts(each) for each in lost)


def counts(failure: Failure) -> bool:
    """Whether a lost page or browser counts against the task (the third is permanent).

    What a fault plan has ended, and what was ended for another task's sake, does not.
    """
    how = failure.circumstances
    return failure.family is Family.BROWSER and not (how.injected or how.innocent)


@dataclass(frozen=True, slots=True)
class Run:
    """A plan on its stage. `began` is monotonic, in seconds."""

    plan: Plan
    ports: Ports
    stage: Stage
    began: float
    journal: TaskJournal
    inside: Callable[[Plan], Awaitable[TaskResult]]
    """Runs another task in the middle of this one, in the same world."""
    stretch: float = 1.0
    """Factor for `timeout` and `step_timeout`, after a rewind."""

    @property
    def t(self) -> float:
        """Seconds since the task began."""
        return self.ports.clock.now() - self.began

    @property
    def deadline(self) -> Deadline:
        """When the task's time is over: its `timeout`, or `budget: max_seconds` when that is less."""
        return Deadline(self.began + min(self.timeout, self.allowance))

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
        """Memory, where the system under test keeps it, as it is now (ports.World). Raises Failed."""
        within = max(SHORTEST_READ, until.left(self.ports.clock.now()))
        try:
            async with asyncio.timeout(within):
                await self.stage.world.synchronize()
        except TimeoutError as error:
            message = f"The channel of the memory did not answer within {within:.1f}s"
            raise Failed(Failure("CHANNEL_UNREADABLE", message, cause=error)) from error

    def world_time(self) -> datetime:
        """Now, as the task sees it: its `time` plus what has passed since."""
        if self.plan.start is None:
            return self.ports.clock.wall()
        return self.plan.start + timedelta(seconds=self.t)


@dataclass(frozen=True, slots=True)
class TaskStop:
    """Why a task ends before its time: the failure, where it was, and how to give up."""

    failure: Failure
    index: int
    give_up: GiveUp
    skipped: bool = False
    """The task is left out (`on_precondition_fail: skip_task`)."""


@dataclass(frozen=True, slots=True)
class RewindRequest:
    """A step failed, and the task is to go back to a checkpoint."""

    failure: Failure
    index: int
    checkpoint: Checkpoint
    remedy: Rewind


StepTransition = TaskStop | RewindRequest | None
"""What follows a step; None: the next one."""


SHORTEST_READ = 0.1
"""Seconds that a look at the page may take even when the attempt's time is over."""


@dataclass(frozen=True, slots=True)
class PageSources:
    """What criteria read from: the page, the memory and the environment of a run (criteria.Sources)."""

    run: Run
    until: Deadline
    """Of the attempt that asks."""

    async def page(self, function: str, selector: str | None, name: str | None) -> Json:
        within = max(SHORTEST_READ, self.until.clip(self.run.plan.step_timeout, self.run.ports.clock.now()))
        return await self.run.stage.session.read(function, selector, name, within)

    async def memory(self) -> Mapping[str, Json]:
        await self.run.synchronize(self.until)
        return self.run.stage.world.memory()

    async def channel(self, name: str) -> Json:
        within = max(SHORTEST_READ, self.until.left(self.run.ports.clock.now()))
        try:
            async with asyncio.timeout(within):
                return await self.run.stage.world.channel(name)
        except TimeoutError as error:
            message = f"Environment channel {name!r} did not answer within {within:.1f}s"
            raise Failed(Failure("CHANNEL_UNREADABLE", message, details={"channel": name}, cause=error)) from error

    def now(self) -> datetime:
        return self.run.world_time()
