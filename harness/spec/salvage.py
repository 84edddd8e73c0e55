"""What can still be checked of a task whose types are wrong, so that one run shows all of its problems."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from harness.spec.complaints import at
from harness.spec.origin import Origin
from harness.spec.problems import Problem, Way
from harness.spec.task import TaskSpec
from harness.spec.vocabulary import RULES

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

    The schema of specs/003 2.1 allows the settings of all strategies beside any `strategy`.
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
