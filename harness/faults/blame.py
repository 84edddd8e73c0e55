"""A fault that cannot be: what is to be mended is the fault, and not the step that it was to strike."""

from __future__ import annotations

from dataclasses import replace

from harness.recovery.failure import Failed
from harness.spec.faults import FaultBase


def blamed(failed: Failed, fault: FaultBase) -> Failed:
    """The same; of an invalid fault it says which one is to be mended, and where that stands."""
    failure = failed.failure
    if failure.code != "INVALID_INPUT" or failure.advice:
        return failed
    where = fault.source or "injected from Python"
    advice = f"Mend the fault `{fault.kind}` ({where}), not the step, as the message says."
    return Failed(replace(failure, advice=advice))
