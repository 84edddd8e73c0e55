"""Evaluating a criterion: look, and as long as it is not settled, wait a little and look again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from harness.criteria.criterion import Criterion, ValueExpression
from harness.criteria.differences import difference
from harness.criteria.monitors import Pending, monitor
from harness.criteria.patterns import Patience
from harness.criteria.reading import read
from harness.criteria.sources import Pass, Sources
from harness.criteria.syntax import Json, Within
from harness.criteria.verdict import Explanation, Finding, Verdict
from harness.resilience import Clock, Deadline

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 0.25
SHORTEST_PAUSE = 0.001


async def evaluate(
    criterion: Criterion, sources: Sources, clock: Clock, deadline: Deadline, *, expect: float = 0.0
) -> Verdict:
    """Whether the criterion holds. Every look reads afresh; what a source raises passes through.

    `expect`: seconds that are waited for it to hold. A criterion that says itself how it waits goes by its own words.
    """
    tree = criterion.tree if criterion.waits or not expect else Within(expect, criterion.tree)
    watched = monitor(tree, deadline.at)
    waits, patience = pauses(), Patience()
    standing = first = await watched.look(Pass(sources, patience), clock.now())
    while isinstance(standing, Pending):
        await clock.sleep(max(SHORTEST_PAUSE, min(next(waits), standing.until - clock.now())))
        standing = await watched.look(Pass(sources, patience), clock.now())
    return replace(_verdict(standing), waited=isinstance(first, Pending))


def pauses() -> Iterator[float]:
    """Seconds between one look and the next, for ever: short at first, then a quarter of a second."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 1.5, LONGEST_PAUSE)


async def evaluate_value(
    expression: ValueExpression,
    sources: Sources,
    clock: Clock,  # noqa: ARG001 (called like evaluate; a value never waits)
    deadline: Deadline,  # noqa: ARG001
) -> Json:
    """The value: null when it is missing, a list when its path has `*`. What a source raises passes through."""
    return (await read(expression.tree, Pass(sources, Patience()))).json


def _verdict(finding: Finding) -> Verdict:
    if finding.holds:
        return Verdict(holds=True)
    diff = difference(finding.expected, finding.actual) if finding.differs else ""
    return Verdict(
        holds=False,
        explanation=Explanation(
            finding.expression, finding.expected, finding.actual, diff, finding.message, finding.plain
        ),
    )
