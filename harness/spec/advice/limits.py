"""Limits that can never be reached because another one comes first."""

from __future__ import annotations

from collections.abc import Iterator

from harness.spec.advice.terms import declares_failure, steps_of
from harness.spec.origin import Origin
from harness.spec.page_acts import Wait
from harness.spec.problems import Problem, Way
from harness.spec.task import TaskSpec


def limit_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Step limits over the task's, waits over their step's, a budget over the task's time."""
    whole = spec.limits().timeout
    if "step_timeout" in spec.model_fields_set and spec.limits().step_timeout > whole:
        yield _over(("step_timeout",), spec.limits().step_timeout, "the task's `timeout`", whole, origin)
    for path, step in steps_of(spec):
        if step.timeout is not None and step.timeout > whole:
            yield _over((*path, "timeout"), step.timeout, "the task's `timeout`", whole, origin)
        if isinstance(step, Wait) and not declares_failure(spec):
            yield from _long_wait(path, step, spec.limits().step_timeout, origin)
    most = spec.budget.max_seconds
    if most is not None and most > whole:
        yield _over(("budget", "max_seconds"), most, "the task's `timeout`", whole, origin)
    steps = spec.budget.max_steps
    if steps is not None and steps < len(spec.steps) and not declares_failure(spec):
        message = f"the task has {len(spec.steps)} steps and may begin {steps}: it always ends with BUDGET_EXCEEDED"
        yield origin.problem(("budget", "max_steps"), message, severity="warning")


def _over(path: Way, seconds: float, name: str, limit: float, origin: Origin) -> Problem:
    message = f"{seconds:g} s is longer than {name} ({limit:g} s), which comes first"
    return origin.problem(path, message, severity="warning")


def _long_wait(path: Way, step: Wait, step_timeout: float, origin: Origin) -> Iterator[Problem]:
    """A wait for an element has no length of its own."""
    limit, name = (step_timeout, "`step_timeout`") if step.timeout is None else (step.timeout, "the step's `timeout`")
    if step.selector is None and isinstance(step.value, int | float) and step.value >= limit:
        message = f"a wait of {step.value:g} s never ends within {name} ({limit:g} s)"
        hint = "give the step a longer `timeout`, or wait for an element instead"
        yield origin.problem((*path, "value"), message, hint=hint, severity="warning")
