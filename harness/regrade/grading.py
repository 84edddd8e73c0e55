"""A criterion over recorded evidence: it holds, it does not, or that cannot be told. Kleene's logic, pure.

The evidence is of one moment. A part that waits may be judged later than that: what is written after it in ALL, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.criteria import Criterion, Json
from harness.criteria.check import Pass, check, read
from harness.criteria.syntax import Compare, Condition, Every, Not, Read, Some, Stable, Test, Within, walk
from harness.criteria.values import SECONDS, Patience
from harness.regrade.sources import RecordedSources, redacted, redacted_names
from harness.regrade.undecided import UndecidedError

TOLERANCE = 2.0
"""Seconds by which the recorded time may be wrong."""
_TIMES = ("time_since", "time_until")
_WAITS = "the evidence is of one moment, and this waits"


@dataclass(frozen=True, slots=True)
class Grade:
    """How one part stands."""

    holds: bool | None
    """None: the evidence does not tell."""
    part: str
    """The smallest part that decides, or that cannot be decided."""
    why: str = ""
    expected: Json = None
    actual: Json = None
    later: bool = False
    """Undecided because it may be settled later than the evidence."""


async def grade(criterion: Criterion, sources: RecordedSources) -> Grade:
    """Never raises: what cannot be told is undecided."""
    return await _Grader(sources).judge(criterion.tree)


class _Grader:
    """One criterion at the two ends of the time at which the evidence was taken."""

    def __init__(self, sources: RecordedSources) -> None:
        self._looks = [Pass(sources.later(shift), Patience()) for shift in (-TOLERANCE, TOLERANCE)]

    async def judge(self, condition: Condition) -> Grade:
        match condition:
            case Compare() | Test():
                return await self._leaf(condition)
            case Every(parts=parts):
                return _every(condition.source, [await self.judge(part) for part in parts])
            case Some(parts=parts):
                return _some(condition.source, [await self.judge(part) for part in parts])
            case Not(part=part):
                return _opposite(condition.source, await self.judge(part))
            case Within(seconds=seconds, part=part):
                return _waited(condition.source, await self.judge(part), seconds, settles=True)
            case Stable(seconds=seconds, part=part):
                return _waited(condition.source, await self.judge(part), seconds, settles=False)

    async def _leaf(self, leaf: Compare | Test) -> Grade:
        try:
            found = [await _checked(leaf, look) for look in (self._looks if _by_time(leaf) else self._looks[:1])]
        except UndecidedError as error:
            return Grade(None, leaf.source, str(error))
        if len({each.holds for each in found}) > 1:
            return Grade(None, leaf.source, "it depends on the very second")
        return found[0]


def _by_time(leaf: Compare | Test) -> bool:
    return any(isinstance(node, Read) and node.function in _TIMES for node in walk(leaf))


async def _checked(leaf: Compare | Test, look: Pass) -> Grade:
    """As the real evaluation judges it. Raises UndecidedError when something that it reads is not known."""
    for node in walk(leaf):
        if isinstance(node, Read):
            await _refuse_redacted(node, look)
    finding = await check(leaf, look)
    if look.patience.seconds < SECONDS:
        raise UndecidedError("the regular expression takes too long")
    return Grade(finding.holds, finding.expression, finding.message, finding.expected, finding.actual)


async def _refuse_redacted(node: Read, look: Pass) -> None:
    operand = await read(node, look)
    if redacted(list(operand.matches)):
        raise UndecidedError(f"{node.source} is redacted in the evidence")
    if node.function in ("mem", "json", *_TIMES) and (operand.many or not operand.matches):
        document = await look.channel(node.arguments[0]) if node.function == "json" else dict(await look.memory())
        if redacted_names(document):
            raise UndecidedError(f"names in the evidence are redacted, and {node.source} may be one of them")


def _every(source: str, parts: Sequence[Grade]) -> Grade:
    """False as soon as one part is, unless an undecided wait comes before it: then that part is judged later."""
    undecided: Grade | None = None
    for part in parts:
        if part.holds is False and not (undecided and undecided.later):
            return part
        if part.holds is None and (undecided is None or (part.later and not undecided.later)):
            undecided = part
    return undecided or Grade(True, source, "all of its parts hold", True, True)


def _some(source: str, parts: Sequence[Grade]) -> Grade:
    """True as soon as one part is: they stand side by side."""
    if held := next((part for part in parts if part.holds), None):
        return held
    undecided = [part for part in parts if part.holds is None]
    if undecided:
        return replace(undecided[0], later=any(part.later for part in undecided))
    if len(parts) == 1:
        return parts[0]
    reasons = "; ".join(f"({number}) {part.why}" for number, part in enumerate(parts, 1))
    return Grade(
        False,
        source,
        f"none of {len(parts)} alternatives holds: {reasons}",
        [part.expected for part in parts],
        [part.actual for part in parts],
    )


def _opposite(source: str, part: Grade) -> Grade:
    if part.holds is None:
        return part
    why = f"expected otherwise, but {part.why}" if part.holds else f"it is so that {part.why}"
    return Grade(not part.holds, source, why, f"not {part.part}", part.actual)


def _waited(source: str, part: Grade, seconds: float, *, settles: bool) -> Grade:
    """WITHIN is settled by a look that finds it so, STABLE by one that finds it otherwise; else the time decides."""
    if seconds == 0 and not part.later:
        return part
    if part.holds is settles:
        return part
    if part.holds is None:
        return replace(part, later=True)
    how = "holds" if part.holds else "does not hold"
    return Grade(None, source, f"{_WAITS}: at that moment {part.part} {how}", part.expected, part.actual, later=True)
