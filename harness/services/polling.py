"""When a service that still runs is taken to be unwell: the decision alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Polling:
    """How its health is looked at while the run goes on. All durations are seconds.

    One question takes at most 500 ms; `misses` questions in a row that were not answered well make it suspect. It is
    then asked once more, and given `patience` to answer: a machine under load makes a service slow, and a slow one is
    not ended. Only one that is silent all that time hangs. Nobody else decides that: a task that finds it silent leaves
    it alone.
    """

    interval: float = 10.0
    """Between two questions, the setting `health_interval`; 0 asks none."""
    misses: int = 3
    patience: float = 10.0
    """For the last answer, the setting `health_patience`."""


STANDARD = Polling()
"""Three questions, ten seconds apart, and ten seconds: what hangs is started again 30 to 45 seconds later."""


@dataclass(slots=True)
class Pulse:
    """The questions of one service, as they were answered."""

    polling: Polling
    due: float
    """When the next question is asked; monotonic."""
    missed: int = 0

    @classmethod
    def begin(cls, polling: Polling, now: float) -> Pulse:
        return cls(polling, now + polling.interval)

    def is_due(self, now: float) -> bool:
        return self.polling.interval > 0 and now >= self.due

    def heard(self, *, well: bool, now: float) -> bool:
        """Take an answer. Whether it is suspect now."""
        self.missed = 0 if well else self.missed + 1
        self.due = now + self.polling.interval
        return self.missed >= self.polling.misses
