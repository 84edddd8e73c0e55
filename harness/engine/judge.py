"""Judges criteria in a run, and explains the one that does not hold."""

from __future__ import annotations

from msgspec import Struct

from harness.criteria import evaluate, parse
from harness.engine.hints import with_hint
from harness.engine.run import PageSources, Run, StepAnswer
from harness.recovery.failure import Assertion, Failure, Outcome, Passed
from harness.resilience import Deadline

ASSERTION = "ASSERTION_FAILED"
_OF_TESTERS = (ASSERTION, "CRITERIA_UNMET", "PRECONDITION_NOT_MET")
_WORDS = {"PRECONDITION_NOT_MET": "Precondition not met", "STATE_INCONSISTENT": "Memory and environment differ"}


class AssertionJudge(Struct, frozen=True):
    """How the assertions of one attempt are judged: a criterion, a precondition and a binding are assertions too."""

    run: Run
    until: Deadline
    """The end of the attempt."""
    code: str = ASSERTION
    """The code of the failure of a criterion."""
    expect: float = 0.0
    """Seconds to wait for an assertion to hold; 0: it is judged once."""

    @property
    def left(self) -> float:
        """Seconds until the end of the attempt."""
        return self.until.left(self.run.ports.clock.now())

    async def criterion(self, text: str, answer: StepAnswer | None = None) -> Outcome:
        """Evaluate a criterion; the failure explains it. `answer`: what `result(...)` reads."""
        sources = PageSources(self.run, self.until, answer)
        verdict = await evaluate(parse(text), sources, self.run.ports.clock, self.until, expect=self.expect)
        if verdict.holds or verdict.explanation is None:
            return Passed({"waited": True} if verdict.waited else {})
        why = verdict.explanation
        words = _WORDS.get(self.code, "Assertion failed")
        assertion = Assertion(why.expression, why.expected, why.actual, why.diff, why.message if why.plain else "")
        message = f"{words}: {text}: {why.message}"
        failure = Failure(self.code, message, details={"criterion": text}, assertion=assertion)
        if self.code not in _OF_TESTERS:
            return failure
        return await with_hint(self.run, failure, why.expression, self.until)
