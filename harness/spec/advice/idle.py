"""Settings that have no effect as the rest of the task stands."""

from __future__ import annotations

from collections.abc import Iterator

from harness.spec.advice.terms import remembered, shares_memory, touches
from harness.spec.origin import Origin
from harness.spec.problems import Problem
from harness.spec.task import TaskSpec

METRICS = ("SR", "LH-F1", "cost_efficiency")
"""What `rubrics` may weigh (engine/scoring.py computes them)."""


def idle_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Of idle `repairs` and of settings of another strategy the loader tells."""
    yield from _precondition_rule(spec, origin)
    yield from _bindings(spec, origin)
    yield from _fallback_plan(spec, origin)
    for name in spec.rubrics:
        if name not in METRICS:
            message, expected = f"no metric is called `{name}`: it is left out of the score", ", ".join(METRICS)
            yield origin.problem(("rubrics", name), message, expected=expected, key=True, severity="warning")


def _precondition_rule(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    if spec.error_recovery.on_precondition_fail.strategy != "attempt_repair" or spec.repairs:
        return
    message, hint = "the task has no `repairs`: there is nothing to attempt", "say in `repairs` how to set it up"
    path = ("error_recovery", "on_precondition_fail")
    yield origin.problem(path, message, hint=hint, severity="warning")


def _bindings(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """A bound entry is compared once it is in memory."""
    rules = spec.error_recovery
    if "on_state_inconsistency" in rules.model_fields_set and not spec.state_bindings:
        message, path = (
            "the task has no `state_bindings`: nothing is compared",
            ("error_recovery", "on_state_inconsistency"),
        )
        yield origin.problem(path, message, hint="it has no effect", key=True, severity="warning")
    if shares_memory(spec) or not spec.steps:
        return
    repaired = {key for repair in spec.repairs for key in repair.memory}
    written = remembered(spec) | repaired | set(spec.memory)
    for key in spec.state_bindings:
        if not touches(key, written):
            message = "never compared: `memory` does not have it and no step remembers it"
            yield origin.problem(("state_bindings", key), message, key=True, severity="warning")


def _fallback_plan(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    plan = spec.fallback_plan
    filled = plan.alternative_task_id is not None or plan.relaxed_success_criteria
    if filled and not plan.enabled:
        message, hint = "not enabled: it has no effect", "say `enabled: true`"
    elif plan.enabled and not filled:
        message = "enabled and empty: there is nothing to fall back to"
        hint = "name an `alternative_task_id` or `relaxed_success_criteria`"
    else:
        return
    yield origin.problem(("fallback_plan",), message, hint=hint, key=True, severity="warning")
