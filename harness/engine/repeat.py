"""Repeats an act that does not write until its criterion holds (`until` of a step)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from harness.engine.judge import ASSERTION, AssertionJudge
from harness.model.record import TIMES, Sent
from harness.recovery.catalog import Effect, Family
from harness.recovery.failure import Failed, Failure, Outcome, Passed
from harness.spec.names import how_many
from harness.values import replace

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 1.0
_ADVICE = "If it needs more of them, raise `at_most` or the `timeout` of the step; else look at what the act does."
_PATIENCE = 1.0
"""Seconds to look for the element of a repetition: it may be gone because the act before took effect."""


class RepeatUntil(Struct, frozen=True):
    """The declared end of the repetition of a step."""

    act: str
    """The act as it is declared."""
    criterion: str
    at_most: int | None
    written: Callable[[], Sent | None]
    """Returns what the step was seen to write so far: then it is not repeated."""


async def repeated(
    judge: AssertionJudge, ends: RepeatUntil, act: Callable[[float], Awaitable[Outcome]], *, again: bool
) -> Outcome:
    """Do the act until the criterion holds. `again`: False if only what was done before is judged once more.

    The act is done before the first look: what must not be done at all is said with `when`. An act that fails on the
    way counts, and its failure is the result if the criterion does not hold in the end.
    """
    times, pause, patience = 0, _FIRST_PAUSE, float("inf")
    while True:
        outcome = await act(patience)
        times += 1
        missed = outcome if isinstance(outcome, Failure) else None
        if missed is not None and (times == 1 or not _did_nothing(missed)):
            return missed
        try:
            unmet = await replace(judge, code=ASSERTION, expect=pause).criterion(ends.criterion)
        except Failed as failed:
            raise Failed(replace(failed.failure, effect=Effect.DONE, act_done=True)) from failed
        if isinstance(unmet, Passed):
            details = outcome.details if isinstance(outcome, Passed) else {}
            return Passed({**details, TIMES: times} if times > 1 else details)
        sent = ends.written()
        over = not again or times == ends.at_most or judge.left <= pause
        if sent is not None or over:
            return missed if missed and sent is None else _unmet(unmet, ends.act, times, sent)
        pause, patience = min(pause * 1.5, _LONGEST_PAUSE), _PATIENCE


def _did_nothing(failure: Failure) -> bool:
    """Return whether the act was not done, and may well be the next time."""
    return failure.effect is Effect.NONE and not failure.tainted and failure.family in (Family.ELEMENT, Family.ACTION)


def _unmet(unmet: Failure, act: str, times: int, sent: Sent | None) -> Failure:
    """The failure of a step whose criterion did not come to hold. The act was done: no retry does it again."""
    message = f"{unmet.message}; `until` did not hold after {how_many(times, act)}"
    advice = _ADVICE
    if sent is not None:
        message += f", and the act was not repeated, because it {sent.describe()}"
        advice = "If the act may be done twice, declare `effect: idempotent`; else leave `until` out, and wait."
    details = {**unmet.details, TIMES: times}
    return replace(unmet, message=message, details=details, advice=advice, effect=Effect.DONE, act_done=True)
