"""What is usual for the duration of a task, by the runs before."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from pydantic import BaseModel, ConfigDict, Field

FEWEST = 5
"""Of fewer runs nothing is said."""
_SPREAD = 3.0
"""So many standard deviations from the median are still usual."""
_TO_DEVIATION = 1.4826
"""Median absolute deviation -> standard deviation, where values are spread normally."""
_SHARE, _LEAST = 0.1, 0.2
"""A tenth of the median, and 0.2 s, are always usual: machines differ by more from day to day."""


class Usual(BaseModel):
    """The middle of the durations, and how far from it is no news (seconds)."""

    model_config = ConfigDict(frozen=True)

    median: float
    low: float
    high: float
    runs: int = Field(description="That this was learnt from.")


def usual(seconds: Sequence[float]) -> Usual | None:
    """Median +- three deviations, by the median absolute deviation, which one odd run does not move.

    None for fewer than five durations.
    """
    if len(seconds) < FEWEST:
        return None
    middle = median(seconds)
    deviation = _TO_DEVIATION * median(abs(each - middle) for each in seconds)
    width = max(_SPREAD * deviation, _SHARE * middle, _LEAST)
    return Usual(
        median=round(middle, 3),
        low=round(max(0.0, middle - width), 3),
        high=round(middle + width, 3),
        runs=len(seconds),
    )
