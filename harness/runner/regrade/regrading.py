"""One task after the other: evidence read, its file found, its criteria judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol

from harness.recovery import GiveUp
from harness.recovery.failure import Failure
from harness.reporting.files import inside
from harness.reporting.grading import UNMET
from harness.reporting.redaction import Redactor
from harness.runner.compile import secrets_of
from harness.runner.regrade.criteria import Grade, Judge, ScoreRange, score_again
from harness.runner.regrade.recorded import Recorded, UnusableEvidenceError, recorded
from harness.spec.defaults import Defaults
from harness.spec.expressions import environment_names
from harness.spec.load import find_tasks, load_file
from harness.spec.loaded import Loaded
from harness.spec.parametrize import expand
from harness.spec.problems import SpecError
from harness.spec.task import Expect, FinalState, TaskSpec

# The task files as they are now, for evidence that names them.

DefaultsOf = Callable[[Path], Sequence[Defaults]]
"""Task file -> the defaults of its project."""


def no_defaults(_file: Path) -> Sequence[Defaults]:
    """The file says everything itself."""
    return ()


class NamedTasks:
    """The files that were named: tasks are found in them by their id."""

    def __init__(self, specs: Iterable[Path], defaults: DefaultsOf = no_defaults) -> None:
        """Raises SpecError for a file that is none, or has errors."""
        files = (_cases(path, defaults) for path in find_tasks(specs))
        self._tasks: Mapping[str, Loaded] = {each.spec.task_id: each for cases in files for each in cases}

    def of(self, evidence: Recorded) -> Loaded:
        """Raises UnusableEvidenceError."""
        if evidence.task_id not in self._tasks:
            raise UnusableEvidenceError("no file of --spec has its task_id")
        return self._tasks[evidence.task_id]


class OwnTasks:
    """The file that the evidence itself names, when it is in one of these folders: evidence is not trusted."""

    def __init__(self, roots: Sequence[Path], defaults: DefaultsOf = no_defaults) -> None:
        self._roots = roots
        self._cases = cache(partial(_cases, defaults=defaults))

    def of(self, evidence: Recorded) -> Loaded:
        """Raises UnusableEvidenceError."""
        if not evidence.source:
            raise UnusableEvidenceError("it does not say which file it is of; name it with --spec")
        path = next((root / evidence.source for root in self._roots if _there(root, evidence.source)), None)
        if path is None:
            raise UnusableEvidenceError(f"its file {evidence.source} is not there; name it with --spec")
        try:
            cases = self._cases(path)
        except SpecError as error:
            raise UnusableEvidenceError(f"its file has errors: {str(error).splitlines()[0]}") from error
        found = next((case for case in cases if case.spec.task_id == evidence.task_id), None)
        if found is None:
            raise UnusableEvidenceError(f"its file {evidence.source} has no such task any more")
        return found


def _there(root: Path, source: str) -> bool:
    path = root / source
    try:
        return path.is_file() and inside(root, path)
    except (OSError, ValueError):  # a name that no file can have
        return False


def _cases(path: Path, defaults: DefaultsOf) -> tuple[Loaded, ...]:
    return expand(load_file(path, needs_steps=False, defaults=defaults(path)))


# What a task would be by its criteria as they are now. Pure over what was judged.

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
class RegradedVerdict:
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
) -> RegradedVerdict:
    """`relaxed` criteria do when all of them hold and the others do not. `ends`: of the task, should they not hold."""
    ends = ends or Ends()
    if evidence.ended and (not at_failure or (expect is not None and evidence.expected)):
        return _never_reached(evidence, expect)
    if evidence.alternative is not None and (worst := _worst(criteria)) is not None:
        return RegradedVerdict("undecided", f"{evidence.alternative} passed in its place; now: {worst.why}")
    found = _by_criteria(criteria, relaxed)
    moment = f"; judged as it was when it ended {evidence.ended}" if evidence.ended else ""
    if expect is not None:
        found = _declared(expect, found, ends, evidence)
    return RegradedVerdict(found.verdict, (found.why + moment).removeprefix("; "))


def _worst(grades: Sequence[Grade]) -> Grade | None:
    """The first that does not hold; else the first that is undecided."""
    unmet = (grade for grade in grades if grade.holds is False)
    return next(unmet, None) or next((grade for grade in grades if grade.holds is None), None)


def _by_criteria(criteria: Sequence[Grade], relaxed: Sequence[Grade]) -> RegradedVerdict:
    worst = _worst(criteria)
    if worst is None:
        return RegradedVerdict("pass")
    if not relaxed:
        return RegradedVerdict(_WORDS[worst.holds], worst.why)
    other = _worst(relaxed)
    if other is None:
        return RegradedVerdict("pass", f"{RELAXED}: {worst.why}")
    open_ = None in (worst.holds, other.holds)
    return RegradedVerdict("undecided" if open_ else "fail", f"{worst.why}; relaxed: {other.why}")


def _never_reached(evidence: Recorded, expect: Expect | None) -> RegradedVerdict:
    if expect is not None and evidence.expected:
        return RegradedVerdict(
            "pass", f"it ended {evidence.ended}, as its file declares; criteria change nothing", False
        )
    return RegradedVerdict(
        "undecided",
        f"it ended {evidence.ended}: its criteria were never reached; --at-failure judges them as it was then",
        by_criteria=False,
    )


def _declared(expect: Expect, found: RegradedVerdict, ends: Ends, evidence: Recorded) -> RegradedVerdict:
    """A task with `expect` passes when it ends as its file says, as in a run (`unmet` in harness/model/outcome.py)."""
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
        return RegradedVerdict("fail", f"its file declares {'; '.join(wrong)}{held}")
    if expect.warnings:
        return RegradedVerdict("undecided", "its file declares warnings, and which it gave is not judged here")
    how = f"fails as its file declares: {found.why}" if failed else f"ends as its file declares; {found.why}"
    return RegradedVerdict("pass", f"it {how}".removesuffix("; "))


def _passing(found: RegradedVerdict, evidence: Recorded) -> FinalState:
    """What was partial for another reason than its criteria (a step was skipped) stays so."""
    unmet = False in (evidence.ran or {}).values()
    partial = found.why.startswith(RELAXED) or (evidence.partial and not unmet)
    return "partial_success" if partial else "completed"


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
    standing: RegradedVerdict
    criteria: tuple[JudgedCriterion, ...]
    gone: tuple[str, ...]
    """Criteria that ran and are not in the file any more."""
    score: ScoreRange | None
    redactor: Redactor
    """Knows the secrets that the file refers to."""


@dataclass(frozen=True, slots=True)
class SkippedEvidence:
    """A directory that nothing could be judged by."""

    folder: Path
    why: str


async def regrade(
    folders: Iterable[Path], tasks: Tasks, environ: Mapping[str, str], *, at_failure: bool
) -> tuple[list[Regraded], list[SkippedEvidence]]:
    """Every task that can be judged, and every directory that cannot, in the order given."""
    judged: list[Regraded] = []
    left_out: list[SkippedEvidence] = []
    for folder in folders:
        try:
            evidence = recorded(folder)
            judged.append(await _judged(evidence, tasks.of(evidence), environ, at_failure))
        except UnusableEvidenceError as error:
            left_out.append(SkippedEvidence(folder, str(error)))
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
