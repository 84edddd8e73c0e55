"""What a task would be by its criteria as they are now. Pure over what was judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.regrade.grading import Grade
from harness.regrade.recorded import Recorded
from harness.reporting.grading import UNMET
from harness.spec.parts import Expect

Verdict = Literal["pass", "fail", "undecided"]
_WORDS: dict[bool | None, Verdict] = {True: "pass", False: "fail", None: "undecided"}


@dataclass(frozen=True, slots=True)
class Standing:
    """The verdict, and why."""

    verdict: Verdict
    why: str = ""
    by_criteria: bool = True
    """False: it ended before them, and that decides."""


def standing(
    evidence: Recorded, expect: Expect | None, criteria: Sequence[Grade], relaxed: Sequence[Grade], *, at_failure: bool
) -> Standing:
    """`relaxed` criteria do when all of them hold and the others do not."""
    if evidence.ended and (not at_failure or (expect is not None and evidence.expected)):
        return _never_reached(evidence, expect)
    if evidence.alternative is not None and (worst := _worst(criteria)) is not None:
        return Standing("undecided", f"{evidence.alternative} passed in its place; now: {worst.why}")
    found = _by_criteria(criteria, relaxed)
    moment = f"; judged as it was when it ended {evidence.ended}" if evidence.ended else ""
    if expect is not None and expect.final_state in ("failed", "aborted"):
        found = _declared(expect, found)
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
        return Standing("pass", f"only by its relaxed criteria: {worst.why}")
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


def _declared(expect: Expect, found: Standing) -> Standing:
    """A task that must fail passes when it fails as its file says."""
    fits = expect.error_type in (None, "assertion_failed") and expect.code in (None, UNMET)
    if found.verdict == "pass":
        return Standing("fail", "its file declares a failure, and its criteria hold")
    if not fits:
        return Standing("fail", f"its file declares another failure: {expect.code or expect.error_type}")
    if found.verdict == "fail":
        return Standing("pass", f"it fails as its file declares: {found.why}")
    return found
