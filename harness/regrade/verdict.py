"""What a task would be by its criteria as they are now. Pure over what was judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from harness.recovery import GiveUp
from harness.recovery.failure import Failure
from harness.regrade.grading import Grade
from harness.regrade.recorded import Recorded
from harness.reporting.grading import UNMET
from harness.spec.task import Expect, FinalState, TaskSpec

Verdict = Literal["pass", "fail", "undecided"]
_MANY = 1000
_WORDS: dict[bool | None, Verdict] = {True: "pass", False: "fail", None: "undecided"}


RELAXED = "only by its relaxed criteria"


@dataclass(frozen=True, slots=True)
class Ends:
    """How a task ends whose criteria do not hold."""

    failing: FinalState = "failed"
    index: int | None = None
    """Number of its steps: where criteria stand."""

    @classmethod
    def of(cls, spec: TaskSpec) -> Ends:
        """As its `on_assertion_fail` says."""
        remedies = islice(spec.error_recovery.remedies(Failure(UNMET, ""), lambda: 0.5), _MANY)
        give_up = next((each for each in remedies if isinstance(each, GiveUp)), GiveUp())
        return cls(give_up.final_state, len(spec.steps))


@dataclass(frozen=True, slots=True)
class Standing:
    """The verdict, and why."""

    verdict: Verdict
    why: str = ""
    by_criteria: bool = True
    """False: it ended before them, and that decides."""


def standing(
    evidence: Recorded,
    expect: Expect | None,
    criteria: Sequence[Grade],
    relaxed: Sequence[Grade],
    *,
    at_failure: bool,
    ends: Ends | None = None,
) -> Standing:
    """`relaxed` criteria do when all of them hold and the others do not. `ends`: of the task, should they not hold."""
    ends = ends or Ends()
    if evidence.ended and (not at_failure or (expect is not None and evidence.expected)):
        return _never_reached(evidence, expect)
    if evidence.alternative is not None and (worst := _worst(criteria)) is not None:
        return Standing("undecided", f"{evidence.alternative} passed in its place; now: {worst.why}")
    found = _by_criteria(criteria, relaxed)
    moment = f"; judged as it was when it ended {evidence.ended}" if evidence.ended else ""
    if expect is not None:
        found = _declared(expect, found, ends, evidence)
    return Standing(found.verdict, (found.why + moment).removeprefix("; "))


def _worst(grades: Sequence[Grade]) -> Grade | None:
    """The first that does not hold; else the first that is undecided."""
    unmet = (grade for grade in grades if grade.holds is False)
    return next(unmet, None) or next((grade for grade in grades if grade.holds is None), None)


def _by_criteria(criteria: Sequence[Grade], relaxed: Sequence[Grade]) -> Standing:
    worst = _worst(criteria)
    if worst is None:
        return Standing("pass")
    if not relaxed:
        return Standing(_WORDS[worst.holds], worst.why)
    other = _worst(relaxed)
    if other is None:
        return Standing("pass", f"{RELAXED}: {worst.why}")
    open_ = None in (worst.holds, other.holds)
    return Standing("undecided" if open_ else "fail", f"{worst.why}; relaxed: {other.why}")


def _never_reached(evidence: Recorded, expect: Expect | None) -> Standing:
    if expect is not None and evidence.expected:
        return Standing("pass", f"it ended {evidence.ended}, as its file declares; criteria change nothing", False)
    return Standing(
        "undecided",
        f"it ended {evidence.ended}: its criteria were never reached; --at-failure judges them as it was then",
        by_criteria=False,
    )


def _declared(expect: Expect, found: Standing, ends: Ends, evidence: Recorded) -> Standing:
    """A task with `expect` passes when it ends as its file says, as in a run (`engine.ending.unmet`)."""
    if found.verdict == "undecided":
        return found
    failed = found.verdict == "fail"
    now = {
        "final_state": (expect.final_state, ends.failing if failed else _passing(found, evidence)),
        "error_type": (expect.error_type, "assertion_failed" if failed else None),
        "code": (expect.code, UNMET if failed else None),
        "step_index": (expect.step_index, ends.index if failed else None),
    }
    wrong = [f"{name} {to}, it would be {is_}" for name, (to, is_) in now.items() if to is not None and to != is_]
    if wrong:
        held = "" if failed else "; its criteria hold"
        return Standing("fail", f"its file declares {'; '.join(wrong)}{held}")
    if expect.warnings:
        return Standing("undecided", "its file declares warnings, and which it gave is not judged here")
    how = f"fails as its file declares: {found.why}" if failed else f"ends as its file declares; {found.why}"
    return Standing("pass", f"it {how}".removesuffix("; "))


def _passing(found: Standing, evidence: Recorded) -> FinalState:
    """What was partial for another reason than its criteria (a step was skipped) stays so."""
    unmet = False in (evidence.ran or {}).values()
    partial = found.why.startswith(RELAXED) or (evidence.partial and not unmet)
    return "partial_success" if partial else "completed"
