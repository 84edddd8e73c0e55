"""Whether a process that died is started again: the decision alone, over an injected clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

LIMIT = 3
"""The third crash ..."""
WITHIN = 300.0
"""... within so many seconds is permanent."""


class Condition(Enum):
    """What is to be made of the process now."""

    RUNNING = "running"
    RESTARTING = "restarting"
    """It died, and is to be started at once."""
    PERMANENTLY_FAILED = "permanently_failed"
    """It died too often; only `reset` starts it again."""


@dataclass(slots=True)
class Supervisor:
    """Counts the deaths of one process. A start that fails is a death too."""

    now: Callable[[], float]
    """Monotonic seconds."""
    limit: int = LIMIT
    within: float = WITHIN
    condition: Condition = Condition.RUNNING
    intended: int = 0
    """Deaths that were wanted (a fault plan, an order to restart); they count towards nothing."""
    _crashes: list[float] = field(default_factory=list)

    @property
    def crashes(self) -> int:
        """How often it crashed within the last `within` seconds."""
        return sum(self.now() - at < self.within for at in self._crashes)

    def died(self, *, intended: bool = False) -> Condition:
        """It is gone. What was permanent stays so."""
        if self.condition is Condition.PERMANENTLY_FAILED:
            return self.condition
        if intended:
            self.intended += 1
        else:
            self._crashes = [*self._crashes, self.now()][-self.limit :]
        over = self.crashes >= self.limit
        self.condition = Condition.PERMANENTLY_FAILED if over else Condition.RESTARTING
        return self.condition

    def ready(self) -> None:
        """It is there again; what was permanent stays so."""
        if self.condition is Condition.RESTARTING:
            self.condition = Condition.RUNNING

    def reset(self) -> None:
        """Somebody has looked after it: its deaths are forgotten."""
        self.condition, self.intended, self._crashes = Condition.RUNNING, 0, []
