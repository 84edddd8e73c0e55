"""What became of each fault."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.model.record import MetFault
from harness.spec.faults import Fault

KEPT = 100
"""Strikes of one fault whose times are kept."""


@dataclass
class Tally:
    """One fault's strikes and healings, in seconds since the start of the task."""

    name: str
    fault: Fault
    count: int = 0
    strikes: list[float] = field(default_factory=list)
    healed: list[float] = field(default_factory=list)
    problem: str = ""
    steps: list[int] = field(default_factory=list)

    def strike(self, t: float, step: int = -1) -> None:
        """`step`: the one under way. When there is no room for more, the place of the last one is taken."""
        self.count += 1
        if len(self.strikes) == KEPT:
            self.strikes.pop()
            self.steps.pop()
        self.strikes.append(round(t, 3))
        self.steps.append(step)

    def heal(self, t: float) -> None:
        if len(self.healed) < KEPT:
            self.healed.append(round(t, 3))

    def record(self, why: str = "") -> MetFault:
        """`why`: what was missing, should it never have struck."""
        times, steps = tuple(self.strikes), tuple(self.steps)
        why = "" if self.count else why
        return MetFault(self.name, self.fault, self.count, times, tuple(self.healed), self.problem, steps, why)
