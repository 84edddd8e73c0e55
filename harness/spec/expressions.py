"""The criteria and references in a task: where they stand, and whether they can be read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from harness.criteria import Criterion, CriterionError, ValueExpression, parse, parse_value
from harness.spec.interpolate import interpolate_criterion
from harness.spec.origin import Origin
from harness.spec.problems import Problem, Way, did_you_mean, listed
from harness.spec.references import BadReferenceError, Scope, references
from harness.spec.steps import Assert, Step
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
    for number, step in enumerate(spec.steps):
        yield from _of_step(("steps", number), step)


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
    for name in ("goal", "inputs", "persona", "memory", "expected_memory"):
        yield from ((path, text, False) for path, text in _texts((name,), getattr(spec, name)))
    for path, text, _ in expressions(spec):
        if path[0] != "steps":
            yield path, text, True
    for number, step in enumerate(spec.steps):
        yield from ((path, text, True) for path, text in _texts(("steps", number), dict(step)))
    for number, fault in enumerate(spec.faults):
        yield from ((path, text, False) for path, text in _texts(("faults", number), dict(fault)))
    fallbacks = getattr(spec.error_recovery.on_element_not_found, "fallback_selectors", {})
    for key, selectors in fallbacks.items():
        path = ("error_recovery", "on_element_not_found", "fallback_selectors", key)
        yield from ((at, text, False) for at, text in [(path, key), *_texts(path, selectors)])


def _texts(path: Way, value: Any) -> Iterator[tuple[Way, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts((*path, key), item)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _texts((*path, number), item)


def reference_problems(spec: TaskSpec, origin: Origin, environ: Mapping[str, str] | None) -> Iterator[Problem]:
    """References that are malformed, or to nothing. Without `environ` variables are not looked up."""
    if environ is None and not origin.mentions("${"):
        return
    scope = Scope(inputs=spec.inputs, persona=spec.persona, environ=environ)
    for path, text, memory in interpolated(spec):
        if "${" not in text:
            continue
        try:
            _check_references(path, text, memory, scope)
        except BadReferenceError as error:
            within = (text, error.offset)
            message = f"{error.reference}: {error.problem}"
            yield origin.problem(path, message, hint=error.hint, within=within)


def _check_references(path: Way, text: str, memory: bool, scope: Scope) -> None:
    early = path[0] in ("inputs", "persona")
    for offset, wanted in references(text):
        if wanted.namespace == "memory" and not memory:
            raise BadReferenceError(str(wanted), "memory can be used in steps and criteria only", offset=offset)
        if wanted.namespace in ("inputs", "persona") and early:
            raise BadReferenceError(str(wanted), f"`{path[0]}` can refer to env:NAME only", offset=offset)
        if wanted.namespace != "memory" and scope.knows(wanted):
            try:
                scope.value(wanted)
            except BadReferenceError as error:
                raise BadReferenceError(error.reference, error.problem, error.hint, offset) from None


def environment_names(spec: TaskSpec) -> Iterator[str]:
    """The variables the task refers to. Of malformed references `reference_problems` tells."""
    for _, text, _ in interpolated(spec):
        if "${" in text:
            with suppress(BadReferenceError):
                yield from [wanted.name for _, wanted in references(text) if wanted.namespace == "env"]


def expression_problems(spec: TaskSpec, origin: Origin, channels: frozenset[str] | None) -> Iterator[Problem]:
    """Criteria that cannot be read, and channels that there are not. Without `channels` any name is taken."""
    for path, text, is_value in expressions(spec):
        try:
            expression = _parsed(text, is_value, spec)
        except BadReferenceError:
            continue  # reference_problems tells of it
        except CriterionError as error:
            yield _unreadable(path, text, error, origin)
            continue
        for name in sorted(expression.channels - channels) if channels is not None else ():
            yield unknown_channel(path, name, channels or frozenset(), origin)


def _parsed(text: str, is_value: bool, spec: TaskSpec) -> Criterion | ValueExpression:
    if "${" in text:
        unset = {wanted.name: "x" for _, wanted in references(text) if wanted.namespace == "env"}
        text = interpolate_criterion(text, Scope(spec.inputs, spec.persona, unset), last=False)
    return parse_value(text) if is_value else parse(text)


def _unreadable(path: Way, text: str, error: CriterionError, origin: Origin) -> Problem:
    """Points at the very character, unless interpolation has moved it."""
    certain = error.text == text or error.offset <= text.find("${")
    caret = "\n".join(str(error).splitlines()[1:3])
    message = f"{error.problem}, at character {error.offset + 1}\n{caret}"
    within = (text, min(error.offset, len(text))) if certain else None
    expected = " or ".join(error.expected)
    return origin.problem(path, message, expected=expected, hint=error.hint, within=within)


def unknown_channel(path: Way, name: str, channels: frozenset[str], origin: Origin) -> Problem:
    """An environment channel that `[tool.harness.channels]` does not have."""
    expected = listed(sorted(channels)) if channels else "a channel of [tool.harness.channels]; there is none"
    hint = did_you_mean(name, channels)
    return origin.problem(path, f"unknown channel `{name}`", expected=expected, hint=hint)
