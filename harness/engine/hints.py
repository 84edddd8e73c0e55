"""What a failed criterion probably meant: an element in a frame, another of several matches, the number in a text."""

from __future__ import annotations

from harness.criteria import Criterion, CriterionError, LateError, PageQuery, evaluate, parse
from harness.criteria.syntax import Compare, Literal, Number, Read, oriented
from harness.engine.run import PageSources, Run
from harness.recovery.failure import Failed, Failure
from harness.resilience import Deadline
from harness.values import replace

_IN_FRAME = "{} is in the frame {}: write `frame={}` after the selector."
_OTHER_MATCH = (
    "{} matches {} elements, and the first that is shown was read; number {} has {!r}: select that one, such as `{}`."
)
_AS_NUMBER = "`==` compares the text; to compare the number in it, write the criterion `{} == {}`."
_MOST = 10
"""The most matches that are read."""


async def with_hint(run: Run, failure: Failure, part: str, until: Deadline) -> Failure:
    """Add to a failed criterion what would hold in its place. `part`: the text of the part that does not hold."""
    sources = PageSources(run, until)
    try:
        criterion = parse(part)
        tree = criterion.tree
        found = await _other_reading(run, failure, tree, sources) if isinstance(tree, Compare) else None
        return found or await _in_frame(run, failure, criterion, sources)
    except (CriterionError, LateError, Failed):  # the part is no criterion by itself, or the page is gone by now
        return failure


async def _in_frame(run: Run, failure: Failure, criterion: Criterion, sources: PageSources) -> Failure:
    """Name the frame that contains an element which the page itself lacks."""
    for selector, frame in sorted(criterion.selectors, key=str):
        if frame is not None or await sources.page(PageQuery("exists", selector)):
            continue
        if inside := await run.stage.session.frame_of(selector):
            details = {**failure.details, "in_frame": inside}
            return replace(failure, details=details, advice=_IN_FRAME.format(selector, inside, repr(inside)))
    return failure


async def _other_reading(run: Run, failure: Failure, tree: Compare, sources: PageSources) -> Failure | None:
    operator, subject, wanted = oriented(tree)
    if tree.over or not isinstance(subject, Read) or subject.function != "text":
        return None
    if operator == "==" and isinstance(wanted, Literal) and isinstance(wanted.value, int | float):
        number = Number(subject, source=f"number({subject.source})")
        if await _holds(run, Compare("==", number, wanted), sources):
            return replace(failure, advice=_AS_NUMBER.format(number.source, wanted.source))
    return await _other_match(run, failure, tree, sources) if operator in ("==", "includes", "matches") else None


async def _other_match(run: Run, failure: Failure, tree: Compare, sources: PageSources) -> Failure | None:
    """Name the match that has the text, if the selector has several and another was read."""
    operator, subject, wanted = oriented(tree)
    assert isinstance(subject, Read)
    selector = subject.arguments[0]
    count = await sources.page(subject.query._replace(function="count"))
    if not isinstance(count, int) or count < 2:
        return None
    for number in range(min(count, _MOST)):
        one = replace(subject, arguments=(f"{selector} >> nth={number}",))
        if await _holds(run, Compare(operator, one, wanted), sources):
            text = str(await sources.page(one.query)).strip()
            details = {**failure.details, "other_match": {"count": count, "number": number + 1, "text": text}}
            advice = _OTHER_MATCH.format(selector, count, number + 1, text, one.arguments[0])
            return replace(failure, details=details, advice=advice)
    return None


async def _holds(run: Run, comparison: Compare, sources: PageSources) -> bool:
    return (await evaluate(Criterion("", comparison), sources, run.ports.clock, sources.until)).holds
