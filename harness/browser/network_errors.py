"""Makes Failures out of network errors and HTTP statuses. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure
from harness.resilience.outside import seconds_of
from harness.spec.names import ANYWHERE, Domains
from harness.values import replace

_NET_ERROR = re.compile(r"net::(ERR_[A-Z0-9_]+)")
_EXACT = {
    "NET_CONNECTION_REFUSED": "ERR_CONNECTION_REFUSED",
    "NET_CONNECTION_RESET": "ERR_CONNECTION_RESET ERR_CONNECTION_CLOSED ERR_CONNECTION_ABORTED "
    "ERR_CONTENT_LENGTH_MISMATCH ERR_INCOMPLETE_CHUNKED_ENCODING",
    "NET_EMPTY_RESPONSE": "ERR_EMPTY_RESPONSE",
    "NET_UNREACHABLE": "ERR_ADDRESS_UNREACHABLE ERR_CONNECTION_FAILED",
    "NET_PROTOCOL": "ERR_INVALID_CHUNKED_ENCODING ERR_INVALID_HTTP_RESPONSE ERR_INVALID_RESPONSE ERR_INVALID_REDIRECT "
    "ERR_UNSAFE_REDIRECT ERR_CONTENT_DECODING_FAILED ERR_CONTENT_DECODING_INIT_FAILED",
    "AUTHENTICATION_FAILED": "ERR_UNEXPECTED_PROXY_AUTH ERR_INVALID_AUTH_CREDENTIALS",
    "NET_OFFLINE": "ERR_INTERNET_DISCONNECTED",
    "NET_TIMEOUT": "ERR_TIMED_OUT ERR_CONNECTION_TIMED_OUT",
    "NET_TOO_MANY_REDIRECTS": "ERR_TOO_MANY_REDIRECTS",
    "NET_BLOCKED": "ERR_UNSAFE_PORT ERR_ACCESS_DENIED ERR_UNKNOWN_URL_SCHEME ERR_DISALLOWED_URL_SCHEME",
}
"""Code -> Chromium's errors that it stands for."""
_EXACT_CODES = {error: code for code, errors in _EXACT.items() for error in errors.split()}
_PREFIXES = {
    "NET_DNS": ("ERR_NAME_", "ERR_DNS_"),
    "NET_TLS": ("ERR_CERT_", "ERR_SSL_", "ERR_BAD_SSL_"),
    "NET_BLOCKED": ("ERR_BLOCKED_BY_",),
    "NET_PROTOCOL": ("ERR_RESPONSE_", "ERR_HTTP2_"),
    "NET_PROXY": ("ERR_PROXY_", "ERR_TUNNEL_", "ERR_SOCKS_"),
}
"""Code -> the beginnings of all other errors that it stands for."""
POLICY_ERRORS = ("ERR_PROXY_CONNECTION_FAILED", "ERR_TUNNEL_CONNECTION_FAILED")
"""The errors of a request that was sent to the closed proxy."""
BLOCKED = "ERR_BLOCKED_BY_CLIENT"
"""The error of a request to a virtual host that is not allowed (`context.gate`)."""
REFUSED_STATUSES = (401, 403)
_PROXY_LOGIN = 407
GIVEN_UP = "ERR_ABORTED"
"""The error of a request that the browser itself ended: another page, a download, no content; it names no cause."""
TELL_STATUS = ("ERR_HTTP_RESPONSE_CODE_FAILURE", "ERR_INVALID_AUTH_CREDENTIALS", "ERR_UNEXPECTED_PROXY_AUTH")
"""The errors of a navigation whose status names the cause."""
_STATUS_CODES = {
    **dict.fromkeys((*REFUSED_STATUSES, _PROXY_LOGIN), "AUTHENTICATION_FAILED"),
    404: "HTTP_NOT_FOUND",
    408: "HTTP_TIMEOUT",
    410: "HTTP_NOT_FOUND",
    429: "HTTP_RATE_LIMITED",
    **dict.fromkeys((502, 503, 504), "HTTP_UNAVAILABLE"),
}
_NOT_SENT = {
    "NET_DNS", "NET_CONNECTION_REFUSED", "NET_OFFLINE", "NET_BLOCKED", "NET_PROXY", "NET_TLS", "NET_UNREACHABLE",
    "POLICY_DOMAIN", "INVALID_INPUT", "AUTHENTICATION_FAILED",
}  # fmt: skip
_API_ERRORS = (
    (r"ECONNREFUSED", "NET_CONNECTION_REFUSED"),
    (r"ENOTFOUND|EAI_AGAIN", "NET_DNS"),
    (r"socket hang up", "NET_EMPTY_RESPONSE"),
    (r"ECONNRESET|EPIPE|\baborted\b", "NET_CONNECTION_RESET"),
    (r"ETIMEDOUT|Timeout [\d.]+ms exceeded", "NET_TIMEOUT"),
    (r"EPROTO|CERT|certificate", "NET_TLS"),
    (r"EHOSTUNREACH|ENETUNREACH", "NET_UNREACHABLE"),
    (r"chunk|Parse Error|decompress", "NET_PROTOCOL"),
    (r"Invalid URL", "INVALID_INPUT"),
)

_TLS = {
    "expired_or_not_yet_valid": (
        r"ERR_CERT_DATE_INVALID|has expired|not yet valid",
        (
            "Renew the certificate of {host}: it has expired or is not valid yet; if it looks valid, check the "
            "clock of this machine."
        ),
    ),
    "unknown_issuer": (
        r"ERR_CERT_AUTHORITY_INVALID|self.signed|unable to (?:verify|get)",
        (
            "This machine does not trust the issuer of the certificate of {host}: let the server send its "
            "whole chain, install the issuer here, or use http:// for this host."
        ),
    ),
    "wrong_host": (
        r"ERR_CERT_COMMON_NAME_INVALID|does not match",
        "The certificate does not name {host}: open a host that it names, or add {host} to it.",
    ),
    "revoked": (r"ERR_CERT_REVOKED|revoked", "The issuer has revoked the certificate of {host}: get a new one."),
    "not_pinned": (
        r"ERR_SSL_PINNED_KEY_NOT_IN_CERT_CHAIN",
        "{host} is pinned to other keys than its certificate has: a proxy may replace it, or the pins are old.",
    ),
    "weak_certificate": (
        r"ERR_CERT_WEAK|too (?:small|weak)",
        "The key or the signature of the certificate of {host} is too weak: get a new one.",
    ),
    "certificate_not_accepted": (
        r"ERR_CERT_|certificate",
        "Fix the certificate of {host}; the name of the error says what is wrong with it.",
    ),
    "no_common_protocol": (
        r"ERR_SSL_VERSION_OR_CIPHER_MISMATCH|ERR_SSL_OBSOLETE",
        "{host} offers no current TLS version or cipher: let its server offer TLS 1.2 or later.",
    ),
    "no_tls": (
        "",
        "The answer of {host} is not valid TLS: use http:// if it is a plain server, or fix its TLS set-up.",
    ),
}
"""Reason -> (pattern in Chromium's error or in that of an API request, advice). The first that fits counts."""


def net_error(text: str) -> str | None:
    """The name of Chromium's error in a text, or None."""
    found = _NET_ERROR.search(text)
    return found[1] if found else None


def code_of(error: str, policed: bool = False) -> str:
    """The catalog's code of `ERR_...`. `policed`: a proxy stands for the domains that are not allowed."""
    if policed and error in POLICY_ERRORS:
        return "POLICY_DOMAIN"
    if error in _EXACT_CODES:
        return _EXACT_CODES[error]
    return next((code for code, prefixes in _PREFIXES.items() if error.startswith(prefixes)), "NET_FAILED")


def net_failure(error: str, url: str, domains: Domains = ANYWHERE, effect: Effect | None = None) -> Failure:
    """The Failure of a request that ended in `net::ERR_...`; `domains` are those that the task may reach."""
    held = error == BLOCKED and not domains.allows(url)
    code = "POLICY_DOMAIN" if held else code_of(error, bool(domains.allowed))
    details: dict[str, Any] = {"url": url, "net_error": f"net::{error}"}
    if error == "ERR_UNEXPECTED_PROXY_AUTH":
        details["status"] = _PROXY_LOGIN
    if code == "POLICY_DOMAIN":
        return policy_failure(url, domains, details, effect or Effect.NONE)
    found = Failure(code, f"net::{error} at {url}", details=details, effect=effect or effect_of(code))
    return _of_tls(found, error, url) if code == "NET_TLS" else found


def _of_tls(failure: Failure, error: str, url: str) -> Failure:
    """The failure with the reason of a TLS error, as data and as advice."""
    reason = next(name for name, (pattern, _) in _TLS.items() if re.search(pattern, error, re.IGNORECASE))
    host = urlsplit(url).hostname or url
    action = _TLS[reason][1].format(host=host)
    tls = {"reason": reason, "host": host, "suggested_action": action}
    return replace(failure, details={**failure.details, "tls": tls}, advice=action)


def policy_failure(url: str, domains: Domains, details: Mapping[str, Any], effect: Effect) -> Failure:
    """The Failure of a page that was to leave the task's allowed_domains; nothing was sent there."""
    host = domains.host(url)
    message = f"{host} is outside the task's allowed_domains: {url} was not opened"
    return Failure("POLICY_DOMAIN", message, details={"url": url, "host": host, **details}, effect=effect)


def effect_of(code: str) -> Effect:
    """The effect of a request with this code.

    Refused or unresolved means not sent, a requested login means nothing was done; any other request may have arrived.
    """
    return Effect.NONE if code in _NOT_SENT else Effect.POSSIBLE


def api_failure(text: str, url: str) -> Failure:
    """The Failure of an API request without an answer; `text` is Playwright's message."""
    code = next((code for pattern, code in _API_ERRORS if re.search(pattern, text)), "NET_FAILED")
    message = f"no answer from {url}: {text}" if code == "NET_TIMEOUT" else f"{text} ({url})"
    found = Failure(code, message, details={"url": url}, effect=effect_of(code))
    return _of_tls(found, text, url) if code == "NET_TLS" else found


def status_failure(
    status: int, url: str, headers: Mapping[str, str], now: datetime, effect: Effect = Effect.NONE
) -> Failure | None:
    """The Failure of an HTTP status of 400 and above; None below. `headers` have lower-case names."""
    if status < 400:
        return None
    details, message = {"url": url, "status": status}, f"HTTP {status} from {url}"
    after = retry_after(headers.get("retry-after", ""), now) if status in (429, 503) else None
    return Failure(status_code(status), message, details=details, retry_after=after, effect=effect)


def status_code(status: int) -> str:
    """The catalog's code of an HTTP status of 400 and above."""
    return _STATUS_CODES.get(status) or ("HTTP_SERVER_ERROR" if status >= 500 else "HTTP_CLIENT_ERROR")


def refuses(status: int) -> bool:
    """Return whether the site gives no page of its own: no access, too busy, or not reachable behind its proxy.

    Other statuses come with pages that tasks may be about: an input was wrong, or something went wrong.
    """
    return status in REFUSED_STATUSES or status_code(status) in ("HTTP_RATE_LIMITED", "HTTP_UNAVAILABLE")


def names_cause(status: int) -> bool:
    """Return whether the status of a page explains that an element is missing."""
    return status in _STATUS_CODES or status >= 500


def retry_after(value: str, now: datetime) -> float | None:
    """The seconds of a `Retry-After` header: a number, or an HTTP date."""
    if value.strip().isdecimal():
        return seconds_of(value)
    try:
        return seconds_of(max(0.0, (parsedate_to_datetime(value) - now).total_seconds()))
    except (TypeError, ValueError, OverflowError):
        return None
