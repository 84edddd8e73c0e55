"""What came of a regrading, for people. Texts of pages and files are shown without what could steer a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from harness.reporting.files import shown_path
from harness.runner.regrade.criteria import ScoreRange
from harness.runner.regrade.regrading import JudgedCriterion, Regraded, SkippedEvidence
from harness.spec.names import how_many

# What came of a regrading: counts, and as one document.

_GRADES = {True: "held", False: "unmet", None: "undecided"}


def counts(judged: Sequence[Regraded], left_out: Sequence[SkippedEvidence]) -> dict[str, int]:
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


def as_json(judged: Sequence[Regraded], left_out: Sequence[SkippedEvidence]) -> dict[str, Any]:
    """The document of `--json`."""
    return {
        "tasks": [_task_document(each) for each in judged],
        "left_out": [{"folder": str(each.folder), "why": each.why} for each in left_out],
        "counts": counts(judged, left_out),
    }


def _task_document(regraded: Regraded) -> dict[str, Any]:
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
        "criteria": [_criterion_document(each) for each in regraded.criteria],
        "gone": list(regraded.gone),
        "score": None if regraded.score is None else _score_document(evidence.score, regraded.score),
    }
    redacted: dict[str, Any] = regraded.redactor.strings(document)
    return redacted


def _criterion_document(criterion: JudgedCriterion) -> dict[str, Any]:
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


def _score_document(before: float | None, score: ScoreRange) -> dict[str, Any]:
    parts = [{"id": each.id, "applies": each.applies, "now": _GRADES[each.grade.holds]} for each in score.parts]
    return {"before": before, "lowest": score.lowest, "highest": score.highest, "parts": parts, "why": score.why}


LONGEST = 300
_SIGNS = {True: "+", False: "x", None: "?"}


def plain(text: str) -> str:
    """On one line, cut when long; what is no printable character is spelt out."""
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in cut)


def lines(judged: Sequence[Regraded], left_out: Sequence[SkippedEvidence]) -> Iterator[str]:
    """Each task with what changed or is open about it, what was left out, and the counts."""
    for each in judged:
        yield from _task(each)
    for one in left_out:
        yield f"left out: {plain(shown_path(one.folder))}: {plain(one.why)}"
    yield _counted(judged, left_out)


def _task(regraded: Regraded) -> Iterator[str]:
    evidence, standing = regraded.evidence, regraded.standing
    before = "pass" if evidence.before else "fail"
    verdict = before if before == standing.verdict else f"{before} -> {standing.verdict}"
    yield f"{verdict:<18} {plain(evidence.task_id)}  ({plain(shown_path(evidence.folder))})"
    why = standing.why if evidence.ended or evidence.expected or evidence.alternative else ""
    why = why or ("" if regraded.criteria else "it has no success criteria")
    yield from [f"    {_shown(regraded, why)}"] if why else []
    for criterion in regraded.criteria if standing.by_criteria else ():
        if criterion.grade.holds is not True or criterion.new or criterion.held is False:
            yield from _criterion(regraded, criterion)
    yield from (f"    - gone: {plain(text)}" for text in regraded.gone)
    if regraded.score is not None:
        yield f"    score: {_score(evidence.score, regraded.score)}"


def _criterion(regraded: Regraded, criterion: JudgedCriterion) -> Iterator[str]:
    marks = [word for word, told in (("new", criterion.new), ("relaxed", criterion.relaxed)) if told]
    marks += ["held before"] if criterion.held and criterion.grade.holds is False else []
    marks += ["unmet before"] if criterion.held is False and criterion.grade.holds else []
    said = f"  ({', '.join(marks)})" if marks else ""
    yield f"    {_SIGNS[criterion.grade.holds]} {_shown(regraded, criterion.text)}{said}"
    if criterion.grade.holds is not True:
        words = "cannot be told: " if criterion.grade.holds is None else ""
        part = f"{criterion.grade.part}: " if criterion.grade.holds is None and criterion.grade.part else ""
        same = part.removesuffix(": ") == criterion.text.strip()
        yield f"        {words}{_shown(regraded, ('' if same else part) + criterion.grade.why)}"


def _shown(regraded: Regraded, text: str) -> str:
    return plain(regraded.redactor.text(text))


def _score(before: float | None, score: ScoreRange) -> str:
    was = "" if before is None else f"{before:g} -> "
    if score.lowest is None or score.highest is None:
        return f"{was}cannot be told: {plain(score.why)}"
    same = score.lowest == score.highest
    return f"{was}{score.lowest:g}" if same else f"{was}{score.lowest:g} to {score.highest:g}, by what is undecided"


def _counted(judged: Sequence[Regraded], left_out: Sequence[SkippedEvidence]) -> str:
    found = counts(judged, left_out)
    tasks = how_many(found["tasks"], "task")
    more = f", {found['left_out']} left out" if left_out else ""
    newly = [f"{found[f'newly_{name}']} newly {name}" for name in ("failing", "passing") if found[f"newly_{name}"]]
    changed = f" ({', '.join(newly)})" if newly else ""
    return f"{tasks}: {found['pass']} pass, {found['fail']} fail, {found['undecided']} undecided{changed}{more}"
