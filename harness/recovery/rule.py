"""A rule is its settings plus `remedies(failure)`; it never sleeps, clicks or writes (DESIGN 3)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from harness.failure import Failure
from harness.recovery.remedy import Remedy

Random = Callable[[], float]
"""Yields numbers in [0, 1); seeded by the task."""
Captured = Literal["all", "none"]
"""What is kept of a task that ends: all that the strategy takes, or the report and the steps alone."""


class Rule(BaseModel):
    """One declared strategy. Its fields are its settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: str
    capture: Captured | None = Field(
        None,
        description="What is kept when the task ends by this rule: `none` for the report and the steps alone, `all` for"
        " what the strategy takes. Without it `error_recovery.capture` decides.",
    )

    @property
    def patience(self) -> float | None:
        """Seconds for which a first attempt may look for its element; None: as long as the attempt may take."""
        return None

    @abstractmethod
    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        """What to try, in order. Running out means: give up."""


def shorthand(default: str) -> BeforeValidator:
    """`"abort"` is short for `{"strategy": "abort"}`; a mapping without `strategy` means the default one."""

    def normalize(value: Any) -> Any:
        if isinstance(value, str):
            return {"strategy": value}
        if isinstance(value, dict) and "strategy" not in value:
            return {"strategy": default, **value}
        return value

    return BeforeValidator(normalize)
