"""Of which kind a failure is, in the words of specs/004 4.1: what events carry and thresholds count by."""

from __future__ import annotations

from harness.recovery.catalog import ErrorType, Family, Scope
from harness.recovery.failure import Failure
from harness.resilience.thresholds import SESSION, VALIDATION

_BY_CODE = {
    "HTTP_RATE_LIMITED": "rate_limit",
    "HTTP_UNAVAILABLE": "unavailable",
    "SERVICE_DOWN": "unavailable",
    "CIRCUIT_OPEN": "unavailable",
    "HTTP_TIMEOUT": "timeout",
    "NET_TIMEOUT": "timeout",
    "AGENT_TIMEOUT": "timeout",
    "AUTHENTICATION_FAILED": "auth",
    "SESSION_LOST": "auth",
    "INVALID_INPUT": "invalid",
    "HTTP_CLIENT_ERROR": "invalid",
    "HTTP_UNEXPECTED_STATUS": "invalid",
    "HTTP_NOT_FOUND": "not_found",
    "AGENT_FAILED": "agent_crash",
    "AGENT_INVALID_STEP": VALIDATION,
}
_BY_FAMILY = {Family.NETWORK: "network", Family.BROWSER: SESSION}


_SERVERS = frozenset({Scope.ORIGIN, Scope.WORLD})


def origin(failure: Failure) -> dict[str, str]:
    """`code`, `severity` and `source` of a failure, as fields of an event (specs/001, ErrorMetric)."""
    hook = failure.family is Family.PRECONDITION and "pytest_taskspec_repair" in failure.message
    server = failure.family is Family.NETWORK or failure.scope in _SERVERS
    return {
        "code": failure.code,
        "severity": str(failure.severity),
        "source": "hook" if hook else "server" if server else "client",
    }


def category(failure: Failure) -> str:
    """Where 004 has no word, the `error_type`; where that is `unknown`, the category of the catalog.

    A page or browser that was ended for another task's sake is no lost session of this one.
    """
    if failure.family is Family.BROWSER and "innocent" in failure.details:
        return str(failure.category)
    found = _BY_CODE.get(failure.code) or _BY_FAMILY.get(failure.family)
    return found or str(failure.category if failure.type is ErrorType.UNKNOWN else failure.type)
