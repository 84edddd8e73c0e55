"""What came of a regrading: counts, and as one document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from harness.regrade.regrading import JudgedCriterion, LeftOut, Regraded
from harness.regrade.score import ScoreRange

_GRADES = {True: "held", False: "unmet", None: "undecided"}


def counts(judged: Sequence[Regraded], left_out: Sequence[LeftOut]) -> dict[str, int]:
    """Of tasks by their verdict now; `newly_*`: of those, the ones that counted otherwise in their run."""
    found = Counter(each.standing.verdict for each in judged)
    return {
        "tasks": len(judged),
        "pass": found["pass"],
        "fail": found["fail"],
        "undecided": found["undecided"],
        "newly_failing": sum(each.standing.verdict == "fail" and each.evidence.before for each in judged),
        "newly_passing": sum(each.standing.verdict == "pass" and not each.evidence.before for each in judged),
        "left_out": len(left_out),
    }


def as_json(judged: Sequence[Regraded], left_out: Sequence[LeftOut]) -> dict[str, Any]:
    """The document of `--json`."""
    return {
        "tasks": [_task(each) for each in judged],
        "left_out": [{"folder": str(each.folder), "why": each.why} for each in left_out],
        "counts": counts(judged, left_out),
    }


def _task(regraded: Regraded) -> dict[str, Any]:
    evidence = regraded.evidence
    document = {
        "task_id": evidence.task_id,
        "key": evidence.key,
        "run": evidence.run,
        "source": evidence.source,
        "folder": str(evidence.folder),
        "before": "pass" if evidence.before else "fail",
        "now": regraded.standing.verdict,
        "why": regraded.standing.why,
        "ended": evidence.ended or None,
        "criteria": [_criterion(each) for each in regraded.criteria],
        "gone": list(regraded.gone),
        "score": None if regraded.score is None else _score(evidence.score, regraded.score),
    }
    redacted: dict[str, Any] = regraded.redactor.strings(document)
    return redacted


def _criterion(criterion: JudgedCriterion) -> dict[str, Any]:
    grade = criterion.grade
    return {
        "text": criterion.text,
        "relaxed": criterion.relaxed,
        "new": criterion.new,
        "before": None if criterion.held is None else _GRADES[criterion.held],
        "now": _GRADES[grade.holds],
        "part": grade.part,
        "why": grade.why,
        "expected": grade.expected,
        "actual": grade.actual,
    }


def _score(before: float | None, score: ScoreRange) -> dict[str, Any]:
    parts = [{"id": each.id, "applies": each.applies, "now": _GRADES[each.grade.holds]} for each in score.parts]
    return {"before": before, "lowest": score.lowest, "highest": score.highest, "parts": parts, "why": score.why}
