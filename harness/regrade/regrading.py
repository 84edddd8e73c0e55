"""One task after the other: evidence read, its file found, its criteria judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.compile.planned import secrets_of
from harness.regrade.criteria import Judge
from harness.regrade.documents import UnusableEvidenceError
from harness.regrade.grading import Grade
from harness.regrade.recorded import Recorded, recorded
from harness.regrade.score import ScoreRange, score_again
from harness.regrade.verdict import Ends, Standing, standing
from harness.reporting.redaction import Redactor
from harness.spec.expressions import environment_names
from harness.spec.loaded import Loaded


class Tasks(Protocol):
    """Where task files come from."""

    def of(self, evidence: Recorded) -> Loaded:
        """Raises UnusableEvidenceError."""
        ...


@dataclass(frozen=True, slots=True)
class JudgedCriterion:
    """One criterion as the file has it now."""

    text: str
    relaxed: bool
    new: bool
    """It did not run. False also where it is not known what ran."""
    held: bool | None
    """Whether it held in the run; None: it was not reached, or that is not known."""
    grade: Grade


@dataclass(frozen=True, slots=True)
class Regraded:
    """One task, then and now."""

    evidence: Recorded
    standing: Standing
    criteria: tuple[JudgedCriterion, ...]
    gone: tuple[str, ...]
    """Criteria that ran and are not in the file any more."""
    score: ScoreRange | None
    redactor: Redactor
    """Knows the secrets that the file refers to."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A directory that nothing could be judged by."""

    folder: Path
    why: str


async def regrade(
    folders: Iterable[Path], tasks: Tasks, environ: Mapping[str, str], *, at_failure: bool
) -> tuple[list[Regraded], list[LeftOut]]:
    """Every task that can be judged, and every directory that cannot, in the order given."""
    judged: list[Regraded] = []
    left_out: list[LeftOut] = []
    for folder in folders:
        try:
            evidence = recorded(folder)
            judged.append(await _judged(evidence, tasks.of(evidence), environ, at_failure))
        except UnusableEvidenceError as error:
            left_out.append(LeftOut(folder, str(error)))
    return judged, left_out


async def _judged(evidence: Recorded, task: Loaded, environ: Mapping[str, str], at_failure: bool) -> Regraded:
    spec, judge = task.spec, Judge(task, evidence.sources, environ)
    plan = spec.fallback_plan
    relaxed = plan.relaxed_success_criteria if plan.enabled else ()
    criteria = [await _criterion(text, evidence, judge, relaxed=False) for text in spec.success_criteria]
    others = [await _criterion(text, evidence, judge, relaxed=True) for text in relaxed]
    found = standing(
        evidence, spec.expect, _grades(criteria), _grades(others), at_failure=at_failure, ends=Ends.of(spec)
    )
    succeeded = {"pass": True, "fail": False}.get(found.verdict)
    return Regraded(
        evidence=evidence,
        standing=found,
        criteria=(*criteria, *others),
        gone=tuple(text for text in evidence.ran or () if text not in spec.success_criteria),
        score=await score_again(spec, judge, evidence.attempts, succeeded),
        redactor=Redactor(secrets_of(environment_names(spec), environ)),
    )


def _grades(criteria: Sequence[JudgedCriterion]) -> list[Grade]:
    return [criterion.grade for criterion in criteria]


async def _criterion(text: str, evidence: Recorded, judge: Judge, *, relaxed: bool) -> JudgedCriterion:
    known = evidence.ran is not None
    ran = evidence.relaxed if relaxed else (evidence.ran or {})
    held = None if relaxed or evidence.ran is None else evidence.ran.get(text)
    return JudgedCriterion(text, relaxed, known and text not in ran, held, await judge(text))
