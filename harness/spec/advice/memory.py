"""Memory entries that steps need and that nothing can write: such a step always fails with MEMORY_MISSING."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from harness.spec.advice.terms import declares_failure, hooked, remembered, shares_memory, touches
from harness.spec.origin import Origin
from harness.spec.passages import expressions, interpolated
from harness.spec.problems import Problem, did_you_mean
from harness.spec.references import BadReferenceError, references
from harness.spec.task import TaskSpec


def memory_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Only of `${memory.x}` in steps: in criteria, what is missing is null. Other tasks may write what they share."""
    if not spec.steps or shares_memory(spec) or hooked(spec) or declares_failure(spec):
        return
    repaired = {key for repair in spec.repairs for key in repair.memory}
    written = remembered(spec) | set(spec.memory) | repaired | set(spec.state_bindings) | set(spec.expected_memory)
    criteria = {path for path, _, _ in expressions(spec)}
    for path, text, _ in interpolated(spec):
        if path[0] not in ("steps", "repairs") or path in criteria or "${" not in text:
            continue
        with suppress(BadReferenceError):
            for offset, wanted in references(text):
                if wanted.namespace == "memory" and not touches(wanted.name, written):
                    message = f"`memory` has no `{wanted.name}` and no step remembers it: always MEMORY_MISSING"
                    hint = did_you_mean(wanted.name, written) or f"`remember: {{{wanted.name}: ...}}` in a step before"
                    within = (text, offset)
                    yield origin.problem(path, message, hint=hint, within=within, severity="warning")
