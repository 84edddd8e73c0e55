"""The words a task's file may use, read off the models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from harness.recovery import Rulebook
from harness.spec.element_acts import Option
from harness.spec.faults import Fault
from harness.spec.parts import Budget, Expect, FallbackPlan, Repair, ScoringCheckpoint, StateBinding
from harness.spec.problems import Way
from harness.spec.steps import Step
from harness.spec.task import TaskSpec

WARNINGS = (
    "fault_not_met",
    "fault_not_healed",
    "fault_not_as_expected",
    "network_error_recovered",
    "assertion_retry_success",
    "fallback_selector_used",
    "element_appeared_late",
    "action_retry_success",
    "checkpoint_restored",
    "step_skipped",
    "precondition_repaired",
    "state_inconsistency_resolved",
    "criteria_relaxed",
    "alternative_task_used",
    "browser_restarted",
    "page_recovered",
    "effect_already_done",
    "request_sent_twice",
    "write_repeated",
    "done_when_false_after_write",
    "circuit_opened",
    "circuit_closed",
    "timeout_escalated",
    "restore_incomplete",
    "memory_key_missing",
    "artifact_missing",
    "memory_differs",
    "checkpoint_not_saved",
    "required_part_unmet",
    "domain_refused",
)
"""Types of warnings (DESIGN 4.4), and what may be missing at the end (DESIGN 4.1)."""

REQUIRED = ("task_id", "family", "goal", "inputs", "success_criteria", "error_recovery")
REQUIRED_RULES = ("on_timeout", "on_network_error", "on_assertion_fail")
"""The `required` of the schema printed in specs/003 2.1; errors under `--taskspec-strict` only (DESIGN 4.1)."""


def _members(annotation: Any) -> list[type[BaseModel]]:
    """The models of a union, however it is wrapped."""
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [model for part in get_args(annotation) for model in _members(part)]


def _named(annotation: Any, tag: str) -> dict[str, type[BaseModel]]:
    return {model.model_fields[tag].default: model for model in _members(annotation)}


ACTS = _named(Step, "act")
FAULTS = _named(Fault, "kind")
RULES: Mapping[str, Mapping[str, type[BaseModel]]] = {
    name: _named(info.annotation, "strategy")
    for name, info in Rulebook.model_fields.items()
    if _members(info.annotation)
}

_NESTED: Mapping[str, type[BaseModel]] = {
    "expect": Expect,
    "fallback_plan": FallbackPlan,
    "error_recovery": Rulebook,
    "scoring_checkpoints": ScoringCheckpoint,
    "state_bindings": StateBinding,
    "repairs": Repair,
    "budget": Budget,
}


def tag_at(path: Way) -> str | None:
    """The key that chooses the model of a mapping at this place: `act`, `kind`, `strategy`."""
    match path:
        case ("steps", int()) | ("repairs", int(), "steps", int()):
            return "act"
        case ("faults", int()):
            return "kind"
        case ("error_recovery", str() as rule) if rule in RULES:
            return "strategy"
        case _:
            return None


def choices_at(path: Way) -> Mapping[str, type[BaseModel]]:
    """The models that `tag_at` chooses from."""
    match path:
        case ("steps", int()) | ("repairs", int(), "steps", int()):
            return ACTS
        case ("faults", int()):
            return FAULTS
        case ("error_recovery", str() as rule):
            return RULES.get(rule, {})
        case _:
            return {}


def keys_at(path: Way, data: Any) -> list[str]:
    """The keys that a mapping at this place may have, `data` being the mapping."""
    if not path:
        return ["$schema", *TaskSpec.model_fields]
    if path[0] == "steps" and path[-1] == "value":
        return list(Option.model_fields)
    if (tag := tag_at(path)) is not None:
        return _chosen_keys(choices_at(path), data.get(tag) if isinstance(data, dict) else None)
    nested = _NESTED.get(str(path[0]))
    return list(nested.model_fields) if nested else []


def _chosen_keys(choices: Mapping[str, type[BaseModel]], tag: Any) -> list[str]:
    models = [choices[tag]] if isinstance(tag, str) and tag in choices else list(choices.values())
    return list(dict.fromkeys(key for model in models for key in model.model_fields))
