"""What to do when a step fails: pure rules that yield remedies (docs/design/steps-and-recovery.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.exports import exports

if TYPE_CHECKING:
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
    "FULL", "NOTHING", "Capture", "GiveUp", "NoRecovery", "Random", "Remedy", "RepairPrecondition", "Retry", "Rewind",
    "Rule", "Rulebook", "Skip", "Substitute", "Trust",
]  # fmt: skip

if not TYPE_CHECKING:  # type checkers would otherwise accept any name
    __getattr__ = exports(
        __name__,
        {
            "harness.recovery.remedy": (
                "FULL", "NOTHING", "Capture", "GiveUp", "Random", "Remedy", "RepairPrecondition", "Retry", "Rewind",
                "Rule", "Skip", "Substitute", "Trust",
            ),
            "harness.recovery.rulebook": ("NoRecovery", "Rulebook"),
        },
    )  # fmt: skip
