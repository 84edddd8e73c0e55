"""Fallback selectors that can never be of use."""

from __future__ import annotations

from collections.abc import Iterator

from harness.spec.advice.terms import scopes, steps_of
from harness.spec.element_acts import Drag
from harness.spec.interpolate import interpolate
from harness.spec.origin import Origin
from harness.spec.problems import Problem, Way, did_you_mean
from harness.spec.references import Scope, as_text
from harness.spec.task import TaskSpec

_PATH: Way = ("error_recovery", "on_element_not_found", "fallback_selectors")


def selector_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """A selector as its own fallback, one twice, fallbacks for what no step uses."""
    fallbacks = getattr(spec.error_recovery.on_element_not_found, "fallback_selectors", {})
    every = scopes(spec)
    used = {selector for scope in every for selector in _used(spec, scope)}
    for key, others in fallbacks.items():
        names = {as_text(interpolate(key, scope, last=False)) for scope in every}
        if spec.steps and not any("${" in selector for selector in used | names) and not names & used:
            hint = did_you_mean(key, used) or "write the key exactly as the step writes its `selector`"
            message = "no step uses this selector: its fallbacks are never tried"
            yield origin.problem((*_PATH, key), message, hint=hint, key=True, severity="warning")
        yield from _repeated(key, others, origin)


def _used(spec: TaskSpec, scope: Scope) -> Iterator[str]:
    """What the steps look for, as it is once references are filled in."""
    for _, step in steps_of(spec):
        dropped_on = step.value if isinstance(step, Drag) else None
        for selector in (step.target, getattr(step, "frame", None), dropped_on):
            if selector is not None:
                yield as_text(interpolate(selector, scope, last=False))


def _repeated(key: str, others: tuple[str, ...], origin: Origin) -> Iterator[Problem]:
    for number, selector in enumerate(others):
        if selector == key:
            message, hint = "the selector is its own fallback", "it was just looked for: name another one"
        elif selector in others[:number]:
            message, hint = "this fallback stands here twice", "leave one of them out"
        else:
            continue
        yield origin.problem((*_PATH, key, number), message, hint=hint, severity="warning")
