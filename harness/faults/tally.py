"""What became of each fault."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.record import MetFault
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

    def strike(self, t: float) -> None:
        self.count += 1
        if len(self.strikes) < KEPT:
            self.strikes.append(round(t, 3))

    def heal(self, t: float) -> None:
        if len(self.healed) < KEPT:
            self.healed.append(round(t, 3))

    def record(self) -> MetFault:
        return MetFault(self.name, self.fault, self.count, tuple(self.strikes), tuple(self.healed), self.problem)
