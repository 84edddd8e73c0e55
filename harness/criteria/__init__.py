"""The assertion language (DESIGN 4.8): parse a criterion, evaluate it over any sources, explain what failed."""

from harness.criteria.assignment import assign
from harness.criteria.criterion import Criterion, ValueExpression
from harness.criteria.differences import difference
from harness.criteria.errors import CriterionError
from harness.criteria.evaluation import evaluate, evaluate_value, pauses
from harness.criteria.memory import memory_lookup
from harness.criteria.parser import parse, parse_value
from harness.criteria.paths import PathError, lookup
from harness.criteria.patterns import PatternError
from harness.criteria.sources import Sources
from harness.criteria.syntax import Json
from harness.criteria.values import compare, equal, fold
from harness.criteria.verdict import Explanation, Verdict

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
    "lookup",
    "memory_lookup",
    "parse",
    "parse_value",
    "pauses",
]
