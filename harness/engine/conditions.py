"""Checks what must hold: preconditions before the steps, state bindings after them, success criteria at the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

from harness.criteria import Criterion, CriterionError, lookup, memory_lookup, parse
from harness.engine.around import before_each
from harness.engine.attempt import StepRequest, attempt
from harness.engine.checkpoints import save_first_checkpoint
from harness.engine.due import rest_of_group
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
from harness.values import replace

T = TypeVar("T")
_ENVIRONMENT = "environment"
"""The source of a memory entry that came from the environment."""
_CHOICES = (_ENVIRONMENT, "memory")


async def consistent(run: Run, index: int, step: Step | None) -> StepTransition:
    """Compare the bound values after a step that may have changed them (None: at the end of the task)."""
    if step is not None and not (step.may_change or step.remember):
        return None
    if run.plan.spec.state_bindings:
        await run.synchronize(run.deadline)
    for key, binding in run.plan.spec.state_bindings.items():
        if _memory_value(run, key) is None:
            continue  # memory is still empty
        compared = Assert(expr=_equal(key, binding), **{"as": step and step.user})
        request = StepRequest(index, compared, "STATE_INCONSISTENT", _Truth(run, key, binding))
        record, turn = await do_step(run, request)
        if record.answers or turn:
            run.journal.trace.append(record)
        if turn:
            return turn
    return None


def _equal(key: str, binding: StateBinding) -> str:
    memory, channel, path = (json.dumps(each, ensure_ascii=False) for each in (key, binding.channel, binding.path))
    return f"mem({memory}) == json({channel}, {path})"


def _memory_value(run: Run, key: str) -> Json:
    found = memory_lookup(run.stage.world.memory(), key)
    return found[0] if found else None


class _Truth:
    """Makes one side of a binding equal to the other."""

    def __init__(self, run: Run, key: str, binding: StateBinding) -> None:
        self._run, self._key, self._binding = run, key, binding

    async def __call__(self, remedy: RepairPrecondition | Trust) -> str | None:
        source = remedy.source if isinstance(remedy, Trust) else "environment"
        try:
            document = await self._in_time(self._run.stage.world.channel(self._binding.channel))
            found = lookup(document, self._binding.path)
            there = found[0] if found else None
            if source == "person":
                chosen = await self._ask_person(there)
                if chosen is None:
                    return "nobody decided which value is right"
                source = "environment" if chosen == _ENVIRONMENT else "memory"
            if source == "environment" and not found:
                return f"the channel `{self._binding.channel}` has no value at {self._binding.path}"
            world = self._run.stage.world
            if source == "environment":
                world.remember(self._key, there, _ENVIRONMENT)
                await self._in_time(world.synchronize())
            else:
                value = _memory_value(self._run, self._key)
                await self._in_time(world.merge(self._binding.channel, self._binding.path, value))
        except Failed as failed:
            return failed.failure.message
        except TimeoutError:
            return f"channel `{self._binding.channel}` did not answer before the task's end"
        return None

    async def _in_time(self, work: Awaitable[T]) -> T:
        """Await the work; raises TimeoutError when the task's time is over."""
        async with asyncio.timeout(self._run.left):
            return await work

    async def _ask_person(self, there: Json) -> str | None:
        here, place = json.dumps(_memory_value(self._run, self._key)), f"{self._binding.channel} {self._binding.path}"
        sides = f"memory {self._key!r} is {here}, {place} is {json.dumps(there)}"
        ask = self._run.ports.ask
        return await ask(f"{self._run.plan.task_id}: {sides}. Which is right?", _CHOICES) if ask else None


# Success criteria, at the end: each is judged, and then all of them in one last look (docs/decisions/021).

UNMET = "CRITERIA_UNMET"


async def success(run: Run) -> StepTransition:
    """Judge each criterion; after the first failure the others are judged once, and the relaxed ones may replace them.

    Criteria must hold at the same time: if time passed between them, all are judged once more.
    """
    criteria = run.plan.success_criteria
    records: list[StepRecord] = []
    for number, criterion in enumerate(criteria):
        record, turn = await _judge_criterion(run, str(criterion))
        records.append(record)
        if isinstance(turn, TaskStop) and turn.failure.code == UNMET:
            rest = [Assert(expr=str(other)) for other in criteria[number + 1 :]]
            return _blame_lost_page(record, await _unless_relaxed(run, await _with_the_others(run, turn, rest)))
        if turn:
            return turn
    parts = [part for criterion in criteria for part in criterion.instant]
    in_stretches = bool(parts) and criteria[0].waits and criteria[0].instant  # it waits after it has judged other parts
    if not parts or not any(map(_has_waited, records if in_stretches else records[1:])):
        return None
    for text in _as_one(parts):
        record, turn = await _judge_criterion(run, text)
        if isinstance(turn, TaskStop) and turn.failure.code == UNMET:
            apart = replace(turn, failure=_no_longer_holds(turn.failure, criteria, records))
            return _blame_lost_page(record, await _unless_relaxed(run, apart))
        if turn:
            return turn
    return None


async def _judge_criterion(run: Run, criterion: str) -> tuple[StepRecord, StepTransition]:
    step = Assert(expr=criterion)
    record, turn = await do_step(run, StepRequest(run.journal.under_way, step, UNMET, expect=run.plan.expect_timeout))
    run.journal.trace.append(record)
    return record, turn


def _blame_lost_page(record: StepRecord, ending: TaskStop | None) -> TaskStop | None:
    """Replace a criterion's failure by the page's if the page was lost meanwhile.

    A criterion that fails on a page that was freed or opened again says nothing about the page before.
    """
    outcomes = [attempt.outcome for attempt in record.attempts]
    lost = [each for each in outcomes if isinstance(each, Failure) and each.family is Family.BROWSER]
    if ending is None or not lost:
        return ending
    unmet = ending.failure
    message = f"{lost[-1].message}, while the success criteria were judged; judged again afterwards: {unmet.message}"
    details = {**unmet.details, **lost[-1].details}
    return replace(ending, failure=replace(lost[-1], message=message, details=details).also(unmet.circumstances))


def _as_one(parts: list[str]) -> list[str]:
    """Join the criteria into one, unless that would be longer or deeper than a criterion may be."""
    try:
        return [str(parse(f"ALL[{', '.join(parts)}]"))]
    except CriterionError:
        return parts


def _has_waited(record: StepRecord) -> bool:
    """Return whether time passed before it held, so that earlier results may be out of date."""
    last = record.attempts[-1].outcome if record.attempts else None
    return len(record.attempts) > 1 or (isinstance(last, Passed) and bool(last.details.get("waited")))


def _no_longer_holds(failure: Failure, criteria: Sequence[Criterion], records: Sequence[StepRecord]) -> Failure:
    """The failure of the last judgement as a failure of the criterion that held before and holds no longer."""
    part = failure.assertion.expression if failure.assertion else ""
    fallen = next((number for number, each in enumerate(criteria) if each.holds_part(part)), None)
    if fallen is None:
        return failure
    later = max(number for number, record in enumerate(records) if number == 0 or _has_waited(record))
    why = failure.message.partition(f"{failure.details.get('criterion')}: ")[2]
    message = f"The success criteria do not hold together: criterion {fallen + 1} held at {_held_at(records[fallen])}"
    since = f"when criterion {later + 1} held at {_held_at(records[later])}" if later != fallen else "afterwards"
    text, details = str(criteria[fallen]), {**failure.details, "criterion": str(criteria[fallen])}
    return replace(failure, message=f"{message} and no longer {since}: {text}: {why}", details=details)


def _held_at(record: StepRecord) -> str:
    """The time at which the criterion was found to hold, in seconds of the task."""
    last = record.attempts[-1]
    return f"{last.t + last.seconds:.1f} s"


async def _with_the_others(run: Run, ending: TaskStop, rest: list[Assert]) -> TaskStop:
    """Add all other criteria that do not hold to the same report."""
    outcomes = [await attempt(run, ending.index, step, None, UNMET) for step in rest]
    others = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    if not others:
        return ending
    criteria = [other.details.get("criterion") for other in (ending.failure, *others)]
    failure = with_others(ending.failure, [other.message for other in others])
    return replace(ending, failure=replace(failure, details={**failure.details, "unmet_criteria": criteria}))


def with_others(failure: Failure, messages: Sequence[str]) -> Failure:
    """The failure, with the messages of others that are told with it."""
    told = [*failure.details.get("also_unmet", ()), *messages]
    message = "; ".join([failure.message, *messages])
    return replace(failure, message=message, details={**failure.details, "also_unmet": told})


async def _unless_relaxed(run: Run, ending: TaskStop) -> TaskStop | None:
    """Return None if all of `fallback_plan: relaxed_success_criteria` hold, else the ending."""
    for criterion in run.plan.relaxed:
        step = Assert(expr=str(criterion))
        if not isinstance(await attempt(run, run.journal.under_way, step, None, UNMET), Passed):
            return ending
    run.journal.relaxed = ending.failure if run.plan.relaxed else None
    return None if run.plan.relaxed else ending


# Before the first step (step_index -1): preconditions and their repairs.

_BEFORE = -1
_REPAIR = "repair"
"""The source of a memory entry that came from a repair."""


async def preconditions(run: Run) -> StepTransition:
    """Judge each precondition once, and apply the rule to the first that does not hold."""
    if run.journal.admitted:
        return None
    run.journal.under_way = _BEFORE
    if turn := await before_each(run):
        return turn
    for number, criterion in enumerate(run.plan.preconditions):
        cure = _Repairs(run, number)
        record, turn = await do_step(
            run, StepRequest(_BEFORE, Assert(expr=str(criterion)), "PRECONDITION_NOT_MET", cure)
        )
        run.journal.trace.append(record)
        if turn:
            return turn
    run.journal.admitted = True
    await save_first_checkpoint(run)
    return None


class _Repairs:
    """The repairs of one precondition: the task's `repairs`, then the hook. Afterwards it is judged again."""

    def __init__(self, run: Run, number: int) -> None:
        self._run, self._number = run, number

    async def __call__(self, remedy: RepairPrecondition | Trust) -> str | Failure | None:  # noqa: ARG002 - a precondition has one cure
        plan, applied = self._run.plan, self._run.journal.repaired
        repairs = [number for number, each in enumerate(plan.repairs) if self._number in each.applies]
        for number in [each for each in repairs if each not in applied]:
            applied.add(number)
            if why := await self._apply(plan.repairs[number]):
                if why.code == "OUTCOME_UNKNOWN":
                    return replace(why, message=f"The repair of a precondition failed: {why.message}")
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
        for key, value in repair.memory.items():
            self._run.stage.world.remember(key, value, _REPAIR)
        await self._run.synchronize(self._run.deadline)
        if repair.task and (why := await _run_first(self._run, repair.task)):
            return why
        steps = list(repair.steps)
        while steps:
            step = steps.pop(0)
            if over := overspent(self._run, another=True):
                return over.failure
            if down := await self._down():
                return down
            self._run.journal.begun += 1
            record, turn = await do_step(self._run, StepRequest(_BEFORE, step, expect=self._run.plan.expect_timeout))
            left = rest_of_group(self._run, record, steps)
            self._run.journal.trace += [record, *left.told]
            del steps[: len(left.told) + len(left.unused)]
            if turn:
                return turn.failure
        return None

    async def _down(self) -> Failure | None:
        """Wait for the task's services; returns the failure if one is down. They must be up before a repair writes."""
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
        if self._number not in run.journal.hooked:  # what it has written itself is not taken back by going back
            async with asyncio.timeout(run.left):
                answer = await run.ports.repair(run.plan, criterion, run.stage.world.memory())
            run.journal.hooked[self._number] = answer
        answer = run.journal.hooked[self._number]
        if isinstance(answer, Mapping):
            for key, value in answer.items():
                run.stage.world.remember(key, value, _REPAIR)
            await run.synchronize(run.deadline)
        return answer is not False


async def _run_first(run: Run, task: Plan) -> Failure | None:
    """Run a task to its end, or until the time of this one is over; returns the failure, if any."""
    result = await run.run_subtask(replace(task, timeout=min(task.timeout, round(run.left, 1))))
    if result.ok:
        return None
    failure = result.failure or Failure("PRECONDITION_NOT_MET", result.skipped or result.final_state)
    return replace(failure, message=f"{task.task_id}: {failure.message}")
