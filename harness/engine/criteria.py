"""Success criteria, at the end: each is judged, and then all of them in one last look (DESIGN 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.criteria import Criterion, CriterionError, parse
from harness.engine.attempt import attempt
from harness.engine.progress import Errand
from harness.engine.run import Ending, Run, Turn
from harness.engine.step import do_step
from harness.model.record import StepRecord
from harness.recovery.catalog import Family
from harness.recovery.failure import Failure, Passed
from harness.spec.steps import Assert

UNMET = "CRITERIA_UNMET"


async def success(run: Run) -> Turn:
    """Judge each; after the first that fails, the others are only looked at, and the relaxed ones may do instead.

    Criteria hold together or not at all: where time passed between them, all are looked at once more.
    """
    criteria = run.plan.success_criteria
    records: list[StepRecord] = []
    for number, criterion in enumerate(criteria):
        record, turn = await _judged(run, str(criterion))
        records.append(record)
        if isinstance(turn, Ending) and turn.failure.code == UNMET:
            rest = [Assert(expr=str(other)) for other in criteria[number + 1 :]]
            return _blamed(record, await _unless_relaxed(run, await _with_the_others(run, turn, rest)))
        if turn:
            return turn
    parts = [part for criterion in criteria for part in criterion.instant]
    if not parts or not any(map(_waited, records if _in_stretches(criteria) else records[1:])):
        return None
    for text in _as_one(parts):
        record, turn = await _judged(run, text)
        if isinstance(turn, Ending) and turn.failure.code == UNMET:
            apart = replace(turn, failure=_apart(turn.failure, criteria, records))
            return _blamed(record, await _unless_relaxed(run, apart))
        if turn:
            return turn
    return None


async def _judged(run: Run, criterion: str) -> tuple[StepRecord, Turn]:
    step = Assert(expr=criterion)
    record, turn = await do_step(run, Errand(run.journal.under_way, step, UNMET, expect=run.plan.expect_timeout))
    run.journal.trace.append(record)
    return record, turn


def _blamed(record: StepRecord, ending: Ending | None) -> Ending | None:
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
    return replace(ending, failure=replace(lost[-1], message=message, details=details))


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


async def _with_the_others(run: Run, ending: Ending, rest: list[Assert]) -> Ending:
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


async def _unless_relaxed(run: Run, ending: Ending) -> Ending | None:
    """`fallback_plan: relaxed_success_criteria` (specs/003 2.1): None when all of them hold."""
    for criterion in run.plan.relaxed:
        step = Assert(expr=str(criterion))
        if not isinstance(await attempt(run, run.journal.under_way, step, None, UNMET), Passed):
            return ending
    run.journal.relaxed = ending.failure if run.plan.relaxed else None
    return None if run.plan.relaxed else ending
