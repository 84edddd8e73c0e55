"""The decision whether a process that died is started again; it uses an injected clock and has no effects."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from msgspec import Struct, field

_LIMIT = 3
"""The number of crashes within `WITHIN` seconds that is permanent."""
WITHIN = 300.0
"""Seconds for which a crash counts."""


class Condition(Enum):
    """What to do with the process now."""

    RUNNING = "running"
    RESTARTING = "restarting"
    """The process died and is to be started at once."""
    PERMANENTLY_FAILED = "permanently_failed"
    """The process died too often; only `reset` starts it again."""


class Supervisor(Struct):
    """Counts the deaths of one process. A failed start is a death too."""

    now: Callable[[], float]
    """Monotonic seconds."""
    limit: int = _LIMIT
    within: float = WITHIN
    condition: Condition = Condition.RUNNING
    intended: int = 0
    """The number of intended deaths (a fault plan, an order to restart); they do not count as crashes."""
    _crashes: list[float] = field(default_factory=list)

    @property
    def crashes(self) -> int:
        """The number of crashes in the last `within` seconds."""
        return sum(self.now() - at < self.within for at in self._crashes)

    def record_death(self, *, intended: bool = False) -> Condition:
        """Record that the process died, and return what to do. A permanent failure stays permanent."""
        if self.condition is Condition.PERMANENTLY_FAILED:
            return self.condition
        if intended:
            self.intended += 1
        else:
            self._crashes = [*self._crashes, self.now()][-self.limit :]
        over = self.crashes >= self.limit
        self.condition = Condition.PERMANENTLY_FAILED if over else Condition.RESTARTING
        return self.condition

    def record_ready(self) -> None:
        """Record that the process is ready. A permanent failure stays permanent."""
        if self.condition is Condition.RESTARTING:
            self.condition = Condition.RUNNING

    def reset(self) -> None:
        """Forget all deaths after a manual repair."""
        self.condition, self.intended, self._crashes = Condition.RUNNING, 0, []
