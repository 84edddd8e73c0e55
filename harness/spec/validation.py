"""Translates pydantic's errors into problems in plain words with a place."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from harness.recovery.declaration import Table
from harness.recovery.locators import Locator
from harness.spec.allowed_writes import AllowedWrite
from harness.spec.file_names import HOOKS, SHORT_ACTS
from harness.spec.habits import act_instead, in_seconds, takes_seconds
from harness.spec.marks import SkipIf
from harness.spec.problems import UNKNOWN, JsonPath, Problem, did_you_mean, is_misspelt, join_or
from harness.spec.source import Origin
from harness.spec.step_keys import ExpectedRequest, Option
from harness.spec.steps import DialogText, Step
from harness.spec.task import (
    Budget,
    Expect,
    FallbackPlan,
    Repair,
    ScoringCheckpoint,
    StateBinding,
    TaskSpec,
)

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
_OTHERS: Mapping[str, str] = {
    **dict.fromkeys(("depends_on", "depends-on", "dependsOn", "depends", "dependency"), "write `dependencies`"),
    **dict.fromkeys(
        ("retries", "reruns", "flaky"),
        "a task repeats the step that failed: write what to do in `error_recovery`, such as `on_timeout: "
        "retry_from_checkpoint`; `pytest --reruns 2` (pytest-rerunfailures) repeats whole tasks",
    ),
    "xfail": "write `expected_failure: REASON`",
    **dict.fromkeys(("skipif", "skipIf"), "write `skip_if: {platform: win32, reason: ...}`, or `profile` or `env`"),
    "fixme": "write `skip: REASON`",
    **dict.fromkeys(("repeat_each", "repeatEach"), "it is an option of the run: `--task-repeat-each N`"),
}
"""Names that other tools use for a key -> what to write: ignoring them would change which tasks run, and how."""
_MANY = 12
"""If there is a hint, choices beyond this number are not listed."""
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


def problems_of_error(error: ValidationError, data: Any, origin: Origin) -> Iterator[tuple[JsonPath, str, Problem]]:
    """Yield path, pydantic's error type, and the problem, one for each place; a union gives one for all its members."""
    by_path: dict[JsonPath, list[Any]] = {}
    for each in error.errors(include_url=False):
        by_path.setdefault(_path(each, data), []).append(each)
    for path, errors in by_path.items():
        inner = (other for other in by_path if len(other) > len(path) and other[: len(path)] == path)
        alone = len(errors) == 1 and not _of_items(errors[0], value_at(data, path))
        if alone or next(inner, None) is None:  # otherwise it is a list or mapping whose items say more
            yield path, errors[0]["type"], _problem(path, errors, data, origin)


def _of_items(error: Any, value: Any) -> bool:
    """Return whether an error of a list or mapping only repeats those of its items.

    Pydantic calls a list of wrong items too short, and says of a wrong mapping that it is no text, if it could be one.
    """
    if error["type"] == "too_short":
        return isinstance(value, list) and len(value) >= error["ctx"]["min_length"]
    no_text = error["type"] == "string_type" and isinstance(value, dict | list)
    return no_text or error["type"] in ("list_type", "dict_type")


def _path(error: Any, data: Any) -> JsonPath:
    """The path of the error in the file, without pydantic's names of union members."""
    path: JsonPath = ()
    node = data
    parts: JsonPath = error["loc"]
    for number, part in enumerate(parts):
        if _union_at(parts[:number])[0]:
            continue
        if isinstance(node, dict) and (part in node or (error["type"] == "missing" and number == len(parts) - 1)):
            node = node.get(str(part))
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            node = node[part]
        else:
            continue
        path = (*path, part)
    return path


def _problem(path: JsonPath, errors: list[Any], data: Any, origin: Origin) -> Problem:
    error, value = next((each for each in errors if each["type"] == "value_error"), errors[0]), value_at(data, path)
    match error["type"]:
        case "extra_forbidden":
            return unknown_key(path, data, origin)
        case "union_tag_invalid":
            return _unknown_choice(path, value, origin)
        case "literal_error" | "enum":
            return _unknown_word(path, value, error["ctx"]["expected"], origin)
        case name if name in _BOUNDS:
            expected, hint = _BOUNDS[name].format(**error["ctx"]), _of_range(path, value, error["ctx"], data)
            return origin.problem(path, "out of range", expected=expected, value=value, hint=hint)
        case _:
            return _plain(path, error, value, origin) or _wrong_type(path, errors, value, origin)


def _of_range(path: JsonPath, value: Any, limits: Mapping[str, Any], data: Any) -> str:
    """A hint for a number of a key that takes seconds."""
    fields = (model.model_fields.get(str(path[-1])) for model in _models_at(path[:-1], value_at(data, path[:-1])))
    timed = any(takes_seconds(field.description) for field in fields if field is not None)
    return in_seconds(value, limits.get("le")) if timed else ""


def _plain(path: JsonPath, error: Any, value: Any, origin: Origin) -> Problem | None:
    """The problem of an error that does not depend on the value: a missing key, or a model's own message."""
    match error["type"]:
        case "missing":
            return origin.problem(path, f"the key `{path[-1]}` is missing")
        case "union_tag_not_found":
            tag, choices = _union_at(path)
            return origin.problem(
                path, f"the key `{tag}` is missing", expected=join_or(choices), hint=_act_meant(tag, value)
            )
        case "value_error":
            return origin.problem(path, str(error["ctx"]["error"]))
        case _:
            return None


def _act_meant(tag: str, step: Any) -> str:
    """A hint for a step in the short form that names no act, or not as its first key."""
    if tag != "act" or not isinstance(step, dict) or not step:
        return ""
    if later := next((key for key in step if key in SHORT_ACTS), None):
        return f"in the short form the act stands first: `{later}`"
    first = str(next(iter(step)))
    return act_instead(first) or did_you_mean(first, SHORT_ACTS)


def _unknown_word(path: JsonPath, value: Any, expected: str, origin: Origin) -> Problem:
    words = [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")]
    hint = did_you_mean(value, words) if isinstance(value, str) else ""
    return origin.problem(path, "not a known word", expected=join_or(words), value=value, hint=hint)


def _wrong_type(path: JsonPath, errors: list[Any], value: Any, origin: Origin) -> Problem:
    words = list(dict.fromkeys(_EXPECTED.get(each["type"], each["msg"]) for each in errors))
    if {"a whole number", "a number"} <= set(words):
        words.remove("a whole number")
    if len(errors) > 1 and _takes_list(errors):
        words.append("a list")
    hint = _advice(words, value, origin)
    return origin.problem(path, "wrong type", expected=join_or(words), value=value, hint=hint)


def _advice(words: list[str], value: Any, origin: Origin) -> str:
    """A hint how to write the value that was probably meant."""
    if "text" not in words:
        unquoted = isinstance(value, str) and _UNQUOTED.fullmatch(value) and words[0] in _SCALARS
        return "write it without quotes" if unquoted else ""
    if isinstance(value, int | float):
        return "put it in quotes"
    if origin.main is not None and origin.main.is_json:
        return ""
    if value is None:
        return "in YAML `#` begins a comment and an empty value is null: put the text in quotes"
    return "in YAML [ and { begin lists and mappings: put a text that begins with them in quotes"


def _takes_list(errors: list[Any]) -> bool:
    return any(str(part).startswith("list[") for each in errors for part in each["loc"]) and not any(
        each["type"] == "list_type" for each in errors
    )


def _unknown_choice(path: JsonPath, value: Any, origin: Origin) -> Problem:
    """The problem of an unknown act, strategy or kind of fault."""
    tag, choices = _union_at(path)
    place, word = ((*path, tag), value.get(tag)) if isinstance(value, dict) else (path, value)
    if not isinstance(word, str):
        return origin.problem(place, f"not a known {tag}", expected=join_or(choices), value=word)
    hint = (act_instead(word) if tag == "act" else "") or did_you_mean(word, choices)
    expected = "" if hint and len(choices) > _MANY else join_or(choices)
    return origin.problem(place, f"not a known {tag}", expected=expected, value=word, hint=hint)


def unknown_key(path: JsonPath, data: Any, origin: Origin) -> Problem:
    """The problem of a key that its mapping does not accept."""
    known = keys_at(path[:-1], value_at(data, path[:-1]))
    return not_a_key(path, [key for key in known if key != "$schema"], origin)


def not_a_key(path: JsonPath, known: Collection[str], origin: Origin) -> Problem:
    """The problem of a key that is none of those `known`; a long list of them is not shown."""
    expected, hint = join_or(known) if 0 < len(known) < 30 else "", did_you_mean(str(path[-1]), known)
    return origin.problem(path, f"{UNKNOWN} `{path[-1]}`", expected=expected, hint=hint, key=True)


def value_at(data: Any, path: JsonPath) -> Any:
    """The value at a path; None if there is none."""
    for part in path:
        if isinstance(data, dict):
            data = data.get(str(part))
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data


def stray_keys(keys: list[str], data: Any, origin: Origin) -> Iterator[Problem]:
    """Yield problems for unknown top-level keys: errors if misspelt, else warnings (docs/design/task-files.md)."""
    known = keys_at((), data)
    for key in keys:
        if key == "$schema":
            continue
        if key in _OTHERS:
            yield origin.problem((key,), f"{UNKNOWN} `{key}`", hint=_OTHERS[key], key=True)
        elif is_misspelt(key, known):
            yield unknown_key((key,), data, origin)
        else:
            hint = did_you_mean(key, known) or "it has no effect: remove it, or put it below `inputs` to refer to it"
            yield origin.problem((key,), f"{UNKNOWN} `{key}`", hint=hint, key=True, severity="warning")


# How many entries a file may have, before its values are looked at (docs/design/bounds.md).

MOST_STEPS = 2000
"""The largest number of steps of a task, those of step groups included."""
MOST_ITEMS = 1000
"""The largest number of entries of any other list or mapping, unless it is data."""
_DATA = frozenset({
    "inputs", "persona", "page_values", "memory", "expected_memory", "parametrize", "value", "arguments", "json",
    "meanwhile", "with",
})  # fmt: skip
"""Keys whose values are data of any size. Cases have a bound of their own."""


def too_many_items(value: Any, origin: Origin, path: JsonPath = ()) -> Iterator[Problem]:
    """Yield a problem for each list or mapping with too many entries: every check takes time for each of them."""
    most = MOST_STEPS if path and path[-1] == "steps" else MOST_ITEMS
    if len(value) > most:
        what = "values" if isinstance(value, list) else "keys"
        expected, found = f"at most {most:,} {what}", f"{len(value):,}"
        yield origin.problem(path, f"too many {what}", expected=expected, found=found, key=True)
        return
    for key, each in value.items() if isinstance(value, Mapping) else enumerate(value):
        if isinstance(each, dict | list) and key not in _DATA:
            yield from too_many_items(each, origin, (*path, key))


# The checks that are possible in a task with wrong types, so that one run shows all of its problems.

NO_STEP = {"act": "wait", "value": 0}
"""A replacement for a wrong step, so that the others keep their numbers."""
NO_FAULT = {"kind": "storage_cleared"}
"""A replacement for a wrong fault."""
_STAND_INS: dict[str | int, dict[str, Any]] = {"faults": NO_FAULT, **dict.fromkeys(("steps", *HOOKS), NO_STEP)}


def partial_task(data: dict[str, Any], errors: Iterable[tuple[JsonPath, str]]) -> TaskSpec | None:
    """The task without its wrong parts; None if that cannot be determined."""
    rest: dict[str, Any] = copy.deepcopy(data)
    for path, kind in errors:
        around = value_at(rest, path[:-1])
        if kind == "extra_forbidden" and isinstance(around, dict):
            around.pop(path[-1], None)
        elif path[0] in _STAND_INS and len(path) > 1 and isinstance(path[1], int):
            rest[str(path[0])][path[1]] = _STAND_INS[path[0]]
        elif path == ("steps",):
            rest = {key: value for key, value in rest.items() if key not in ("faults", "expect")} | {"steps": [NO_STEP]}
        elif path[0] in ("inputs", "persona"):
            return None  # all references to them would be reported as wrong
        elif path[0] == "task_id":
            rest["task_id"] = "unknown"
        else:
            rest.pop(str(path[0]), None)
    try:
        return TaskSpec.model_validate_json(json.dumps(rest), strict=True)
    except ValidationError:
        return None


def idle_settings(data: dict[str, Any], origin: Origin) -> tuple[dict[str, Any], list[Problem]]:
    """The data without the settings of strategies that were not chosen, and a warning for each.

    Files may contain the settings of all strategies beside any `strategy`.
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


# The words of a task file, taken from the models.


REQUIRED = ("task_id", "family", "goal", "inputs", "success_criteria", "error_recovery")
REQUIRED_RULES = ("on_timeout", "on_network_error", "on_assertion_fail")
"""The keys of a complete file; their absence is an error only under `--taskspec-strict`."""


def _members(annotation: Any) -> list[type[BaseModel]]:
    """The models of a union, however it is nested."""
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [model for part in get_args(annotation) for model in _members(part)]


def _models_by_tag(annotation: Any, tag: str) -> dict[str, type[BaseModel]]:
    return {model.model_fields[tag].default: model for model in _members(annotation)}


ACTS = _models_by_tag(Step, "act")


def _faults() -> Mapping[str, type[BaseModel]]:
    from harness.spec.faults import Fault

    return _models_by_tag(Fault, "kind")


def _rules() -> Mapping[str, Mapping[str, type[BaseModel]]]:
    from harness.recovery.rulebook import Rulebook

    fields = Rulebook.model_fields.items()
    return {name: _models_by_tag(info.annotation, "strategy") for name, info in fields if _members(info.annotation)}


FAULTS = Table(_faults)
RULES = Table(_rules)


def _nested() -> Mapping[str, type[BaseModel]]:
    from harness.recovery.rulebook import Rulebook
    from harness.spec.context import ContextOptions
    from harness.spec.page_handlers import Handler
    from harness.spec.routes import Route

    return {
        "browser": ContextOptions,
        "expect": Expect,
        "fallback_plan": FallbackPlan,
        "error_recovery": Rulebook,
        "scoring_checkpoints": ScoringCheckpoint,
        "state_bindings": StateBinding,
        "repairs": Repair,
        "handlers": Handler,
        "budget": Budget,
        "allowed_writes": AllowedWrite,
        "routes": Route,
        "skip_if": SkipIf,
    }


_NESTED = Table(_nested)


_IN_STEPS: Mapping[str, type[BaseModel]] = {"value": Option, "expect_request": ExpectedRequest, "message": DialogText}
"""Mappings inside a step."""
_LOCATORS = frozenset({"selector", "frame", "within", "has", "has_not", "mask"})
"""The keys whose values, or the entries of whose lists, may be locators."""


def _union_at(path: JsonPath) -> tuple[str, Mapping[str, type[BaseModel]]]:
    """The key that chooses the model of a mapping at this path (`act`, `kind`, `strategy`), and the models by it.

    Both are empty where there is nothing to choose.
    """
    match path:
        case ("steps" | "before_each" | "after_each", int()) | ("repairs" | "handlers", int(), "steps", int()):
            return "act", ACTS
        case ("faults", int()):
            return "kind", FAULTS
        case ("error_recovery", str() as rule) if rule in RULES:
            return "strategy", RULES[rule]
        case _:
            return "", {}


def keys_at(path: JsonPath, data: Any) -> list[str]:
    """The keys that a mapping at this path may have; `data` is the mapping."""
    above = [] if path else ["$schema"]
    return list(dict.fromkeys([*above, *(key for model in _models_at(path, data) for key in model.model_fields)]))


def _models_at(path: JsonPath, data: Any) -> Iterable[type[BaseModel]]:
    """The models that a mapping at this path may be of."""
    if not path:
        return [TaskSpec]
    if any(part in _LOCATORS for part in path[-2:]) or "fallback_selectors" in path[:-1]:
        return [Locator]
    if path[0] in ("steps", "repairs", *HOOKS) and path[-1] in _IN_STEPS:
        return [_IN_STEPS[str(path[-1])]]
    tag, choices = _union_at(path)
    if tag:
        chosen = data.get(tag) if isinstance(data, dict) else None
        return [choices[chosen]] if isinstance(chosen, str) and chosen in choices else choices.values()
    nested = _NESTED.get(str(path[0]))
    for name in path[1:]:
        if nested is not None and name in nested.model_fields:
            nested = next(iter(_members(nested.model_fields[str(name)].annotation)), nested)
    return [nested] if nested else []
