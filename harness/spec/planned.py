"""What the schema of specs/003 names and this version does not do: it is refused, never ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.spec.origin import Origin
from harness.spec.problems import Problem
from harness.spec.task import TaskSpec
from harness.spec.vocabulary import PLANNED_KEYS, RULES, offered_at

_NOTHING: tuple[Any, ...] = (None, [], {}, ())
"""Values that declare nothing."""


def without_planned(data: Mapping[str, Any], origin: Origin) -> tuple[dict[str, Any], list[Problem]]:
    """A file's data without what is planned, and a problem for each; looked at before any types are."""
    rest, problems = dict(data), []
    for name, words in PLANNED_KEYS.items():
        if name in rest and rest[name] not in _NOTHING:
            message = f"{words} is not available in this version"
            problems.append(origin.problem((name,), message, hint=f"drop `{name}`", key=True))
            del rest[name]
    problems += _fallback_plan(rest, origin)
    rules = rest.get("error_recovery")
    if isinstance(rules, Mapping):
        rest["error_recovery"] = rules = dict(rules)
        problems += _strategies(rules, origin)
    return rest, problems


def planned_problems(spec: TaskSpec, origin: Origin) -> list[Problem]:
    """The same of a task that is not read from a file, or was assigned to."""
    data = {name: getattr(spec, name) for name in PLANNED_KEYS}
    data["fallback_plan"] = {"enabled": spec.fallback_plan.enabled}
    data["error_recovery"] = dict(spec.error_recovery.unavailable())
    return without_planned(data, origin)[1]


def _fallback_plan(rest: dict[str, Any], origin: Origin) -> list[Problem]:
    """Takes it out of `rest`, or turns it off there."""
    plan, message = rest.get("fallback_plan"), "a fallback plan is not available in this version"
    if isinstance(plan, Mapping):
        if not plan.get("enabled"):
            return []
        rest["fallback_plan"] = {**plan, "enabled": False}
        return [origin.problem(("fallback_plan", "enabled"), message)]
    if plan in _NOTHING:
        return []
    del rest["fallback_plan"]
    return [origin.problem(("fallback_plan",), message, key=True)]


def _strategies(rules: dict[str, Any], origin: Origin) -> list[Problem]:
    """Puts a strategy there is in the place of each that is planned, so that the rule still counts as declared."""
    problems = []
    for rule, value in rules.items():
        if rule not in RULES or value is None:
            continue
        offered = offered_at(("error_recovery", rule))
        strategy = value.get("strategy") if isinstance(value, Mapping) else value
        known = isinstance(strategy, str) and strategy in RULES[rule]
        if offered and (not known or strategy in offered):
            continue
        subject = f"the strategy `{strategy}` of {rule}" if known else rule
        message = f"{subject} is not available in this version"
        problems.append(origin.problem(("error_recovery", rule), message))
        rules[rule] = offered[0] if offered else None
    return problems
