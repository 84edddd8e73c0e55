"""The score again: `scoring_checkpoints` and `rubrics`, as far as the evidence tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.engine.result import rated, total, weighted
from harness.regrade.criteria import Judge
from harness.regrade.grading import Grade
from harness.spec.task import ScoringCheckpoint, TaskSpec


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
