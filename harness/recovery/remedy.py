"""What a rule may answer with: a closed union; one `match` in the engine applies it.

Each remedy says of itself whether it does the same `again` (else another thing is done in its place), and whether the
step `ends` with it. A `match` over remedies ends in `assert_never`: where a new one is forgotten, mypy names the place.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from harness.recovery.failure import Failure

# A rule is its settings plus `remedies(failure)`; it never sleeps, clicks or writes.

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


@dataclass(frozen=True, slots=True)
class Capture:
    """Which evidence to take when the task ends here (the capture_* flags)."""

    screenshot: bool = True
    dom: bool = True
    memory: bool = True
    environment: bool = True
    logs: bool = True
    why: str = field(default="", compare=False)
    """Why something is not wanted, where it is not a `capture_*` key of its own that says so."""


FULL = Capture()
NOTHING = Capture(screenshot=False, dom=False, memory=False, environment=False, logs=False, why="`capture: none`")


@dataclass(frozen=True, slots=True)
class Retry:
    """The same step again, `after` seconds from now."""

    again: ClassVar[bool] = True
    ends: ClassVar[bool] = False
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class Substitute:
    """The same step with another selector, looked for at most `patience` seconds."""

    again: ClassVar[bool] = False
    ends: ClassVar[bool] = False
    selector: str
    patience: float | None = None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End the task."""

    again: ClassVar[bool] = False
    ends: ClassVar[bool] = True
    final_state: Literal["failed", "aborted"] = "failed"
    capture: Capture = FULL


@dataclass(frozen=True, slots=True)
class Rewind:
    """Back to the nearest checkpoint at or before the step; from there the steps are done again."""

    again: ClassVar[bool] = True
    ends: ClassVar[bool] = False
    stretch: float = 1.0
    """Factor for `timeout` and `step_timeout` from here on: of the whole, from the start of the task."""
    restart: bool = False
    """In a new browser."""
    to_start: bool = False
    """Without a checkpoint, back to the first step."""


@dataclass(frozen=True, slots=True)
class RepairPrecondition:
    """Set up the precondition that does not hold, then look again."""

    again: ClassVar[bool] = True
    ends: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Trust:
    """Where memory and environment differ, the one takes the value of the other; or a person says which."""

    again: ClassVar[bool] = False
    ends: ClassVar[bool] = False
    source: Literal["environment", "memory", "person"]


@dataclass(frozen=True, slots=True)
class Skip:
    """Go on without the step, or leave the whole task out."""

    again: ClassVar[bool] = False
    ends: ClassVar[bool] = True
    what: Literal["step", "task"]


Remedy = Retry | Substitute | Rewind | RepairPrecondition | Trust | Skip | GiveUp
