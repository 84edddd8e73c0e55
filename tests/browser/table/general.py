"""What must hold for every failure of a code, written down by hand: the catalog is compared with it."""

from __future__ import annotations

General = tuple[str, str, str, bool, str]
"""error_type, category, severity, retryable, scope."""


def _site(error_type: str, *, retryable: bool) -> General:
    return (error_type, "infrastructure", "error", retryable, "origin")


def _act(error_type: str, scope: str = "page", *, retryable: bool = True) -> General:
    return (error_type, "execution", "error", retryable, scope)


GENERAL: dict[str, General] = {
    # 2.1 navigation, network
    "NET_DNS": _site("network_dns_failure", retryable=True),
    "NET_CONNECTION_REFUSED": _site("network_connection_refused", retryable=True),
    "NET_TIMEOUT": _site("network_timeout", retryable=True),
    "NET_CONNECTION_RESET": _site("unknown", retryable=True),
    "NET_EMPTY_RESPONSE": _site("unknown", retryable=True),
    "NET_OFFLINE": _site("unknown", retryable=True),
    "NET_FAILED": _site("unknown", retryable=True),
    "NET_UNREACHABLE": _site("unknown", retryable=True),
    "NET_PROTOCOL": _site("unknown", retryable=True),
    "NET_PROXY": _site("unknown", retryable=True),
    "NET_BLOCKED": _site("unknown", retryable=False),
    "NET_TLS": _site("unknown", retryable=False),
    "NET_TOO_MANY_REDIRECTS": _site("unknown", retryable=False),
    "POLICY_DOMAIN": ("unknown", "catastrophic", "critical", False, "task"),
    # 2.2 HTTP status
    "HTTP_CLIENT_ERROR": _site("unknown", retryable=False),
    "HTTP_UNEXPECTED_STATUS": _site("unknown", retryable=False),
    "HTTP_NOT_FOUND": _site("unknown", retryable=False),
    "HTTP_TIMEOUT": _site("network_timeout", retryable=True),
    "HTTP_RATE_LIMITED": _site("unknown", retryable=True),
    "HTTP_SERVER_ERROR": _site("unknown", retryable=True),
    "HTTP_UNAVAILABLE": _site("unknown", retryable=True),
    "AUTHENTICATION_FAILED": ("authentication_failed", "catastrophic", "critical", False, "task"),
    # 2.4 crash, kill, hang
    "PAGE_CRASHED": ("unknown", "infrastructure", "critical", False, "page"),
    "PAGE_CLOSED": ("unknown", "infrastructure", "error", False, "page"),
    "PAGE_UNRESPONSIVE": ("timeout_step", "infrastructure", "critical", True, "page"),
    "BROWSER_CRASHED": ("unknown", "infrastructure", "critical", False, "browser"),
    "BROWSER_UNRESPONSIVE": ("timeout_step", "infrastructure", "critical", False, "browser"),
    "BROWSER_LAUNCH_FAILED": ("unknown", "infrastructure", "critical", False, "run"),
    "BROWSER_ENDPOINT_DOWN": ("unknown", "infrastructure", "critical", True, "run"),
    "BROWSER_ENDPOINT_UNFIT": ("unknown", "infrastructure", "critical", False, "run"),
    "WEBMCP_MISSING": ("unknown", "infrastructure", "error", False, "task"),
    "DRIVER_GONE": ("unknown", "infrastructure", "critical", False, "driver"),
    # 2.5 elements, 2.6 frames and dialogs
    "STEP_TIMEOUT": _act("timeout_step"),
    "ELEMENT_NOT_FOUND": _act("element_not_found"),
    "FRAME_NOT_FOUND": _act("element_not_found"),
    "SELECTOR_AMBIGUOUS": _act("selector_ambiguous", retryable=False),
    "ELEMENT_COVERED": _act("action_failed"),
    "ELEMENT_DISABLED": _act("action_failed"),
    "ELEMENT_HIDDEN": _act("action_failed"),
    "ELEMENT_UNSTABLE": _act("action_failed"),
    "OPTION_NOT_FOUND": _act("action_failed"),
    "DIALOG_BLOCKED": _act("action_failed"),
    "DOWNLOAD_FAILED": _act("action_failed"),
    "NAVIGATION_INTERRUPTED": _act("action_failed"),
    "ACTION_FAILED": _act("action_failed"),
    "INVALID_INPUT": ("action_failed", "logic", "error", False, "task"),
    "ASSERTION_FAILED": ("assertion_failed", "logic", "error", True, "page"),
}
