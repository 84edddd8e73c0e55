"""What is wrong with a fault plan: in its types, and beyond them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from harness.spec.complaints import at, complaints
from harness.spec.fault_checks import fault_problems, same_ids
from harness.spec.fault_plan import FaultPlan, Gate
from harness.spec.faults import Fault
from harness.spec.faults.base import FaultExpect
from harness.spec.origin import Origin
from harness.spec.problems import Problem, Way, did_you_mean, listed, shown
from harness.spec.references import BadReferenceError, references
from harness.spec.salvage import NO_FAULT
from harness.spec.vocabulary import FAULTS

_MAY_REFER = "references to inputs, persona, param or env"
_OF_TASKS = ("tuple_type", "too_short", "string_type")
"""Errors that pydantic finds in `tasks`, which stands beside the keys of the fault."""


def plan_problems(plan: FaultPlan, origin: Origin, channels: frozenset[str] | None) -> Iterator[Problem]:
    """All that is wrong with a plan whose types are right. Without `channels`, any name of one is taken."""
    for number, planned in enumerate(plan.faults):
        yield from fault_problems(planned.fault, ("faults", number), origin, channels)
    yield from same_ids([planned.fault for planned in plan.faults], origin)
    yield from _of_references(plan, origin)


def broken_plan_problems(
    error: ValidationError, data: dict[str, Any], origin: Origin, channels: frozenset[str] | None
) -> Iterator[Problem]:
    """What pydantic complains of, in plain words and with a place, and all that is wrong with the rest."""
    found = list(complaints(error, data, origin))
    yield from (_in_plain_words(path, kind, problem, data, origin) for path, kind, problem in found)
    rest = _salvaged(data, [path for path, _, _ in found])
    if rest is not None:
        yield from plan_problems(rest, origin, channels)


def _in_plain_words(path: Way, kind: str, problem: Problem, data: dict[str, Any], origin: Origin) -> Problem:
    if kind == "extra_forbidden":
        return _unknown_key(path, data, origin)
    if len(path) == 2 and kind in _OF_TASKS:
        said, expected = shown(at(data, (*path, "tasks"))), "the id of a task, or a list of such"
        return origin.problem((*path, "tasks"), "not a name of tasks", expected=expected, found=said)
    return problem


def _salvaged(data: dict[str, Any], wrong: Iterable[Way]) -> FaultPlan | None:
    """The plan without what is wrong in it; its faults keep their numbers. None when nothing can be told of it."""
    rest: dict[str, Any] = copy.deepcopy(data)
    for path in wrong:
        if len(path) > 1 and path[0] == "faults" and isinstance(path[1], int):
            rest["faults"][path[1]] = NO_FAULT
        else:
            rest.pop(str(path[0]), None)
    try:
        return FaultPlan.model_validate_json(json.dumps(rest), strict=True)
    except ValidationError:
        return None


def _of_references(plan: FaultPlan, origin: Origin) -> Iterator[Problem]:
    """Those that are malformed; what they refer to is known with the task."""
    for number, planned in enumerate(plan.faults):
        for key, text in _texts(planned.fault):
            try:
                memory = any(wanted.namespace == "memory" for _, wanted in references(text))
            except BadReferenceError as error:
                message, within = f"{error.reference}: {error.problem}", (text, error.offset)
                yield origin.problem(("faults", number, key), message, hint=error.hint, within=within)
                continue
            if memory:
                message = "memory can be used in steps and criteria only"
                yield origin.problem(("faults", number, key), message, expected=_MAY_REFER)


def _texts(fault: Fault) -> Iterator[tuple[str, str]]:
    return ((key, value) for key, value in fault if isinstance(value, str))


def _unknown_key(path: Way, data: dict[str, Any], origin: Origin) -> Problem:
    known, key = list(_keys(path[:-1], data)), str(path[-1])
    expected = listed(known) if len(known) < 30 else ""
    return origin.problem(path, f"unknown key `{key}`", expected=expected, hint=did_you_mean(key, known), key=True)


def _keys(around: Way, data: dict[str, Any]) -> Iterator[str]:
    """The keys that a mapping at this place may have."""
    match around:
        case ():
            yield from FaultPlan.model_fields
        case ("gate",):
            yield from Gate.model_fields
        case ("faults", int(), "expect"):
            yield from FaultExpect.model_fields
        case ("faults", int()):
            kind = (at(data, around) or {}).get("kind")
            models: Iterable[type[BaseModel]] = [FAULTS[kind]] if kind in FAULTS else FAULTS.values()
            yield "tasks"
            yield from dict.fromkeys(key for model in models for key in model.model_fields)
