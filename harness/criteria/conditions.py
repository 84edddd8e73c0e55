"""From branches to the conditions of the syntax tree."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType

from harness.criteria.branch import Branch
from harness.criteria.expressions import value
from harness.criteria.syntax import Compare, Condition, Every, Literal, Not, Read, Some, Stable, Test, Value, Within
from harness.criteria.vocabulary import BRACKETS, FUNCTIONS, QUESTIONS, WAITS, suggestion


def condition(branch: Branch) -> Condition:
    """The branch as something that holds or does not. Raises CriterionError."""
    return _BUILDERS.get(branch.kind, _test)(branch)


def _group(branch: Branch) -> Condition:
    return condition(branch.parts[0])


def _either(branch: Branch) -> Condition:
    return Some(tuple(map(condition, branch.parts)), **branch.place)


def _both(branch: Branch) -> Condition:
    return Every(tuple(map(condition, branch.parts)), **branch.place)


def _negation(branch: Branch) -> Condition:
    return Not(condition(branch.parts[0]), **branch.place)


def _call(branch: Branch) -> Condition:
    return _wait(branch) if branch.name in WAITS else _test(branch)


def _test(branch: Branch) -> Condition:
    tested = value(branch)
    if isinstance(tested, Compare):
        return tested
    if isinstance(tested, Read) and tested.function in QUESTIONS:
        return Test(tested, **branch.place)
    branch.fail("a criterion is a comparison, not a bare value", hint=_comparison_hint(tested))


def _comparison_hint(bare: Value) -> str:
    if not isinstance(bare, Read):
        return "compare something with it, for example text('#id') == 'done'"
    rest = {"mem": "== true", "count": "> 0", "time_since": "< 24h", "time_until": "> 0"}.get(bare.function, "!= ''")
    return f"compare it, for example {bare.source} {rest}"


def _bracket(branch: Branch) -> Condition:
    name, items = branch.name, branch.items
    if name not in BRACKETS:
        round_ones = f"{name} takes round brackets" if name in WAITS or name in FUNCTIONS else ""
        branch.fail(f"unknown combinator `{name}[...]`", BRACKETS, round_ones or suggestion(name, BRACKETS))
    if not items:
        branch.fail(f"{name}[...] is empty", ("a criterion",))
    if name != "NOT":
        return (Every if name == "ALL" else Some)(tuple(map(condition, items)), **branch.place)
    if len(items) > 1:
        items[1].fail("NOT[...] takes one criterion", hint="say NOT[ALL[...]] or NOT[ANY[...]]")
    return Not(condition(items[0]), **branch.place)


def _wait(branch: Branch) -> Condition:
    name, items = branch.name, branch.items
    timed = WAITS[name]
    form = f"{name}(seconds, criterion)" if timed else f"{name}(criterion)"
    if len(items) != 1 + timed:
        branch.fail(f"{name} takes {'two arguments' if timed else 'one argument'}", (form,))
    seconds = _seconds(items[0], form) if timed else math.inf
    return (Stable if name == "STABLE" else Within)(seconds, condition(items[-1]), **branch.place)


def _seconds(branch: Branch, form: str) -> float:
    if branch.kind in ("number", "duration"):
        literal = value(branch)
        if isinstance(literal, Literal) and isinstance(literal.value, int | float) and literal.value >= 0:
            return float(literal.value)
    branch.fail("the seconds are a number, zero or more", (form,))


_BUILDERS: MappingProxyType[str, Callable[[Branch], Condition]] = MappingProxyType(
    {
        "group": _group,
        "either": _either,
        "both": _both,
        "negation": _negation,
        "bracket": _bracket,
        "call": _call,
    }
)
