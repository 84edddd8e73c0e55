"""What must hold: preconditions before the first step, state bindings after steps, success criteria at the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from harness.criteria import Criterion, CriterionError, lookup, memory_lookup, parse
from harness.engine.attempt import StepRequest, attempt
from harness.engine.checkpoints import begun
from harness.engine.run import Run, StepTransition, TaskStop, overspent
from harness.engine.step import do_step
from harness.model.plan import Plan, ReadyRepair
from harness.model.ports import Json, LeftOut
from harness.model.record import StepRecord
from harness.recovery import RepairPrecondition, Trust
from harness.recovery.catalog import Family
from harness.recovery.failure import Failed, Failure, Passed
from harness.spec.steps import Assert, Step
from harness.spec.task import StateBinding

T = TypeVar("T")
ENVIRONMENT = "environment"
"""Who wrote a memory entry."""


async def consistent(run: Run, index: int, step: Step | None) -> StepTransition:
    """Compare what is bound, after a step that may have changed it (None: at the end of the task)."""
    if step is not None and not (step.may_change or step.remember):
        return None
    if run.plan.spec.state_bindings:
        await run.synchronize(run.deadline)
    for key, binding in run.plan.spec.state_bindings.items():
        if _known(run, key) is None:
            continue  # nothing is remembered yet
        request = StepRequest(index, Assert(expr=_equal(key, binding)), "STATE_INCONSISTENT", _Truth(run, key, binding))
        record, turn = await do_step(run, request)
        if record.answers or turn:
            run.journal.trace.append(record)
        if turn:
            return turn
    return None


def _equal(key: str, binding: StateBinding) -> str:
    memory, channel, path = (json.dumps(each, ensure_ascii=False) for each in (key, binding.channel, binding.path))
    return f"mem({memory}) == json({channel}, {path})"


def _known(run: Run, key: str) -> Json:
    found = memory_lookup(run.stage.world.memory(), key)
    return found[0] if found else None


class _Truth:
    """Makes one side of a binding take the value of the other."""

    def __init__(self, run: Run, key: str, binding: StateBinding) -> None:
        self._run = run
        self._key = key
        self._binding = binding

    async def __call__(self, remedy: RepairPrecondition | Trust) -> str | None:
        source = remedy.source if isinstance(remedy, Trust) else "environment"
        try:
            found = await self._in_time(self._there())
            there = found[0] if found else None
            if source == "person":
                chosen = await self._asked(there)
                if chosen is None:
                    return "nobody has decided which is right"
                source = "environment" if chosen == ENVIRONMENT else "memory"
            if source == "environment" and not found:
                return f"nothing is at {self._binding.path} of the channel `{self._binding.channel}` to be trusted"
            await self._in_time(self._take(source, there))
        except Failed as failed:
            return failed.failure.message
        except TimeoutError:
            return f"channel `{self._binding.channel}` did not answer before the task's end"
        return None

    async def _in_time(self, work: Awaitable[T]) -> T:
        """Raises TimeoutError when the task's time is over."""
        async with asyncio.timeout(self._run.left):
            return await work

    async def _there(self) -> list[Json]:
        """What stands in the environment; empty when the path leads nowhere."""
        return lookup(await self._run.stage.world.channel(self._binding.channel), self._binding.path)

    async def _take(self, source: str, there: Json) -> None:
        world = self._run.stage.world
        if source == "environment":
            world.remember(self._key, there, ENVIRONMENT)
            await world.synchronize()
        else:
            await world.merge(self._binding.channel, self._binding.path, _known(self._run, self._key))

    async def _asked(self, there: Json) -> str | None:
        ask = self._run.ports.ask
        return await ask(f"{self._run.plan.task_id}: {self._sides(there)}. Which is right?", CHOICES) if ask else None

    def _sides(self, there: Json) -> str:
        here = json.dumps(_known(self._run, self._key))
        place = f"{self._binding.channel} {self._binding.path}"
        return f"memory {self._key!r} is {here}, {place} is {json.dumps(there)}"


ENVIRONMENT = "environment"
CHOICES = (ENVIRONMENT, "memory")


# Success criteria, at the end: each is judged, and then all of them in one last look (docs/decisions/021).

UNMET = "CRITERIA_UNMET"


async def success(run: Run) -> StepTransition:
    """Judge each; after the first that fails, the others are only looked at, and the relaxed ones may do instead.

    Criteria hold together or not at all: where time passed between them, all are looked at once more.
    """
    criteria = run.plan.success_criteria
    records: list[StepRecord] = []
    for number, criterion in enumerate(criteria):
        record, turn = await _judged(run, str(criterion))
        records.append(record)
        if isinstance(turn, TaskStop) and turn.failure.code == UNMET:
            rest = [Assert(expr=str(other)) for other in criteria[number + 1 :]]
            return _blamed(record, await _unless_relaxed(run, await _with_the_others(run, turn, rest)))
        if turn:
            return turn
    parts = [part for criterion in criteria for part in criterion.instant]
    if not parts or not any(map(_waited, records if _in_stretches(criteria) else records[1:])):
        return None
    for text in _as_one(parts):
        record, turn = await _judged(run, text)
        if isinstance(turn, TaskStop) and turn.failure.code == UNMET:
            apart = replace(turn, failure=_apart(turn.failure, criteria, records))
            return _blamed(record, await _unless_relaxed(run, apart))
        if turn:
            return turn
    return None


async def _judged(run: Run, criterion: str) -> tuple[StepRecord, StepTransition]:
    step = Assert(expr=criterion)
    record, turn = await do_step(run, StepRequest(run.journal.under_way, step, UNMET, expect=run.plan.expect_timeout))
    run.journal.trace.append(record)
    return record, turn


def _blamed(record: StepRecord, ending: TaskStop | None) -> TaskStop | None:
    """The page's failure instead of the criterion's, when the page was lost while it was judged.

    A criterion that fails on a page that was freed or opened again does not tell what it would have found.
    """
    outcomes = [attempt.outcome for attempt in record.attempts]
    lost = [each for each in outcomes if isinstance(each, Failure) and each.family is Family.BROWSER]
    if ending is None or not lost:
        return ending
    unmet = ending.failure
    message = f"{lost[-1].message}, while the success criteria were judged; judged again afterwards: {unmet.message}"
    details = {**unmet.details, **lost[-1].details}
    failure = replace(lost[-1], message=message, details=details).also(unmet.circumstances)
    return replace(ending, failure=failure)


def _as_one(parts: list[str]) -> list[str]:
    """One criterion, unless that would be longer or deeper than a criterion may be."""
    try:
        return [str(parse(f"ALL[{', '.join(parts)}]"))]
    except CriterionError:
        return parts


def _waited(record: StepRecord) -> bool:
    """Whether time passed until it held, so that what was judged before it may be otherwise by now."""
    last = record.attempts[-1].outcome if record.attempts else None
    return len(record.attempts) > 1 or (isinstance(last, Passed) and bool(last.details.get("waited")))


def _in_stretches(criteria: Sequence[Criterion]) -> bool:
    """Whether the first one waits in the middle, after it has looked at other parts of itself."""
    return bool(criteria) and criteria[0].waits and bool(criteria[0].instant)


def _apart(failure: Failure, criteria: Sequence[Criterion], records: Sequence[StepRecord]) -> Failure:
    """The failure of the last look, told of the criterion that held before and holds no longer."""
    part = failure.assertion.expression if failure.assertion else ""
    fallen = next((number for number, each in enumerate(criteria) if each.holds_part(part)), None)
    if fallen is None:
        return failure
    later = max(number for number, record in enumerate(records) if number == 0 or _waited(record))
    why = failure.message.partition(f"{failure.details.get('criterion')}: ")[2]
    message = f"The success criteria do not hold together: criterion {fallen + 1} held at {_held_at(records[fallen])}"
    if later != fallen:
        message += f" and no longer when criterion {later + 1} held at {_held_at(records[later])}"
    else:
        message += " and no longer afterwards"
    text = str(criteria[fallen])
    return replace(failure, message=f"{message}: {text}: {why}", details={**failure.details, "criterion": text})


def _held_at(record: StepRecord) -> str:
    """Seconds of the task at which it was found to hold."""
    last = record.attempts[-1]
    return f"{last.t + last.seconds:.1f} s"


async def _with_the_others(run: Run, ending: TaskStop, rest: list[Assert]) -> TaskStop:
    """All criteria that do not hold belong into one report."""
    outcomes = [await attempt(run, ending.index, step, None, UNMET) for step in rest]
    others = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    if not others:
        return ending
    failure, messages = ending.failure, [other.message for other in others]
    criteria = [other.details.get("criterion") for other in others]
    details = {
        **failure.details,
        "also_unmet": messages,
        "unmet_criteria": [failure.details.get("criterion"), *criteria],
    }
    return replace(ending, failure=replace(failure, message="; ".join([failure.message, *messages]), details=details))


async def _unless_relaxed(run: Run, ending: TaskStop) -> TaskStop | None:
    """`fallback_plan: relaxed_success_criteria`: None when all of them hold."""
    for criterion in run.plan.relaxed:
        step = Assert(expr=str(criterion))
        if not isinstance(await attempt(run, run.journal.under_way, step, None, UNMET), Passed):
            return ending
    run.journal.relaxed = ending.failure if run.plan.relaxed else None
    return None if run.plan.relaxed else ending


# Before the first step: what must hold, and how it is set up; step_index -1.

BEFORE = -1
REPAIR = "repair"
"""Who wrote a memory entry."""


async def preconditions(run: Run) -> StepTransition:
    """Look at each, once; what follows the first that does not hold."""
    if run.journal.admitted:
        return None
    run.journal.under_way = BEFORE
    for number, criterion in enumerate(run.plan.preconditions):
        cure = _Repairs(run, number)
        record, turn = await do_step(
            run, StepRequest(BEFORE, Assert(expr=str(criterion)), "PRECONDITION_NOT_MET", cure)
        )
        run.journal.trace.append(record)
        if turn:
            return turn
    run.journal.admitted = True
    await begun(run)
    return None


class _Repairs:
    """What can be done about one precondition: the task's `repairs`, then the hook. Whether it helped is looked at."""

    def __init__(self, run: Run, number: int) -> None:
        self._run = run
        self._number = number

    async def __call__(self, remedy: RepairPrecondition | Trust) -> str | Failure | None:  # noqa: ARG002 - a precondition has one cure
        repairs = [repair for repair in self._run.plan.repairs if self._number in repair.applies]
        for repair in repairs:
            if why := await self._apply(repair):
                return f"its repair failed: {why.message}" if why.family is not Family.BROWSER else why
        try:
            hooked = await self._hook()
        except LeftOut:
            raise
        except Failed as failed:
            return failed.failure.message
        except TimeoutError:
            return f"pytest_taskspec_repair took longer than the task's {self._run.timeout:g}s"
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything, or answer what is not JSON
            return f"pytest_taskspec_repair failed: {type(error).__name__}: {error}"
        return None if repairs or hooked else "no repair is declared for it"

    async def _apply(self, repair: ReadyRepair) -> Failure | None:
        """What it failed with."""
        for key, value in repair.memory.items():
            self._run.stage.world.remember(key, value, REPAIR)
        await self._run.synchronize(self._run.deadline)
        if repair.task and (why := await _first(self._run, repair.task)):
            return why
        for step in repair.steps:
            if over := overspent(self._run, another=True):
                return over.failure
            if down := await self._down():
                return down
            self._run.journal.begun += 1
            record, turn = await do_step(self._run, StepRequest(BEFORE, step, expect=self._run.plan.expect_timeout))
            self._run.journal.trace.append(record)
            if turn:
                return turn.failure
        return None

    async def _down(self) -> Failure | None:
        """Why a service of the task is not there. One that was lost is started again first: a repair may write."""
        try:
            async with asyncio.timeout(self._run.left):
                await self._run.ports.ready()
        except Failed as failed:
            return failed.failure
        except TimeoutError:
            return Failure("SERVICE_DOWN", "A service that was lost did not come back within the task's time")
        return None

    async def _hook(self) -> bool:
        run = self._run
        if run.ports.repair is None:
            return False
        criterion = str(run.plan.preconditions[self._number])
        await run.synchronize(run.deadline)
        if down := await self._down():
            raise Failed(down)
        async with asyncio.timeout(run.left):
            answer = await run.ports.repair(run.plan, criterion, run.stage.world.memory())
        if isinstance(answer, Mapping):
            for key, value in answer.items():
                run.stage.world.remember(key, value, REPAIR)
            await run.synchronize(run.deadline)
        return answer is not False


async def _first(run: Run, task: Plan) -> Failure | None:
    """Run a task to its end, or to that of the time of this one; what it failed with."""
    result = await run.inside(replace(task, timeout=min(task.timeout, round(run.left, 1))))
    if result.ok:
        return None
    failure = result.failure or Failure("PRECONDITION_NOT_MET", result.skipped or result.final_state)
    return replace(failure, message=f"{task.task_id}: {failure.message}")
