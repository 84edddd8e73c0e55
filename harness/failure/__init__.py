"""What went wrong, as values: taxonomy, catalog of codes, Failure and Outcome."""

from harness.failure.catalog import CATALOG, Row, row
from harness.failure.outcome import Assertion, Failed, Failure, Outcome, Passed
from harness.failure.taxonomy import Category, Effect, ErrorType, Family, Scope, Severity

__all__ = [
    "CATALOG",
    "Assertion",
    "Category",
    "Effect",
    "ErrorType",
    "Failed",
    "Failure",
    "Family",
    "Outcome",
    "Passed",
    "Row",
    "Scope",
    "Severity",
    "row",
]
