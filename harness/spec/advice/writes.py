"""Warnings about steps that change something for good, and how they are declared (docs/design/never-twice.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.spec.problems import JsonPath, Problem
from harness.spec.source import Origin
from harness.spec.steps import Dialog, Step, Tool
from harness.spec.task import TaskSpec


def write_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield warnings for writes without `done_when`, and answers to unopened dialogs."""
    if spec.expect is None or spec.expect.code != "OUTCOME_UNKNOWN":
        yield from _of(spec.steps, ("steps",), origin)
        for number, repair in enumerate(spec.repairs):
            yield from _of(repair.steps, ("repairs", number, "steps"), origin)
    if spec.steps and isinstance(spec.steps[-1], Dialog):
        message = "this is the last step, so no dialog follows it"
        hint = "put it before the step that opens the dialog"
        yield origin.problem(("steps", len(spec.steps) - 1), message, hint=hint, severity="warning")


def _of(steps: Sequence[Step], path: JsonPath, origin: Origin) -> Iterator[Problem]:
    for number, step in enumerate(steps):
        if isinstance(step, Tool) and step.effect is None:
            continue  # the settings or the server say what it does
        if step.effect_class == "write" and step.done_when is None:
            message = "a `write` without `done_when`: when it fails halfway, the task ends with OUTCOME_UNKNOWN"
            hint = (
                "say in `done_when` how to tell that it took effect, or use `effect: idempotent` if twice does no harm"
            )
            yield origin.problem((*path, number), message, hint=hint, severity="warning")
