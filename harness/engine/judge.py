"""Judges criteria in a run, and explains the one that does not hold."""

from __future__ import annotations

from msgspec import Struct

from harness.criteria import Criterion, CriterionError, LateError, PageQuery, evaluate, fold, parse
from harness.criteria.syntax import Compare, Literal, Number, Read, oriented
from harness.engine.run import PageSources, Run, StepAnswer, of_user
from harness.recovery.failure import Assertion, Failed, Failure, Outcome, Passed
from harness.resilience import Deadline
from harness.values import replace

ASSERTION = "ASSERTION_FAILED"
_OF_TESTERS = (ASSERTION, "CRITERIA_UNMET", "PRECONDITION_NOT_MET")
_WORDS = {"PRECONDITION_NOT_MET": "Precondition not met", "STATE_INCONSISTENT": "Memory and environment differ"}


class AssertionJudge(Struct, frozen=True):
    """How the assertions of one attempt are judged: a criterion, a precondition and a binding are assertions too."""

    run: Run
    until: Deadline
    """The end of the attempt."""
    code: str = ASSERTION
    """The code of the failure of a criterion."""
    expect: float = 0.0
    """Seconds to wait for an assertion to hold; 0: it is judged once."""

    @property
    def left(self) -> float:
        """Seconds until the end of the attempt."""
        return self.until.left(self.run.ports.clock.now())

    async def criterion(self, text: str, answer: StepAnswer | None = None) -> Outcome:
        """Evaluate a criterion; the failure explains it. `answer`: what `result(...)` reads."""
        sources = PageSources(self.run, self.until, answer)
        verdict = await evaluate(parse(text), sources, self.run.ports.clock, self.until, expect=self.expect)
        if verdict.holds or verdict.explanation is None:
            return Passed({"waited": True} if verdict.waited else {})
        why = verdict.explanation
        words = _WORDS.get(self.code, "Assertion failed")
        assertion = Assertion(why.expression, why.expected, why.actual, why.diff, why.message if why.plain else "")
        message = f"{words}: {text}: {why.message}"
        failure = Failure(self.code, message, details={"criterion": text}, assertion=assertion)
        if users := read_users(why.expression):
            failure = of_user(failure, users[0])
        if self.code not in _OF_TESTERS:
            return failure
        return await with_hint(self.run, failure, why.expression, self.until)


def read_users(text: str) -> list[str]:
    """The users whose pages a criterion names; none if it is no criterion by itself."""
    try:
        return sorted(parse(text).users) if "as" in text else []
    except CriterionError:
        return []


# What a failed criterion probably meant: an element in a frame, another of several matches, the number in a text.

_IN_FRAME = "{} is in the frame {}: write `frame={}` after the selector."
_OTHER_MATCH = (
    "{} matches {} elements, and the first that is shown was read; number {} has {!r}: select that one, such as `{}`."
)
_AS_NUMBER = "`==` compares the text; to compare the number in it, write the criterion `{} == {}`."
_CAPITALS = (
    "Capital letters count: write the text as it is there, or `matches` with `(?i)` at the start of its pattern."
)
_MOST = 10
"""The most matches that are read."""


async def with_hint(run: Run, failure: Failure, part: str, until: Deadline) -> Failure:
    """Add to a failed criterion what would hold in its place. `part`: the text of the part that does not hold."""
    sources = PageSources(run, until)
    try:
        criterion = parse(part)
        tree = criterion.tree
        found = await _other_reading(failure, tree, sources) if isinstance(tree, Compare) else None
        if found is None and isinstance(tree, Compare) and _differs_in_capitals(failure, tree):
            found = replace(failure, advice=_CAPITALS)
        return found or await _in_frame(failure, criterion, sources)
    except (CriterionError, LateError, Failed):  # the part is no criterion by itself, or the page is gone by now
        return failure


async def _in_frame(failure: Failure, criterion: Criterion, sources: PageSources) -> Failure:
    """Name the frame that contains an element which the page itself lacks."""
    for selector, frame in sorted(criterion.selectors, key=str) if not criterion.users else ():
        if frame is not None or await sources.page(PageQuery("exists", selector)):
            continue
        if inside := await sources.run.seat.frame_of(selector):
            details = {**failure.details, "in_frame": inside}
            return replace(failure, details=details, advice=_IN_FRAME.format(selector, inside, repr(inside)))
    return failure


def _differs_in_capitals(failure: Failure, tree: Compare) -> bool:
    """Return whether the comparison would hold if capital letters did not count."""
    operator, _, wanted = oriented(tree)
    actual, expected = failure.assertion and failure.assertion.actual, getattr(wanted, "value", None)
    if not (isinstance(actual, str) and isinstance(expected, str)) or operator not in ("==", "includes", "matches"):
        return False

    def holds(text: str, part: str) -> bool:
        return text == part if operator == "==" else part in text

    exact, same = (fold(actual), fold(expected)), (fold(actual).casefold(), fold(expected).casefold())
    return holds(*same) and not holds(*exact)


async def _other_reading(failure: Failure, tree: Compare, sources: PageSources) -> Failure | None:
    operator, subject, wanted = oriented(tree)
    if tree.over or not isinstance(subject, Read) or subject.function != "text":
        return None
    if operator == "==" and isinstance(wanted, Literal) and isinstance(wanted.value, int | float):
        number = Number(subject, source=f"number({subject.source})")
        if await _holds(Compare("==", number, wanted), sources):
            return replace(failure, advice=_AS_NUMBER.format(number.source, wanted.source))
    return await _other_match(failure, subject, tree, sources) if operator in ("==", "includes", "matches") else None


async def _other_match(failure: Failure, subject: Read, tree: Compare, sources: PageSources) -> Failure | None:
    """Name the match that has the text, if the selector has several and another was read."""
    operator, _, wanted = oriented(tree)
    selector = subject.arguments[0]
    count = await sources.page(subject.query._replace(function="count"))
    if not isinstance(count, int) or count < 2:
        return None
    for number in range(min(count, _MOST)):
        one = replace(subject, arguments=(f"{selector} >> nth={number}",))
        if await _holds(Compare(operator, one, wanted), sources):
            text = str(await sources.page(one.query)).strip()
            details = {**failure.details, "other_match": {"count": count, "number": number + 1, "text": text}}
            advice = _OTHER_MATCH.format(selector, count, number + 1, text, one.arguments[0])
            return replace(failure, details=details, advice=advice)
    return None


async def _holds(comparison: Compare, sources: PageSources) -> bool:
    return (await evaluate(Criterion("", comparison), sources, sources.run.ports.clock, sources.until)).holds
