"""Judges the answer of an `api` step by its `expect`, and keeps it for `result(...)`."""

from __future__ import annotations

from msgspec import Struct

from harness.criteria import Json, parse
from harness.engine.judge import AssertionJudge
from harness.model.record import RESULT
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure, Outcome, Passed
from harness.spec.steps import Api
from harness.values import replace


class AnsweredApi(Struct):
    """The answer of one step, for all attempts at the step (`attempt.StepAnswer`)."""

    outcome: Passed | None = None
    """The outcome of the request, without the answer."""
    document: Json = None
    whole: bool = False
    """Whether the answer is there; one that is too large is not."""
    kept: bool = False
    """The request was answered, and only its judgement is missing: another attempt does not send it again."""
    changes = False
    """The answer of a request stays as it is."""

    def rest_of(self, within: float) -> float:
        return within

    def take(self, outcome: Passed) -> None:
        """Keep the answer that an outcome has."""
        details = dict(outcome.details)
        self.whole, self.document = RESULT in details, details.pop(RESULT, None)
        self.outcome = Passed(details)

    async def read(self) -> Json:
        """The document that `result(...)` reads. Raises Failed."""
        if not self.whole:
            message = "`result(...)` has no answer to read: the answer is too large"
            raise Failed(Failure("NOTHING_TO_REMEMBER", message))
        return self.document


async def judged(answered: AnsweredApi, step: Api, judge: AssertionJudge) -> Outcome:
    """The outcome of a request that was answered, by what the step expects of its answer. A write is not sent again."""
    assert answered.outcome is not None
    writes = answered.kept = step.effect_class == "write"
    if step.expect is None:
        return answered.outcome
    criterion = parse(step.expect)
    if not (criterion.looks_at_page or criterion.channels or criterion.memory_keys):
        judge = replace(judge, expect=0.0)  # the answer stays as it is
    try:
        found = await judge.criterion(step.expect, answered)
    except Failed as failed:
        found = failed.failure
    if not isinstance(found, Failure):
        return answered.outcome
    found = replace(found, details={**answered.outcome.details, **found.details})
    return replace(found, effect=Effect.DONE, act_done=True) if writes else found
