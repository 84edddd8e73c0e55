"""What pydantic complains of, in plain words and with a place."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from harness.recovery import Rulebook
from harness.spec.faults import Fault
from harness.spec.problems import UNKNOWN, Problem, Way, did_you_mean, listed, misspelt, shown
from harness.spec.source import Origin
from harness.spec.steps import Option, Step
from harness.spec.task import Budget, Expect, FallbackPlan, Repair, ScoringCheckpoint, StateBinding, TaskSpec

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
SYNONYMS = dict.fromkeys(("depends_on", "depends-on", "dependsOn", "depends", "dependency"), "dependencies")
"""What other tools call a key: ignored, it would change what runs, and in which order."""
MANY = 12
"""With a hint, more choices than these are not listed."""
_SCALARS = ("a whole number", "a number", "true or false")
_UNQUOTED = re.compile(r"-?\d+(?:\.\d+)?|true|false")
_BOUNDS = {
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
    "string_too_short": "at least {min_length} character(s)",
    "string_too_long": "at most {max_length} characters",
    "too_short": "at least {min_length} item(s)",
    "too_long": "at most {max_length} items",
}


def complaints(error: ValidationError, data: Any, origin: Origin) -> Iterator[tuple[Way, str, Problem]]:
    """Path, pydantic's type of error, and the problem, one for each place; unions give one for all their members."""
    by_path: dict[Way, list[Any]] = {}
    for each in error.errors(include_url=False):
        by_path.setdefault(_path(each, data), []).append(each)
    for path, errors in by_path.items():
        inner = (other for other in by_path if len(other) > len(path) and other[: len(path)] == path)
        alone = len(errors) == 1 and not _of_items(errors[0], at(data, path))
        if alone or next(inner, None) is None:  # else a list or mapping whose items say more
            yield path, errors[0]["type"], _problem(path, errors, data, origin)


def _of_items(error: Any, value: Any) -> bool:
    """Whether an error of a list or mapping only sums up those of its items: of a list of wrong items pydantic says
    that it is too short."""
    if error["type"] == "too_short":
        return isinstance(value, list) and len(value) >= error["ctx"]["min_length"]
    return error["type"] in ("list_type", "dict_type")


def _path(error: Any, data: Any) -> Way:
    """Where the error is; pydantic's own names of union members are dropped."""
    path: Way = ()
    node = data
    parts: Way = error["loc"]
    for number, part in enumerate(parts):
        if tag_at(parts[:number]) is not None:
            continue
        if isinstance(node, dict) and (part in node or (error["type"] == "missing" and number == len(parts) - 1)):
            node = node.get(str(part))
        elif isinstance(node, list) and isinstance(part, int):
            node = node[part]
        else:
            continue
        path = (*path, part)
    return path


def _problem(path: Way, errors: list[Any], data: Any, origin: Origin) -> Problem:
    error, value = next((each for each in errors if each["type"] == "value_error"), errors[0]), at(data, path)
    match error["type"]:
        case "extra_forbidden":
            return unknown_key(path, data, origin)
        case "union_tag_invalid":
            return _unknown_choice(path, value, origin)
        case "literal_error" | "enum":
            return _unknown_word(path, value, error["ctx"]["expected"], origin)
        case name if name in _BOUNDS:
            expected = _BOUNDS[name].format(**error["ctx"])
            return origin.problem(path, "out of range", expected=expected, found=shown(value))
        case _:
            return _plain(path, error, origin) or _wrong_type(path, errors, value, origin)


def _plain(path: Way, error: Any, origin: Origin) -> Problem | None:
    """What needs no look at the value: something is missing, or a model has said it in its own words."""
    match error["type"]:
        case "missing":
            return origin.problem(path, f"the key `{path[-1]}` is missing")
        case "union_tag_not_found":
            return origin.problem(path, f"the key `{tag_at(path)}` is missing", expected=listed(list(choices_at(path))))
        case "value_error":
            return origin.problem(path, str(error["ctx"]["error"]))
        case _:
            return None


def _unknown_word(path: Way, value: Any, expected: str, origin: Origin) -> Problem:
    words = [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")]
    hint = did_you_mean(value, words) if isinstance(value, str) else ""
    return origin.problem(path, "not a known word", expected=listed(words), found=shown(value), hint=hint)


def _wrong_type(path: Way, errors: list[Any], value: Any, origin: Origin) -> Problem:
    words = list(dict.fromkeys(_EXPECTED.get(each["type"], each["msg"]) for each in errors))
    if {"a whole number", "a number"} <= set(words):
        words.remove("a whole number")
    if len(errors) > 1 and _takes_list(errors):
        words.append("a list")
    hint = _advice(words, value, origin)
    return origin.problem(path, "wrong type", expected=listed(words), found=shown(value), hint=hint)


def _advice(words: list[str], value: Any, origin: Origin) -> str:
    """How to write what was probably meant."""
    if "text" not in words:
        unquoted = isinstance(value, str) and _UNQUOTED.fullmatch(value) and words[0] in _SCALARS
        return "write it without quotes" if unquoted else ""
    if isinstance(value, int | float):
        return "put it in quotes"
    if origin.main is not None and origin.main.is_json:
        return ""
    if value is None:
        return "in YAML `#` begins a comment and an empty value is null: put the text in quotes"
    return "in YAML [ and { begin lists and mappings: put a text that begins so in quotes"


def _takes_list(errors: list[Any]) -> bool:
    return any(str(part).startswith("list[") for each in errors for part in each["loc"]) and not any(
        each["type"] == "list_type" for each in errors
    )


def _unknown_choice(path: Way, value: Any, origin: Origin) -> Problem:
    """An act, strategy or kind of fault that there is not."""
    tag, choices = tag_at(path) or "", list(choices_at(path))
    place, word = ((*path, tag), value.get(tag)) if isinstance(value, dict) else (path, value)
    if not isinstance(word, str):
        return origin.problem(place, f"not a known {tag}", expected=listed(choices), found=shown(word))
    hint = did_you_mean(word, choices)
    expected = "" if hint and len(choices) > MANY else listed(choices)
    return origin.problem(place, f"not a known {tag}", expected=expected, found=shown(word), hint=hint)


def unknown_key(path: Way, data: Any, origin: Origin) -> Problem:
    """A key that the mapping around it does not take."""
    around, key = path[:-1], str(path[-1])
    known = [key for key in keys_at(around, at(data, around)) if key != "$schema"]
    hint = did_you_mean(key, known)
    expected = listed(known) if known and len(known) < 30 else ""
    return origin.problem(path, f"{UNKNOWN} `{key}`", expected=expected, hint=hint, key=True)


def at(data: Any, path: Way) -> Any:
    """The value at a path; None where there is none."""
    for part in path:
        if isinstance(data, dict):
            data = data.get(str(part))
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data


def stray_keys(keys: list[str], data: Any, origin: Origin) -> Iterator[Problem]:
    """Top-level keys that no field has: errors when misspelt, else warnings (docs/design/task-files.md)."""
    known = keys_at((), data)
    for key in keys:
        if key == "$schema":
            continue
        if key in SYNONYMS:
            yield origin.problem((key,), f"{UNKNOWN} `{key}`", hint=f"write `{SYNONYMS[key]}`", key=True)
        elif misspelt(key, known):
            yield unknown_key((key,), data, origin)
        else:
            hint = did_you_mean(key, known) or "it has no effect: drop it, or write it below `inputs` to refer to it"
            yield origin.problem((key,), f"{UNKNOWN} `{key}`", hint=hint, key=True, severity="warning")


# What can still be checked of a task whose types are wrong, so that one run shows all of its problems.

_NOTHING = {"act": "wait", "value": 0}
"""Stands for a step that is wrong, so that the others keep their numbers."""
NO_FAULT = {"kind": "storage_cleared"}
"""The same for a fault."""
_STAND_INS: dict[str | int, dict[str, Any]] = {"steps": _NOTHING, "faults": NO_FAULT}


def salvaged(data: dict[str, Any], errors: Iterable[tuple[Way, str]]) -> TaskSpec | None:
    """The task without what is wrong in it; None when that cannot be told."""
    rest: dict[str, Any] = copy.deepcopy(data)
    for path, kind in errors:
        around = at(rest, path[:-1])
        if kind == "extra_forbidden" and isinstance(around, dict):
            around.pop(path[-1], None)
        elif path[0] in _STAND_INS and len(path) > 1 and isinstance(path[1], int):
            rest[str(path[0])][path[1]] = _STAND_INS[path[0]]
        elif path == ("steps",):
            rest = {key: value for key, value in rest.items() if key not in ("faults", "expect")} | {
                "steps": [_NOTHING]
            }
        elif path[0] in ("inputs", "persona"):
            return None  # references to them would all be wrong
        elif path[0] == "task_id":
            rest["task_id"] = "unknown"
        else:
            rest.pop(str(path[0]), None)
    try:
        return TaskSpec.model_validate_json(json.dumps(rest), strict=True)
    except ValidationError:
        return None


def idle_settings(data: dict[str, Any], origin: Origin) -> tuple[dict[str, Any], list[Problem]]:
    """The data without settings of strategies that were not chosen, and a warning for each.

    Files may hold the settings of all strategies beside any `strategy`.
    """
    rules = data.get("error_recovery")
    if not isinstance(rules, dict):
        return data, []
    kept, warnings = dict(rules), []
    for name, rule in rules.items():
        choices = RULES.get(name, {})
        strategy = rule.get("strategy") if isinstance(rule, dict) else None
        if not isinstance(strategy, str) or strategy not in choices:
            continue
        others = {key for model in choices.values() for key in model.model_fields}
        idle = [key for key in rule if key in others and key not in choices[strategy].model_fields]
        for key in idle:
            message, path = f"`{key}` has no effect with the strategy `{strategy}`", ("error_recovery", name, key)
            warnings.append(origin.problem(path, message, key=True, severity="warning"))
        kept[name] = {key: value for key, value in rule.items() if key not in idle}
    return {**data, "error_recovery": kept}, warnings


# The words a task's file may use, read off the models.

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
"""Types of warnings (docs/design/steps-and-recovery.md), and what may be missing at the end."""

REQUIRED = ("task_id", "family", "goal", "inputs", "success_criteria", "error_recovery")
REQUIRED_RULES = ("on_timeout", "on_network_error", "on_assertion_fail")
"""What a complete file has; errors under `--taskspec-strict` only (docs/design/task-files.md)."""


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
