"""Judges kept runs again: the present criteria of the task files, then the verdict on the task, and its score."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from harness.criteria import Criterion, CriterionError, Json, look_once, parse
from harness.criteria.check import check, read
from harness.criteria.evaluation import Unsettled
from harness.criteria.patterns import SECONDS, Patience
from harness.criteria.sources import Pass
from harness.criteria.syntax import PAGE_FUNCTIONS, Compare, Read, walk
from harness.model.outcome import Looked, attempts_of, differences, score_of
from harness.recovery import GiveUp
from harness.recovery.failure import Failure
from harness.reporting.archive import UNMET
from harness.reporting.files import is_inside, shown_path
from harness.reporting.redaction import MARK, Redactor
from harness.reporting.regrade.recorded import (
    Recorded,
    RecordedSources,
    UndecidedError,
    UnusableEvidenceError,
    recorded,
)
from harness.spec.defaults import Defaults
from harness.spec.expressions import environment_names, scope_of, secrets_of
from harness.spec.generated import recorded_values
from harness.spec.load import find_tasks, load_file
from harness.spec.loaded import Loaded
from harness.spec.names import blank_unprintable, how_many
from harness.spec.parametrize import expand, task_named
from harness.spec.problems import SpecError
from harness.spec.references import BadReferenceError, MissingMemory, ReferenceScope, interpolate_criterion
from harness.spec.task import FinalState, TaskSpec
from harness.values import replace

# Judges one criterion: the project's own evaluation reads the recorded state once. It decides only if everything that
# it reads was recorded, so that it never guesses.

_TOLERANCE = timedelta(seconds=2)
"""The largest error of a recorded time."""
_TIMES = ("time_since", "time_until")
_REDACTED_NAME = re.compile(re.escape(MARK) + r'(?:[^"\\]|\\.)*":')


class Grade(Struct, frozen=True):
    """The judgement of one criterion."""

    holds: bool | None
    """None: the evidence does not decide."""
    part: str
    """The smallest part that decides, or that cannot be decided."""
    why: str = ""
    expected: Json = None
    actual: Json = None


async def grade(criterion: Criterion, sources: RecordedSources, expect: float = 0.0) -> Grade:
    """Judge a criterion. It never raises: a criterion without sufficient evidence is undecided.

    `expect`: seconds that a run waits for it to hold.
    """
    patience, part = Patience(), str(criterion)
    try:
        for node in walk(criterion.tree):
            part = node.source
            if isinstance(node, Read):
                await _refuse_redacted(node, Pass(sources, patience))
            elif isinstance(node, Compare):
                await _refuse_narrow(node, sources, patience)
        found = await look_once(criterion, sources, patience, expect=expect)
    except UndecidedError as error:
        return Grade(None, part, str(error))
    if patience.seconds < SECONDS:
        return Grade(None, str(criterion), "the regular expression takes too long")
    if isinstance(found, Unsettled):
        why = f"the evidence is from one moment, but this criterion waits; at that moment: {found.so_far.message}"
        return Grade(None, found.so_far.expression, why, found.so_far.expected, found.so_far.actual)
    return Grade(found.holds, found.expression, found.message, found.expected, found.actual)


async def _refuse_redacted(node: Read, look: Pass) -> None:
    """Refuse a path that finds nothing, or several values: it may miss a key whose name was redacted."""
    told = replace(node, function="mem") if node.function in _TIMES else node
    operand = await read(told, look)
    if MARK in json.dumps(operand.json):
        raise UndecidedError(f"{node.source} is redacted in the evidence")
    if node.function in PAGE_FUNCTIONS or (operand.matches and not operand.many):
        return
    document = await look.channel(node.arguments[0]) if node.function == "json" else await look.memory()
    if _REDACTED_NAME.search(json.dumps(document)):
        raise UndecidedError(f"names in the evidence are redacted, and {node.source} may be one of them")


async def _refuse_narrow(node: Compare, sources: RecordedSources, patience: Patience) -> None:
    if any(isinstance(each, Read) and each.function in _TIMES for each in walk(node)):
        ends = (sources.now() - _TOLERANCE, sources.now() + _TOLERANCE)
        found = [await check(node, Pass(replace(sources, at=end), patience)) for end in ends]
        if found[0].holds is not found[1].holds:
            raise UndecidedError(f"{node.source} depends on the exact second")


class Judge(Struct, frozen=True):
    """Judges texts of one task file. `scope` has the values of its references, apart from memory."""

    sources: RecordedSources
    scope: ReferenceScope

    async def __call__(self, text: str, expect: float = 0.0) -> Grade:
        """Judge the text as the file has it. It never raises: a criterion without sufficient evidence is undecided."""
        try:
            ready = interpolate_criterion(text, self.scope, last=False)
            if "${" in ready:
                ready = interpolate_criterion(ready, ReferenceScope(memory=await self.sources.memory()))
            if MARK in ready:
                raise UndecidedError("the memory entry that it uses is redacted in the evidence")
            return await grade(parse(ready), self.sources, expect)
        except MissingMemory as missing:
            return Grade(None, text, f"memory has no {missing.key!r}, which it refers to")
        except (UndecidedError, BadReferenceError, CriterionError) as error:
            return Grade(None, text, str(error))


# The verdict on a task by its present criteria. Pure over the judgements.

_Verdict = Literal["pass", "fail", "undecided"]
VERDICTS: dict[bool | None, _Verdict] = {True: "pass", False: "fail", None: "undecided"}
_GRADES = {True: "held", False: "unmet", None: "undecided"}
Standing = tuple[_Verdict, str]
"""The verdict, and its reason."""


def unreached(evidence: Recorded, spec: TaskSpec, *, at_failure: bool) -> Standing | None:
    """The verdict on a task that ended before its criteria, and whose criteria are not to be judged."""
    if evidence.ended and spec.expect and evidence.manifest.expected:
        return "pass", f"it ended {evidence.ended}, as its file declares; criteria do not change that"
    if evidence.ended and not at_failure:
        why = "before its criteria; --at-failure judges them by the state at that moment"
        return "undecided", f"it ended {evidence.ended}, {why}"
    return None


def standing(evidence: Recorded, spec: TaskSpec, criteria: Sequence[Grade], relaxed: Sequence[Grade]) -> Standing:
    """The verdict by these criteria; if they do not hold, the `relaxed` ones are sufficient if all of them hold."""
    alternative, worst = evidence.manifest.grading.alternative, _decisive_grade(criteria)
    if alternative is not None and worst is not None:
        return "undecided", f"{alternative} passed in its place; now {worst.why}"
    verdict, why = _declared(evidence, spec, *_by_criteria(worst, relaxed))
    moment = f"; judged by the state when it ended {evidence.ended}" if evidence.ended else ""
    return verdict, (why + moment).removeprefix("; ")


def _decisive_grade(grades: Sequence[Grade]) -> Grade | None:
    """The first criterion that does not hold; else the first that is undecided."""
    return next((each for holds in (False, None) for each in grades if each.holds is holds), None)


def _by_criteria(worst: Grade | None, relaxed: Sequence[Grade]) -> Standing:
    if worst is None:
        return "pass", ""
    if not relaxed:
        return VERDICTS[worst.holds], worst.why
    other = _decisive_grade(relaxed)
    if other is None:
        return "pass", f"only by its relaxed criteria: {worst.why}"
    return "undecided" if None in (worst.holds, other.holds) else "fail", f"{worst.why}; relaxed: {other.why}"


def _declared(evidence: Recorded, spec: TaskSpec, verdict: _Verdict, why: str) -> Standing:
    """The verdict on a task with `expect`: it passes if it ends as its file declares."""
    if spec.expect is None or verdict == "undecided":
        return verdict, why
    if spec.expect.criteria:
        return "undecided", "its `expect` declares criteria, which regrade does not judge"
    if verdict == "fail":
        wrong = differences(spec.expect, _declared_final_state(spec), Failure(UNMET, "").type, UNMET, len(spec.steps))
    else:
        partial = why or evidence.manifest.grading.skipped
        wrong = differences(spec.expect, "partial_success" if partial else "completed", None, None, None)
    if spec.expect.warnings or any(part.required for part in spec.scoring_checkpoints):
        return "undecided", "its file declares warnings or required parts of its score, which regrade does not judge"
    if wrong:
        return "fail", f"it would not end as its file declares: {'; '.join(wrong)}"
    return "pass", f"it would end as its file declares; {why}".removesuffix("; ")


def _declared_final_state(spec: TaskSpec) -> FinalState:
    """The final state of a task whose criteria do not hold, by its `on_assertion_fail`."""
    remedies = islice(spec.error_recovery.remedies(Failure(UNMET, ""), lambda: 0.5), 1000)
    return next((each for each in remedies if isinstance(each, GiveUp)), GiveUp()).final_state


# Computes the score again: `scoring_checkpoints` and `rubrics`.


async def score_again(
    spec: TaskSpec, judge: Judge, attempts: Mapping[str, int] | None, succeeded: bool | None
) -> dict[str, Any]:
    """Compute the score. `now` is None if it is unknown, for the reason in `why`. `succeeded`: None while undecided."""
    looked: list[Looked] = []
    parts: dict[str, bool | None] = {}
    for part in spec.scoring_checkpoints:
        applies = (await judge(part.when)).holds if part.when and part.when.strip() else True
        if applies is not False:
            parts[part.id] = applies and (await judge(part.assertion)).holds
        looked.append((part, bool(applies), None if parts.get(part.id) else "unmet"))
    open_ = [name for name, holds in parts.items() if holds is None]
    if spec.rubrics and None in (attempts, succeeded):
        open_.append("its rubrics")
    words = {name: _GRADES[holds] for name, holds in parts.items()}
    if open_:
        return {"now": None, "parts": words, "why": f"undecided: {', '.join(open_)}"}
    score = score_of(looked, spec.rubrics, attempts or attempts_of((), 0), bool(succeeded))
    return {"now": score.total, "parts": words, "why": ""}


# Task by task: reads the evidence, finds its file, judges its criteria. The result is one JSON document.


class TaskFiles:
    """The present task files: those that were named, else the one that the evidence names."""

    def __init__(
        self, roots: Sequence[Path], named: Iterable[Path] | None, defaults: Callable[[Path], Sequence[Defaults]]
    ) -> None:
        """Load the named files.

        `roots`: evidence is not trusted, so a file that it names counts only within these. `defaults`: returns those of
        the project of a task file. Raises SpecError for a named file that is no task, or has errors.
        """
        self._roots = roots
        self._cases = cache(lambda path: expand(load_file(path, needs_steps=False, defaults=defaults(path))))
        self._named = None if named is None else [case for path in find_tasks(named) for case in self._cases(path)]

    def of(self, evidence: Recorded) -> TaskSpec:
        """The task of the evidence. Raises UnusableEvidenceError."""
        source, task_id = evidence.manifest.source, evidence.manifest.task_id
        cases = self._own(source) if self._named is None else self._named
        if found := task_named(task_id, cases):
            return found.spec
        gone = f"its file {source} does not have this task any more"
        raise UnusableEvidenceError(gone if self._named is None else "no file of --spec has its task_id")

    def _own(self, source: str) -> Sequence[Loaded]:
        path = next((root / source for root in self._roots if source and _is_in_root(root, source)), None)
        if path is None:
            raise UnusableEvidenceError(f"its file {source or '(not named)'} was not found; name it with --spec")
        try:
            return self._cases(path)
        except SpecError as error:
            raise UnusableEvidenceError(f"its file has errors: {str(error).splitlines()[0]}") from error


def _is_in_root(root: Path, source: str) -> bool:
    try:
        return (root / source).is_file() and is_inside(root, root / source)
    except (OSError, ValueError):  # no file can have the name
        return False


async def regrade(
    folders: Iterable[Path], files: TaskFiles, environ: Mapping[str, str], *, at_failure: bool
) -> dict[str, Any]:
    """Judge all: `tasks` has each that can be judged, `left_out` each other directory with the reason; and `counts`."""
    tasks: list[dict[str, Any]] = []
    left_out: list[dict[str, str]] = []
    for folder in folders:
        try:
            evidence = recorded(folder)
            spec = files.of(evidence)
            redactor = Redactor(secrets_of(environment_names(spec), environ))
            tasks.append(redactor.strings(await _judge_task(evidence, spec, environ, at_failure)))
        except (UnusableEvidenceError, BadReferenceError) as error:
            left_out.append({"folder": str(folder), "why": str(error)})
    found = Counter(each["now"] for each in tasks)
    changed = Counter((each["before"], each["now"]) for each in tasks)
    counts = {
        "tasks": len(tasks),
        **{verdict: found[verdict] for verdict in ("pass", "fail", "undecided")},
        "newly_failing": changed["pass", "fail"],
        "newly_passing": changed["fail", "pass"],
        "left_out": len(left_out),
    }
    return {"tasks": tasks, "left_out": left_out, "counts": counts}


async def _judge_task(
    evidence: Recorded, spec: TaskSpec, environ: Mapping[str, str], at_failure: bool
) -> dict[str, Any]:
    told, ran = evidence.manifest, evidence.ran
    judge = Judge(evidence.sources, scope_of(spec, environ, recorded_values(told.grading.generated)))
    plan, found = spec.fallback_plan, unreached(evidence, spec, at_failure=at_failure)
    criteria: dict[str, Grade] = {}
    relaxed: dict[str, Grade] = {}
    if found is None:
        # a task that failed by its criteria has already waited for them; evidence is of one moment, so here it counts
        # only whether a run waits, and not for how long: `timeout_scale` changes nothing
        expect = spec.expect_timeout if told.passed else 0.0
        criteria = {text: await judge(text, expect) for text in spec.success_criteria}
        relaxed = {text: await judge(text) for text in (plan.relaxed_success_criteria if plan.enabled else ())}
        found = standing(evidence, spec, [*criteria.values()], [*relaxed.values()])
    verdict, why = found
    score = None
    if spec.scoring_checkpoints or spec.rubrics:
        succeeded = None if spec.expect else {"pass": True, "fail": False}.get(verdict)
        score = {"before": told.grading.score, **await score_again(spec, judge, told.grading.attempts, succeeded)}
    return {
        "task_id": told.task_id,
        "key": told.key or evidence.folder.name,
        "run": told.run,
        "source": told.source,
        "folder": str(evidence.folder),
        "before": "pass" if evidence.passed_before else "fail",
        "now": verdict,
        "why": why,
        "ended": evidence.ended or None,
        "criteria": [_criterion(*each, ran) for each in criteria.items()]
        + [_criterion(*each, None, relaxed=True) for each in relaxed.items()],
        "gone": [text for text in ran or () if text not in spec.success_criteria],
        "score": score,
    }


def _criterion(
    text: str, grade: Grade, ran: Mapping[str, bool | None] | None, *, relaxed: bool = False
) -> dict[str, Json]:
    """`before` is null if the criterion was not reached, or this is unknown; `new`: it did not run."""
    held = (ran or {}).get(text)
    told = {"before": None if held is None else _GRADES[held], "now": _GRADES[grade.holds]}
    found = {name: getattr(grade, name) for name in ("part", "why", "expected", "actual")}
    return {"text": text, "relaxed": relaxed, "new": ran is not None and text not in ran, **told, **found}


# The result as lines for people. Texts of pages and files cannot steer the terminal.

_LONGEST = 300
_SIGNS = {"held": "+", "unmet": "x", "undecided": "?"}


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """A line for each task, with the changed or open criteria; the directories that were left out; the counts."""
    for task in document["tasks"]:
        yield from _task_lines(task)
    for one in document["left_out"]:
        yield f"left out: {_plain(shown_path(Path(one['folder'])))}: {_plain(one['why'])}"
    yield _counts_line(document["counts"])


def _plain(text: str) -> str:
    return blank_unprintable(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


def _task_lines(task: Mapping[str, Any]) -> Iterator[str]:
    before, now, criteria = task["before"], task["now"], task["criteria"]
    verdict = before if before == now else f"{before} -> {now}"
    yield f"{verdict:<18} {_plain(task['task_id'])}  ({_plain(shown_path(Path(task['folder'])))})"
    why = task["why"] or ("" if criteria else "it has no success criteria")
    if why and why not in [criterion["why"] for criterion in criteria]:
        yield f"    {_plain(why)}"
    for criterion in criteria:
        if criterion["now"] != "held" or criterion["new"] or criterion["before"] == "unmet":
            yield from _criterion_line(criterion)
    yield from (f"    - gone: {_plain(text)}" for text in task["gone"])
    if score := task["score"]:
        was = "" if score["before"] is None else f"{score['before']:g} -> "
        yield f"    score: {was}{_plain(score['why']) if score['now'] is None else format(score['now'], 'g')}"


def _criterion_line(criterion: Mapping[str, Any]) -> Iterator[str]:
    now, before = criterion["now"], criterion["before"]
    marks = [word for word in ("new", "relaxed") if criterion[word]]
    marks += [f"{before} before"] if before not in (None, now) and now != "undecided" else []
    said = f"  ({', '.join(marks)})" if marks else ""
    yield f"    {_SIGNS[now]} {_plain(criterion['text'])}{said}"
    if now != "held":
        yield f"        {'undecided: ' if now == 'undecided' else ''}{_plain(criterion['why'])}"


def _counts_line(counts: Mapping[str, int]) -> str:
    judged = f"{counts['pass']} pass, {counts['fail']} fail, {counts['undecided']} undecided"
    newly = [f"{counts[f'newly_{name}']} newly {name}" for name in ("failing", "passing") if counts[f"newly_{name}"]]
    changed = f" ({', '.join(newly)})" if newly else ""
    more = f", {counts['left_out']} left out" if counts["left_out"] else ""
    return f"{how_many(counts['tasks'], 'task')}: {judged}{changed}{more}"
