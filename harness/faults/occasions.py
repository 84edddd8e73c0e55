"""When a fault strikes: counted and drawn, from its declaration and a seed alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from harness.spec.faults import Fault, RequestFault, StepFault
from harness.spec.steps import Step


def name_of(fault: Fault, number: int) -> str:
    """Its id, or `<kind>-<number>` by its place in the file."""
    return fault.id or f"{fault.kind}-{number}"


def source_of(seed: int | None, task: str, name: str) -> Random:
    """A random source of its own for each fault, so that faults added or left out do not change the others."""
    return Random(f"{seed or 0}/{task}/{name}")


@dataclass
class Occasions:
    """The occasions of one fault so far."""

    fault: Fault
    random: Random
    seen: int = 0
    struck: int = 0
    early_or_late: int = 0
    """Occasions outside of `after` and `until`."""
    waits: bool = False
    """Whether its `delay` runs."""

    def at_step(self, index: int, step: Step) -> bool:
        """Whether a step that begins is one of its occasions."""
        act = getattr(self.fault, "act", None)
        return isinstance(self.fault, StepFault) and index >= self.fault.step and act in (None, step.act)

    def due(self, t: float) -> bool:
        """Whether it would strike this occasion, `t` seconds after the start of the task; counts the occasion.

        `strike` must follow when it does.
        """
        fault = self.fault
        if not fault.after <= t <= (t if fault.until is None else fault.until):
            self.early_or_late += 1
            return False
        self.seen += 1
        if self.seen < fault.nth or (fault.most is not None and self.struck >= fault.most):
            return False
        return fault.probability == 1 or self.random.random() < fault.probability

    def strike(self) -> None:
        """It strikes the occasion that was due."""
        self.struck += 1


@dataclass
class Armed:
    """Whether the step from which a request fault strikes has come."""

    occasions: Sequence[Occasions]
    step: int = field(default=-1)

    def up_to(self, index: int) -> None:
        """A step begins; what was armed stays so."""
        self.step = max(self.step, index)

    def requests(self) -> list[Occasions]:
        """The request faults that are armed, in the order of the file."""
        return [
            each for each in self.occasions if isinstance(each.fault, RequestFault) and each.fault.step <= self.step
        ]
