"""The assertion language: parse a criterion, evaluate it over any sources, explain what failed."""

from harness.criteria.check import Explanation, Sources, Verdict, difference
from harness.criteria.evaluate import evaluate, evaluate_value, look_once, pauses
from harness.criteria.parser import Criterion, ValueExpression, parse, parse_value
from harness.criteria.paths import PathError, assign, lookup, memory_lookup
from harness.criteria.syntax import CriterionError, Json
from harness.criteria.values import PatternError, compare, equal, fold

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
    "parse",
    "parse_value",
    "pauses",
]
