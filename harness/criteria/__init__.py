"""The assertion language: parse a criterion, evaluate it over any sources, explain what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.exports import exports

if TYPE_CHECKING:
    from harness.criteria.check import Explanation, Sources, Verdict, difference
    from harness.criteria.evaluation import evaluate, evaluate_value, look_once, pauses
    from harness.criteria.parser import Criterion, ValueExpression, parse, parse_value
    from harness.criteria.paths import PathError, assign, lookup, memory_lookup
    from harness.criteria.patterns import PatternError
    from harness.criteria.syntax import CriterionError, Json
    from harness.criteria.values import compare, equal, fold, order_problem

__all__ = [
    "Criterion",
    "CriterionError",
    "Explanation",
    "Json",
    "PathError",
    "PatternError",
    "Sources",
    "ValueExpression",
    "Verdict",
    "assign",
    "compare",
    "difference",
    "equal",
    "evaluate",
    "evaluate_value",
    "fold",
    "look_once",
    "lookup",
    "memory_lookup",
    "order_problem",
    "parse",
    "parse_value",
    "pauses",
]

if not TYPE_CHECKING:  # type checkers would otherwise accept any name
    __getattr__ = exports(
        __name__,
        {
            "harness.criteria.check": ("Explanation", "Sources", "Verdict", "difference"),
            "harness.criteria.evaluation": ("evaluate", "evaluate_value", "look_once", "pauses"),
            "harness.criteria.parser": ("Criterion", "ValueExpression", "parse", "parse_value"),
            "harness.criteria.paths": ("PathError", "assign", "lookup", "memory_lookup"),
            "harness.criteria.syntax": ("CriterionError", "Json"),
            "harness.criteria.values": ("compare", "equal", "fold", "order_problem"),
            "harness.criteria.patterns": ("PatternError",),
        },
    )
