"""What a task says it will leave behind, and no step does: `memory_keys`, `artifacts`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from harness.spec.advice.terms import remembered, shares_memory, steps_of, touches
from harness.spec.element_acts import Download
from harness.spec.origin import Origin
from harness.spec.problems import Problem
from harness.spec.task import TaskSpec


def promise_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Of a task whose steps an agent chooses, nothing can be said."""
    if not spec.steps:
        return
    repaired = {key for repair in spec.repairs for key in repair.memory}
    written = remembered(spec) | set(spec.memory) | repaired | set(spec.state_bindings)
    for number, key in enumerate(spec.memory_keys):
        if not shares_memory(spec) and "${" not in key and not touches(key, written):
            message, hint = (
                "no step remembers it: it will be missing at the end",
                f"`remember: {{{key}: ...}}` in a step",
            )
            yield origin.problem(("memory_keys", number), message, hint=hint, severity="warning")
    yield from _artifacts(spec, origin)


def _artifacts(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """A file is known by its name with or without its ending."""
    kept = set(_kept(spec))
    if None in kept:
        return
    for number, name in enumerate(spec.artifacts):
        if name not in kept and "${" not in name:
            message = "no step keeps a file of this name: it will be missing at the end"
            hint = "a step keeps one with `screenshot_id`, a `download` with its `value`"
            yield origin.problem(("artifacts", number), message, hint=hint, severity="warning")


def _kept(spec: TaskSpec) -> Iterator[str | None]:
    """Names of what the steps keep; None where only a run can tell."""
    for _, step in steps_of(spec):
        if step.screenshot_id is not None:
            yield from (None,) if "${" in step.screenshot_id else (step.screenshot_id, f"{step.screenshot_id}.png")
        if isinstance(step, Download):
            known = step.value is not None and "${" not in step.value
            yield from (step.value, PurePosixPath(str(step.value)).stem) if known else (None,)
