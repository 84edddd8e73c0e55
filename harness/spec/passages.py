"""The places of a task where criteria and references stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.spec.page_acts import Assert
from harness.spec.parametrize import case_of
from harness.spec.problems import Way
from harness.spec.steps import Step
from harness.spec.task import TaskSpec

Found = tuple[Way, str, bool]
"""Path, text, and whether it is a value (not a criterion)."""

_CALL = re.compile(r"\s*(?:mem|json)\(.*\)\s*", re.DOTALL)


def expressions(spec: TaskSpec) -> Iterator[Found]:
    """Every criterion and value expression."""
    for name in ("preconditions", "success_criteria"):
        for number, text in enumerate(getattr(spec, name)):
            yield (name, number), text, False
    for number, point in enumerate(spec.scoring_checkpoints):
        yield ("scoring_checkpoints", number, "assertion"), point.assertion, False
        if point.when and point.when.strip():
            yield ("scoring_checkpoints", number, "when"), point.when, False
    for number, text in enumerate(spec.fallback_plan.relaxed_success_criteria):
        yield ("fallback_plan", "relaxed_success_criteria", number), text, False
    for path, step in _steps(spec):
        yield from _of_step(path, step)


def _steps(spec: TaskSpec) -> Iterator[tuple[Way, Step]]:
    """The steps of the task and of its repairs."""
    for number, step in enumerate(spec.steps):
        yield ("steps", number), step
    for number, repair in enumerate(spec.repairs):
        for inner, step in enumerate(repair.steps):
            yield ("repairs", number, "steps", inner), step


def _of_step(path: Way, step: Step) -> Iterator[Found]:
    if step.done_when is not None:
        yield (*path, "done_when"), step.done_when, False
    for key, text in step.remember.items():
        yield (*path, "remember", key), text, True
    if isinstance(step, Assert):
        if step.expr is not None:
            yield (*path, "expr"), step.expr, False
        elif isinstance(step.value, str) and _CALL.fullmatch(step.value):
            yield (*path, "value"), step.value, True


def interpolated(spec: TaskSpec) -> Iterator[tuple[Way, str, bool]]:
    """Every text that may hold references, and whether `${memory...}` is among them."""
    values = {
        name: getattr(spec, name) for name in ("goal", "inputs", "persona", "page_values", "memory", "expected_memory")
    }
    yield from ((path, text, False) for path, text in _texts((), values))
    steps = dict(_steps(spec))
    found = ((path, text) for path, text, _ in expressions(spec) if "${" in text)
    yield from ((path, text, True) for path, text in found if not _within(path, steps))
    for path, step in steps.items():
        yield from ((at, text, True) for at, text in _texts(path, step.__dict__))
    for number, repair in enumerate(spec.repairs):
        yield from ((path, text, False) for path, text in _texts(("repairs", number, "memory"), repair.memory))
    for key, binding in spec.state_bindings.items():
        yield ("state_bindings", key), key, False
        yield ("state_bindings", key, "path"), binding.path, False
    for number, fault in enumerate(spec.faults):
        yield from ((path, text, False) for path, text in _texts(("faults", number), fault.__dict__))
    yield from ((path, text, False) for path, text in [*_of_fallbacks(spec), *_of_cases(spec)])


def _within(path: Way, steps: Mapping[Way, Step]) -> bool:
    return any(path[:length] in steps for length in (2, 4))


def _of_fallbacks(spec: TaskSpec) -> Iterator[tuple[Way, str]]:
    fallbacks = getattr(spec.error_recovery.on_element_not_found, "fallback_selectors", {})
    for key, selectors in fallbacks.items():
        path = ("error_recovery", "on_element_not_found", "fallback_selectors", key)
        yield path, key
        yield from _texts(path, selectors)


def _of_cases(spec: TaskSpec) -> Iterator[tuple[Way, str]]:
    """The values of `parametrize`. Of one case out of many, its place in the file is not known any more."""
    place: Way = ("parametrize",)
    for path, text in _texts(place, spec.parametrize):
        yield (path if case_of(spec) is None else place), text


def _texts(path: Way, around: Any) -> Iterator[tuple[Way, str]]:
    """Of the texts in a mapping or a list, those with a reference: few have one, and every task is looked through."""
    for key, item in around.items() if isinstance(around, dict) else enumerate(around):
        if isinstance(item, str):
            if "${" in item:
                yield (*path, key), item
        elif isinstance(item, dict | list | tuple) and item:
            yield from _texts((*path, key), item)
