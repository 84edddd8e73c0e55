"""What a rule may answer with: a closed union; one `match` in the engine applies it (DESIGN 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Capture:
    """Which evidence to take when the task ends here (specs/003 4.4: the capture_* flags)."""

    screenshot: bool = True
    dom: bool = True
    memory: bool = True
    environment: bool = True
    logs: bool = True


FULL = Capture()
NOTHING = Capture(screenshot=False, dom=False, memory=False, environment=False, logs=False)


@dataclass(frozen=True, slots=True)
class Retry:
    """The same step again, `after` seconds from now."""

    after: float = 0.0


@dataclass(frozen=True, slots=True)
class Substitute:
    """The same step with another selector, looked for at most `patience` seconds."""

    selector: str
    patience: float | None = None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End the task."""

    final_state: Literal["failed", "aborted"] = "failed"
    capture: Capture = FULL


Remedy = Retry | Substitute | GiveUp
