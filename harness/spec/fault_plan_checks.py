"""What is wrong with a fault plan: in its types, and beyond them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from harness.spec.complaints import at, complaints
from harness.spec.fault_checks import fault_problems
from harness.spec.fault_plan import FaultPlan, Gate
from harness.spec.faults import Fault, FaultExpect
from harness.spec.origin import Origin
from harness.spec.problems import Problem, Way, did_you_mean, listed, shown
from harness.spec.references import BadReferenceError, references
from harness.spec.vocabulary import FAULTS

_MAY_REFER = "references to inputs, persona, param or env"
_OF_TASKS = ("tuple_type", "too_short", "string_type")
"""Errors that pydantic finds in `tasks`, which stands beside the keys of the fault."""


def plan_problems(plan: FaultPlan, origin: Origin, channels: frozenset[str] | None) -> Iterator[Problem]:
    """All that is wrong with a plan whose types are right. Without `channels`, any name of one is taken."""
    for number, planned in enumerate(plan.faults):
        yield from fault_problems(planned.fault, ("faults", number), origin, channels)
    yield from _same_ids(plan, origin)
    yield from _of_references(plan, origin)


def plan_complaints(error: ValidationError, data: dict[str, Any], origin: Origin) -> Iterator[Problem]:
    """What pydantic complains of, in plain words and with a place."""
    for path, kind, problem in complaints(error, data, origin):
        if kind == "extra_forbidden":
            yield _unknown_key(path, data, origin)
        elif len(path) == 2 and kind in _OF_TASKS:
            found, expected = shown(at(data, (*path, "tasks"))), "the id of a task, or a list of such"
            yield origin.problem((*path, "tasks"), "not a name of tasks", expected=expected, found=found)
        else:
            yield problem


def _same_ids(plan: FaultPlan, origin: Origin) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for number, planned in enumerate(plan.faults):
        name = planned.fault.id
        if name and seen.setdefault(name, number) != number:
            message = f"the id `{name}` is taken by faults[{seen[name]}]"
            yield origin.problem(("faults", number, "id"), message, hint="every fault needs an id of its own, or none")


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
