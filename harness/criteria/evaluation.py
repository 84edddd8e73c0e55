"""Evaluates a criterion: it is read again after a short pause until it is settled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol, TypeAlias

from msgspec import Struct, field

from harness.criteria.check import Explanation, Finding, Verdict, check, read
from harness.criteria.parser import Criterion, ValueExpression
from harness.criteria.patterns import Patience
from harness.criteria.sources import LateError, Pass, Sources
from harness.criteria.syntax import Compare, Condition, Every, Json, Not, Some, Stable, Test, Within
from harness.criteria.texts import difference
from harness.resilience import Clock, Deadline
from harness.values import replace

_FIRST_PAUSE = 0.1
LONGEST_PAUSE = 0.25
SHORTEST_PAUSE = 0.001


async def evaluate(
    criterion: Criterion, sources: Sources, clock: Clock, deadline: Deadline, *, expect: float = 0.0
) -> Verdict:
    """Evaluate the criterion. Each pass reads the sources afresh; errors of a source pass through.

    `expect`: seconds to wait for it to hold. A criterion that contains its own wait ignores `expect`. A page that is
    busy is waited for: a look that does not end in time is no outcome, and what was last seen counts. Only if nothing
    was seen at all, the error of the source is raised.
    """
    watched = _monitor(_patient(criterion, expect), deadline.at)
    waits, patience = pauses(), Patience()
    try:
        standing = first = await watched.look(Pass(sources, patience), clock.now())
        while isinstance(standing, Unsettled):
            await clock.sleep(max(SHORTEST_PAUSE, min(next(waits), standing.until - clock.now())))
            standing = await watched.look(Pass(sources, patience), clock.now())
    except LateError as late:
        raise late.cause from late
    return replace(_verdict(standing), waited=isinstance(first, Unsettled))


async def look_once(
    criterion: Criterion, sources: Sources, patience: Patience, *, expect: float = 0.0
) -> Finding | Unsettled:
    """The judgement of the criterion at one moment: `Unsettled` if only time would tell.

    `expect`: as in `evaluate`. Errors of a source are raised.
    """
    return await _monitor(_patient(criterion, expect), math.inf).look(Pass(sources, patience), 0.0)


def _patient(criterion: Criterion, expect: float) -> Condition:
    return criterion.tree if criterion.waits or not expect else Within(expect, criterion.tree)


def pauses() -> Iterator[float]:
    """Seconds between one pass and the next, without end: short at first, then a quarter of a second."""
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 1.5, LONGEST_PAUSE)


async def evaluate_value(
    expression: ValueExpression, sources: Sources, clock: Clock, deadline: Deadline, *, patience: float = 0.0
) -> Json:
    """Return the value: null if missing, a list if its path has `*`. Errors of a source pass through.

    `patience`: seconds to wait for a value that is missing.
    """
    end, seen, waits = clock.now() + deadline.clip(patience, clock.now()), False, pauses()
    while True:
        reads = Pass(sources, Patience())
        try:
            with reads.limited(_limit(end, clock.now(), seen=seen)):
                value = (await read(expression.tree, reads)).json
        except LateError as late:
            if not seen:
                raise late.cause from late
            return None
        seen = True
        if value is not None or clock.now() >= end - _HAIR:
            return value
        await clock.sleep(max(SHORTEST_PAUSE, min(next(waits), end - clock.now())))


STUCK_SECONDS = 2.0
"""A page that has given no answer for so long is not merely slow: that it does not answer is the outcome."""
_LEAST_LOOK = 1.0
"""Seconds that a look has at least, so that the last one of a wait does not depend on how busy the machine is."""


def _limit(end: float, now: float, *, seen: bool) -> float:
    """The end of a look that begins now, in a wait until `end`: the first one takes as long as it needs."""
    return max(end, now + _LEAST_LOOK) if seen else math.inf


def _verdict(finding: Finding) -> Verdict:
    if finding.holds:
        return Verdict(holds=True)
    diff = difference(finding.expected, finding.actual) if finding.differs else ""
    return Verdict(
        holds=False,
        explanation=Explanation(
            finding.expression, finding.expected, finding.actual, diff, finding.message, finding.plain
        ),
        decided=finding.decided,
    )


# Conditions over time: each is judged again until it is settled. Only `evaluate` sleeps.

# A sleep that ends slightly too early must not cost one more poll.
_HAIR = 1e-6


class Unsettled(Struct, frozen=True):
    """The part is not settled until `until` (monotonic seconds) at the latest; `so_far` is its state until then."""

    until: float
    so_far: Finding


_Standing: TypeAlias = Finding | Unsettled


class Monitor(Protocol):
    """Watches a condition until it is settled."""

    async def look(self, reads: Pass, now: float) -> _Standing:
        """Evaluate the condition at `now` (monotonic seconds). It is not called again once settled."""
        ...


def _monitor(condition: Condition, deadline: float) -> Monitor:
    """Make a monitor; `deadline` is in monotonic seconds, and no wait goes beyond it."""
    match condition:
        case Compare() | Test():
            return SettledMonitor(condition)
        case Every(parts=parts):
            return Sequence(condition, [_monitor(part, deadline) for part in parts])
        case Some(parts=parts):
            return AnyMonitor(condition, [_monitor(part, deadline) for part in parts])
        case Not(part=part):
            return Inverse(condition, _monitor(part, deadline))
        case Within():
            return WindowMonitor(condition, deadline)
        case Stable():
            return Steady(condition, deadline)


class SettledMonitor(Struct):
    """A condition that is settled at the first pass."""

    condition: Compare | Test

    async def look(self, reads: Pass, now: float) -> _Standing:  # noqa: ARG002 (a check takes no time)
        return await check(self.condition, reads)


class Sequence(Struct):
    """ALL: one part after the other; the first that fails decides."""

    condition: Every
    parts: list[Monitor]
    held: list[Finding] = field(default_factory=list)

    async def look(self, reads: Pass, now: float) -> _Standing:
        for part in self.parts[len(self.held) :]:
            standing = await part.look(reads, now)
            if isinstance(standing, Unsettled) or not standing.holds:
                return standing
            self.held.append(standing)
        message = " and ".join(finding.message for finding in self.held)
        return Finding(True, self.condition.source, expected=True, actual=True, message=message)


class AnyMonitor(Struct):
    """ANY: all parts in parallel; the first that holds decides."""

    condition: Some
    parts: list[Monitor]
    failed: dict[int, Finding] = field(default_factory=dict)

    async def look(self, reads: Pass, now: float) -> _Standing:
        pending: list[Unsettled] = []
        for place, part in enumerate(self.parts):
            if place in self.failed:
                continue
            standing = await part.look(reads, now)
            if isinstance(standing, Unsettled):
                pending.append(standing)
            elif standing.holds:
                return standing
            else:
                self.failed[place] = standing
        if pending:
            return Unsettled(min(standing.until for standing in pending), pending[0].so_far)
        return self._none_holds()

    def _none_holds(self) -> Finding:
        findings = [self.failed[place] for place in sorted(self.failed)]
        if len(findings) == 1:
            return findings[0]
        reasons = "; ".join(f"({number}) {finding.message}" for number, finding in enumerate(findings, 1))
        return Finding(
            False,
            self.condition.source,
            expected=[finding.expected for finding in findings],
            actual=[finding.actual for finding in findings],
            message=f"none of {len(findings)} alternatives holds: {reasons}",
            decided=all(finding.decided for finding in findings),
        )


class Inverse(Struct):
    """NOT: the opposite of its part, settled together with it. What is not decided has no opposite that holds."""

    condition: Not
    part: Monitor

    async def look(self, reads: Pass, now: float) -> _Standing:
        standing = await self.part.look(reads, now)
        if isinstance(standing, Unsettled):
            return replace(standing, so_far=self._negate(standing.so_far))
        return self._negate(standing)

    def _negate(self, finding: Finding) -> Finding:
        source, part = self.condition.source, self.condition.part.source
        if not finding.decided:
            message = f"expected not {part}, but that is not known: {finding.message}"
            return replace(
                finding, expression=source, expected=f"not {part}", message=message, differs=False, plain=False
            )
        if not finding.holds:
            return Finding(True, source, expected=True, actual=True, message=f"not {part}: {finding.message}")
        message = f"expected not {part}, but {finding.message}"
        return Finding(False, source, expected=f"not {part}", actual=finding.actual, message=message)


class WindowMonitor:
    """WITHIN and EVENTUALLY: true at the first pass in which the part holds, false when the time is over."""

    def __init__(self, condition: Within, deadline: float) -> None:
        self.condition = condition
        self.deadline = deadline
        self.start: float | None = None
        self.seen: Finding | None = None
        """The state at the last look."""
        self.part = _monitor(condition.part, deadline)

    async def look(self, reads: Pass, now: float) -> _Standing:
        self.start = now if self.start is None else self.start
        end = min(self.start + self.condition.seconds, self.deadline)
        limit = _limit(end, now, seen=self.seen is not None)
        try:
            with reads.limited(limit):
                standing = await self.part.look(reads, now)
        except LateError:
            if self.seen is None or reads.limit < limit:
                raise
            return self._too_late(self.seen, max(now, end) - self.start, cut=end == self.deadline)
        if isinstance(standing, Finding) and standing.holds:
            return standing
        self.seen = so_far = standing if isinstance(standing, Finding) else standing.so_far
        if now >= end - _HAIR:
            return self._too_late(so_far, now - self.start, cut=end == self.deadline)
        if isinstance(standing, Unsettled):
            return Unsettled(min(end, standing.until), so_far)
        self.part = _monitor(self.condition.part, self.deadline)
        return Unsettled(end, so_far)

    def _too_late(self, so_far: Finding, waited: float, *, cut: bool) -> Finding:
        lasted = f"after {waited:.3g} s" + (", when the deadline came" if cut else "")
        held = "held, but not long enough: " if so_far.holds else ""
        return replace(so_far, holds=False, message=f"{lasted}: {held}{so_far.message}")


class Steady:
    """STABLE: false at the first pass in which the part does not hold, true when the time is over."""

    def __init__(self, condition: Stable, deadline: float) -> None:
        self.condition = condition
        self.deadline = deadline
        self.start: float | None = None
        self.part = _monitor(condition.part, deadline)

    async def look(self, reads: Pass, now: float) -> _Standing:
        first, self.start = self.start is None, now if self.start is None else self.start
        end = self.start + self.condition.seconds
        try:
            standing = await self.part.look(reads, now)
        except LateError:
            if first:
                raise
            return self._cut(now - self.start)
        if isinstance(standing, Unsettled):
            return standing
        if not standing.holds:
            return replace(standing, message=f"not stable, after {now - self.start:.3g} s: {standing.message}")
        if now >= end - _HAIR:
            return standing
        if now >= self.deadline - _HAIR:
            return self._cut(now - self.start)
        self.part = _monitor(self.condition.part, self.deadline)
        return Unsettled(min(end, self.deadline), standing)

    def _cut(self, stable: float) -> Finding:
        message = f"stable for {stable:.3g} s of {self.condition.seconds:g} s when the deadline came"
        return Finding(False, self.condition.source, self.condition.seconds, stable, message)
