"""Groups of failures for a report, made from the catalog: product defects apart from infrastructure."""

from __future__ import annotations

from harness.recovery.catalog import CATALOG, Category, ErrorType, Family, Row

GROUPS = (
    "Product defects (assertions and success criteria)",
    "Preconditions and state",
    "Timeouts",
    "Elements (not found, ambiguous)",
    "Actions (covered, disabled, invalid)",
    "Sites and network",
    "Browser",
    "Policy, login, budget",
    "Harness and unknown",
)
_PRODUCT, _STATE, _TIME, _ELEMENT, _ACTION, _NETWORK, _BROWSER, _POLICY, _REST = GROUPS

_BY_FAMILY = {
    Family.ASSERTION: _PRODUCT,
    Family.PRECONDITION: _STATE,
    Family.INCONSISTENCY: _STATE,
    Family.TIMEOUT: _TIME,
    Family.ELEMENT: _ELEMENT,
    Family.AMBIGUOUS: _ELEMENT,
    Family.ACTION: _ACTION,
    Family.NETWORK: _NETWORK,
    Family.BROWSER: _BROWSER,
}
_BY_TYPE = {ErrorType.ACTION_FAILED: _ACTION, ErrorType.STATE_INCONSISTENCY: _STATE}
_BY_PREFIX = {"BROWSER": _BROWSER, "SERVICE": _NETWORK, "INCOMPLETE": _STATE}


def group(row: Row) -> str:
    """The one group a code belongs to."""
    prefix = row.code.partition("_")[0]
    if row.family is not Family.NONE:
        return _BY_FAMILY[row.family]
    if row.category is Category.CATASTROPHIC:
        return _POLICY
    return _BY_PREFIX.get(prefix) or _BY_TYPE.get(row.error_type) or _REST


def grouped_codes() -> dict[str, tuple[str, ...]]:
    """Group -> its codes, in the order of GROUPS; groups without codes are left out."""
    found = {name: tuple(code for code, row in CATALOG.items() if group(row) == name) for name in GROUPS}
    return {name: codes for name, codes in found.items() if codes}
