"""The answers that a rule may give: a closed union, applied by one `match` in the engine.

Each remedy says whether it repeats the same attempt (`again`; otherwise another thing is done in its place), and
whether the step `ends` with it. A `match` over remedies ends in `assert_never`: mypy names each place where a new one
is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import Struct
from pydantic import BeforeValidator, Field

from harness.recovery.declaration import Declaration

if TYPE_CHECKING:
    from harness.recovery.failure import Failure

# A rule consists of its settings and `remedies(failure)`; it never sleeps, clicks or writes.

Random = Callable[[], float]
"""Returns numbers in [0, 1); seeded by the task."""
Captured = Literal["all", "none"]
"""What is kept of a task that ends: all that the strategy takes, or only the report and the steps."""


class Rule(Declaration):
    """One declared strategy. Its fields are its settings."""

    strategy: str
    capture: Captured | None = Field(
        None,
        description="What is kept when this rule ends the task. `none` keeps only the report and the steps, `all` "
        "keeps what the strategy takes. Default: `error_recovery.capture`.",
    )

    @property
    def patience(self) -> float | None:
        """Seconds for which a first attempt may look for its element; None: as long as the attempt may take."""
        return None

    answers: ClassVar[tuple[Remedy, ...]] = ()
    """The remedies of a strategy for which neither its settings nor the failure matter."""

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        """Yield the remedies to try, in order. When they are used up, the task gives up."""
        return iter(self.answers)


def shorthand(default: str) -> BeforeValidator:
    """Accept a name as a mapping: `"abort"` means `{"strategy": "abort"}`; without `strategy` the default holds."""

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
    """The reason why something is not wanted, unless it is a `capture_*` key of its own."""


FULL = Capture()
NOTHING = Capture(screenshot=False, dom=False, memory=False, environment=False, logs=False, why="`capture: none`")


class Retry(Struct, frozen=True):
    """Do the same step again in `after` seconds."""

    again: ClassVar[bool] = True
    ends: ClassVar[bool] = False
    after: float = 0.0


class Substitute(Struct, frozen=True):
    """Do the same step with another selector, and look for it for at most `patience` seconds."""

    again: ClassVar[bool] = False
    ends: ClassVar[bool] = False
    selector: str
    patience: float | None = None


class GiveUp(Struct, frozen=True):
    """End the task."""

    again: ClassVar[bool] = False
    ends: ClassVar[bool] = True
    final_state: Literal["failed", "aborted"] = "failed"
    capture: Capture = FULL


class Rewind(Struct, frozen=True):
    """Go back to the nearest checkpoint at or before the step, and do the steps from there again."""

    again: ClassVar[bool] = True
    ends: ClassVar[bool] = False
    stretch: float = 1.0
    """The factor for `timeout` and `step_timeout` from here on; it applies to the limit from the task's start."""
    restart: bool = False
    """Start a new browser for it."""
    to_start: bool = False
    """Go back to the first step if there is no checkpoint."""


class RepairPrecondition(Struct, frozen=True):
    """Set up the precondition that does not hold, then check it again."""

    again: ClassVar[bool] = True
    ends: ClassVar[bool] = False


class Trust(Struct, frozen=True):
    """Settle a difference of memory and environment: one takes the value of the other, or a person decides."""

    again: ClassVar[bool] = False
    ends: ClassVar[bool] = False
    source: Literal["environment", "memory", "person"]


class Skip(Struct, frozen=True):
    """Go on without the step, or leave the whole task out."""

    again: ClassVar[bool] = False
    ends: ClassVar[bool] = True
    what: Literal["step", "task"]


Remedy = Retry | Substitute | Rewind | RepairPrecondition | Trust | Skip | GiveUp
