"""What to do when a step fails: pure rules that yield remedies (docs/design/steps-and-recovery.md)."""

from harness.recovery.remedy import (
    FULL,
    NOTHING,
    Capture,
    GiveUp,
    Random,
    Remedy,
    RepairPrecondition,
    Retry,
    Rewind,
    Rule,
    Skip,
    Substitute,
    Trust,
)
from harness.recovery.rulebook import NoRecovery, Rulebook

__all__ = [
    "FULL",
    "NOTHING",
    "Capture",
    "GiveUp",
    "NoRecovery",
    "Random",
    "Remedy",
    "RepairPrecondition",
    "Retry",
    "Rewind",
    "Rule",
    "Rulebook",
    "Skip",
    "Substitute",
    "Trust",
]
