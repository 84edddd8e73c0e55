"""Interpolation of values, criteria and steps; `${memory...}` waits until the step runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from harness.recovery.failure import Failed, Failure
from harness.spec.references import BadReferenceError, MissingMemory, Scope, as_text, fill, fill_criterion
from harness.spec.steps import Step

CRITERIA_OF_STEPS = ("expr", "done_when", "remember")
"""Fields of steps that hold criteria or value expressions."""

ModelT = TypeVar("ModelT", bound=BaseModel)


def interpolate(value: Any, scope: Scope, *, last: bool = True) -> Any:
    """A JSON value with the references in its texts resolved. Raises BadReferenceError, MissingMemory."""
    if isinstance(value, str):
        return fill(value, scope, last) if "${" in value else value
    if isinstance(value, list | tuple):
        return type(value)(interpolate(item, scope, last=last) for item in value)
    if isinstance(value, dict):
        return {key: interpolate(item, scope, last=last) for key, item in value.items()}
    return value


def interpolate_criterion(text: str, scope: Scope, *, last: bool = True) -> str:
    """A criterion with its references resolved, as literals. Raises BadReferenceError, MissingMemory."""
    return fill_criterion(text, scope, last) if "${" in text else text


def interpolate_step(step: ModelT, scope: Scope, *, last: bool = False) -> ModelT:
    """A step (or fault) with its references resolved. Raises BadReferenceError, MissingMemory.

    Only `value` takes the type of what is referred to; the other fields are texts.
    """
    fields = {name: value for name, value in step if holds_reference(value)}
    if not fields:
        return step
    changed = {name: _field(name, value, scope, last) for name, value in fields.items()}
    return _rebuilt(step, changed)


def resolve(step: Step, memory: Callable[[], Mapping[str, Any]]) -> Step:
    """The step as it is done: `${memory...}` stands for what memory holds now; it is read when the step needs it.

    Raises MissingMemory for an entry that is not there, and Failed for one that the step has no use for.
    """
    if not holds_reference(step):
        return step
    try:
        return interpolate_step(step, Scope(memory=memory()), last=True)
    except BadReferenceError as error:
        raise Failed(Failure("INVALID_INPUT", str(error))) from None


def holds_reference(value: Any) -> bool:
    """Whether a `${...}` stands anywhere in a JSON value or a model."""
    if isinstance(value, str):
        return "${" in value
    if isinstance(value, BaseModel):
        return any(holds_reference(item) for _, item in value)
    if isinstance(value, dict):
        return any(map(holds_reference, value.values()))
    return isinstance(value, list | tuple) and any(map(holds_reference, value))


def _field(name: str, value: Any, scope: Scope, last: bool) -> Any:
    if isinstance(value, BaseModel):
        texts = {key: interpolate(item, scope, last=last) for key, item in value if isinstance(item, str)}
        return value.model_copy(update={key: as_text(text) for key, text in texts.items()})
    if name == "value":
        return interpolate(value, scope, last=last)
    if isinstance(value, dict):
        return {key: _field(name, item, scope, last) for key, item in value.items()}
    if name in CRITERIA_OF_STEPS:
        return interpolate_criterion(value, scope, last=last)
    return as_text(interpolate(value, scope, last=last)) if isinstance(value, str) else value


def _rebuilt(step: ModelT, changed: dict[str, Any]) -> ModelT:
    fields = {name: getattr(step, name) for name in step.model_fields_set} | changed
    try:
        return type(step).model_validate(fields, strict=True)
    except ValidationError:
        pass
    try:  # a `value` that is not of the right type may do as a text: `type` takes `true` so
        return type(step).model_validate(fields | {name: _texts(value) for name, value in changed.items()}, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "value"
        problem = f"gives a `{name}` that cannot be used: {first['msg']}"
        raise BadReferenceError(str(getattr(step, name, "")), problem) from None


def _texts(value: Any) -> Any:
    if isinstance(value, list):
        return [as_text(item) for item in value]
    return as_text(value) if not isinstance(value, dict) else value


__all__ = [
    "CRITERIA_OF_STEPS",
    "BadReferenceError",
    "MissingMemory",
    "Scope",
    "holds_reference",
    "interpolate",
    "interpolate_criterion",
    "interpolate_step",
    "resolve",
]
