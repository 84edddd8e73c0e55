"""Evaluating a criterion: look, and as long as it is not settled, wait a little and look again."""

from __future__ import annotations

from harness.criteria.criterion import Criterion, ValueExpression
from harness.criteria.differences import difference
from harness.criteria.monitors import Pending, monitor
from harness.criteria.patterns import Patience
from harness.criteria.reading import read
from harness.criteria.sources import Pass, Sources
from harness.criteria.syntax import Json
from harness.criteria.verdict import Explanation, Finding, Verdict
from harness.resilience import Clock, Deadline

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 0.25
SHORTEST_PAUSE = 0.001


async def evaluate(criterion: Criterion, sources: Sources, clock: Clock, deadline: Deadline) -> Verdict:
    """Whether the criterion holds. Every look reads afresh; what a source raises passes through."""
    watched = monitor(criterion.tree, deadline.at)
    pause = FIRST_PAUSE
    patience = Patience()
    standing = await watched.look(Pass(sources, patience), clock.now())
    while isinstance(standing, Pending):
        await clock.sleep(max(SHORTEST_PAUSE, min(pause, standing.until - clock.now())))
        pause = min(pause * 1.5, LONGEST_PAUSE)
        standing = await watched.look(Pass(sources, patience), clock.now())
    return _verdict(standing)


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
        explanation=Explanation(finding.expression, finding.expected, finding.actual, diff, finding.message),
    )
