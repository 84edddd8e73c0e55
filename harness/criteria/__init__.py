"""The assertion language: parse a criterion, evaluate it over any sources, explain what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.exports import exports

if TYPE_CHECKING:
    from harness.criteria.check import Explanation, Verdict
    from harness.criteria.evaluation import STUCK_SECONDS, evaluate, evaluate_value, look_once, pauses
    from harness.criteria.parser import Criterion, ValueExpression, parse, parse_value, text_comparison
    from harness.criteria.paths import PathError, assign, lookup, memory_lookup
    from harness.criteria.patterns import PatternError
    from harness.criteria.sources import LateError, Sources
    from harness.criteria.syntax import CriterionError, Json, PageQuery
    from harness.criteria.texts import difference, fold
    from harness.criteria.values import compare, contains, equal

__all__ = [
    "STUCK_SECONDS", "Criterion", "CriterionError", "Explanation", "Json", "LateError", "PageQuery", "PathError",
    "PatternError", "Sources", "ValueExpression", "Verdict", "assign", "compare", "contains", "difference", "equal",
    "evaluate", "evaluate_value", "fold", "look_once", "lookup", "memory_lookup", "parse", "parse_value", "pauses",
    "text_comparison",
]  # fmt: skip

if not TYPE_CHECKING:  # type checkers would otherwise accept any name
    __getattr__ = exports(
        __name__,
        {
            "harness.criteria.check": ("Explanation", "Verdict"),
            "harness.criteria.evaluation": ("STUCK_SECONDS", "evaluate", "evaluate_value", "look_once", "pauses"),
            "harness.criteria.parser": ("Criterion", "ValueExpression", "parse", "parse_value", "text_comparison"),
            "harness.criteria.paths": ("PathError", "assign", "lookup", "memory_lookup"),
            "harness.criteria.sources": ("LateError", "Sources"),
            "harness.criteria.syntax": ("CriterionError", "Json", "PageQuery"),
            "harness.criteria.texts": ("difference", "fold"),
            "harness.criteria.values": ("compare", "contains", "equal"),
            "harness.criteria.patterns": ("PatternError",),
        },
    )
