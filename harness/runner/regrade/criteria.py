"""The criteria of a task file, filled in and judged by one task's evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.criteria import Criterion, CriterionError, parse
from harness.criteria import Json as CriterionJson
from harness.criteria.check import Pass, check, read
from harness.criteria.syntax import Compare, Condition, Every, Not, Read, Some, Stable, Test, Within, walk
from harness.criteria.values import SECONDS, Patience
from harness.engine.result import rated, total, weighted
from harness.model.settings import Settings
from harness.recovery.failure import Failed
from harness.reporting.redaction import MARK
from harness.runner.compile import Filling
from harness.runner.regrade.page import UndecidedError
from harness.runner.regrade.recorded import RecordedSources, UnusableEvidenceError, redacted, redacted_names
from harness.spec.loaded import Loaded
from harness.spec.references import BadReferenceError, MissingMemory, ReferenceScope, interpolate_criterion
from harness.spec.task import ScoringCheckpoint, TaskSpec

# A criterion over recorded evidence: it holds, it does not, or that cannot be told. Kleene's logic, pure.

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
    expected: CriterionJson = None
    actual: CriterionJson = None
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


# The score again: `scoring_checkpoints` and `rubrics`, as far as the evidence tells.


@dataclass(frozen=True, slots=True)
class PartGrade:
    """One scoring checkpoint."""

    id: str
    applies: bool | None
    grade: Grade


@dataclass(frozen=True, slots=True)
class ScoreRange:
    """The score; `lowest` and `highest` differ where the evidence leaves something open."""

    lowest: float | None
    """None: not known at all, for the reason in `why`."""
    highest: float | None
    parts: tuple[PartGrade, ...] = ()
    why: str = ""


async def score_again(
    spec: TaskSpec, judge: Judge, attempts: Mapping[str, int] | None, succeeded: bool | None
) -> ScoreRange | None:
    """None for a task that declares neither scoring checkpoints nor rubrics. `succeeded` is None while undecided."""
    if not spec.scoring_checkpoints and not spec.rubrics:
        return None
    parts = tuple([await _graded(part, judge) for part in spec.scoring_checkpoints])
    if open_ := [part.id for part in parts if part.applies is None]:
        return ScoreRange(None, None, parts, f"whether {', '.join(open_)} applies cannot be told")
    if spec.rubrics and attempts is None:
        return ScoreRange(None, None, parts, "the attempts that rubrics count were not recorded")
    low, high = (_total(spec, parts, attempts or {}, succeeded, kind) for kind in (False, True))
    return ScoreRange(low, high, parts)


async def _graded(part: ScoringCheckpoint, judge: Judge) -> PartGrade:
    applies = (await judge(part.when)).holds if part.when and part.when.strip() else True
    return PartGrade(part.id, applies, await judge(part.assertion))


def _total(
    spec: TaskSpec, graded: tuple[PartGrade, ...], attempts: Mapping[str, int], succeeded: bool | None, kind: bool
) -> float:
    """With everything that is open taken for met, or (not `kind`) for unmet."""
    looked = [
        (part, bool(found.applies), None if (kind if found.grade.holds is None else found.grade.holds) else "unmet")
        for part, found in zip(spec.scoring_checkpoints, graded, strict=True)
    ]
    parts = weighted(looked)
    made, worked, planned = (attempts.get(name, 0) for name in ("made", "passed", "planned"))
    values = rated(parts, made, worked, planned, kind if succeeded is None else succeeded)
    return total(parts, spec.rubrics, values).total


class Judge:
    """Judges texts of one task file."""

    def __init__(self, task: Loaded, sources: RecordedSources, environ: Mapping[str, str]) -> None:
        """Raises UnusableEvidenceError for a file whose references lead nowhere."""
        self._sources = sources
        try:
            self._filling = Filling(task.spec, Settings(), environ, task.origin)
        except BadReferenceError as error:
            raise UnusableEvidenceError(f"its file cannot be filled in: {error}") from error

    async def __call__(self, text: str) -> Grade:
        """The text as the file has it. Never raises: what cannot be told is undecided."""
        ready = self._filling.criteria(("success_criteria",), (text,))
        if not ready:
            return Grade(None, text, self._filling.problems[-1].message)
        try:
            resolved = await self._resolved(str(ready[0]))
            return await grade(parse(resolved), self._sources)
        except MissingMemory as missing:
            return Grade(False, text, f"memory has no {missing.key!r}, which it refers to")
        except (UndecidedError, BadReferenceError, CriterionError, Failed) as error:
            return Grade(None, text, str(error))

    async def _resolved(self, text: str) -> str:
        """With what memory held then. Raises UndecidedError where that is redacted."""
        if "${" not in text:
            return text
        memory = await self._sources.memory()
        try:
            resolved = interpolate_criterion(text, ReferenceScope(memory=memory))
        except MissingMemory:
            if redacted_names(dict(memory)):
                raise UndecidedError("names of memory entries are redacted in the evidence") from None
            raise
        if MARK in resolved and MARK not in text:
            raise UndecidedError("what it takes from memory is redacted in the evidence")
        return resolved
