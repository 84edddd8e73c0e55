"""Secrets that a site put into addresses: `user:password@`, and values of the query and the fragment, by their names.

What is redacted is found by where it stands, not by what it is: `?code=1` goes, and no other `1` does. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import unquote

from harness.reporting.secrets import is_secret_name

MARK = "[redacted]"

QUERY_NAMES = frozenset({
    "access_token", "api_key", "apikey", "assertion", "auth", "authorization", "client_secret", "code",
    "code_verifier", "hmac", "id_token", "jsessionid", "jwt", "key", "nonce", "oauth_signature", "oauth_token",
    "oauth_verifier", "otp", "passwd", "password", "phpsessid", "pwd", "refresh_token", "samlrequest",
    "samlresponse", "secret", "session", "session_id", "sessionid", "sid", "sig", "signature", "ticket", "token",
    "x_amz_credential", "x_amz_security_token", "x_amz_signature", "x_goog_credential", "x_goog_signature",
})  # fmt: skip
"""Names in a query or a fragment whose value is a secret, in lower case with `_` for `-`. Names that say so in words,
such as `csrf_token` and `newPassword`, count as well (`is_secret_name`); `redact_query` in [tool.harness] adds more."""

_LEAD = r"(?P<lead>[?&#;]|\\u0026|%(?:25)*+(?:3[fF]|26|23))"
_NAME = r"(?P<name>(?:[\w.~$\[\]-]|%(?:25)*+(?:5[bBdD]|2[dD]|5[fF])){1,80}?)"
_PLAIN = re.compile(_LEAD + _NAME + r"(?P<equals>=)(?P<value>(?:[^&#\s\"'<>`\\;]|\\/|;(?![\w.-]+=))+)")
_ENCODED = re.compile(
    _LEAD
    + _NAME
    + r"(?P<equals>%(?:25)*+3[dD])(?P<value>(?:[^&#\s\"'<>`\\;%]|%(?!(?:25)*+(?:26|23|22|27|20|3[cCeE])))+)"
)
_LOGIN = re.compile(r"(?<=://)[^/?#@\s\"'<>\\]+(?=@)|(?<=:\\/\\/)[^/?#@\s\"'<>\\]+(?=@)")
_ENCODED_LOGIN = re.compile(
    r"(?P<slashes>3[aA]%(?:25)*+2[fF]%(?:25)*+2[fF])(?:[^/?#&@\s\"'<>\\%]|%(?!(?:25)*+(?:40|2[fF])))+(?=%(?:25)*+40)"
)
_RUN = re.compile(r"[^\s\"'<>`]+")
"""What stands between white space and quotes: an address is in one of these."""
_BEGIN = re.compile(
    r"(?=[A-Za-z][A-Za-z0-9+.-]{0,20}(?::|%(?:25)*3[aA])(?:\\?/|%(?:25)*2[fF]){2})"
    r"|\A(?=[?#])"
    r"|(?:\A|(?<=[(\[=,]))(?=(?:\.{0,2}\\?/|%(?:25)*2[fF])(?:[\w.~%+@:!*/-]|\\/)*(?:[?#;]|%(?:25)*3[fF]))"
)
"""Where an address begins in a run. In a script, `?` and `&` mean other things."""
_RELATIVE = re.compile(r"[\w.~%+@/-]*[?#]")
_AFTER_VALUE = ").,]}"
"""What stands after an address in a sentence, and is no part of it."""


def redact_addresses(text: str, more: Iterable[str] = ()) -> str:
    """The text without the logins and the secret values of its addresses. `more`: names of secrets, beside ours."""
    if "=" in text or "%3" in text:
        names = frozenset(map(_normal, more))
        text = _RUN.sub(lambda found: _redacted(found, names), text)
    if "@" in text or "%" in text:
        text = _LOGIN.sub(MARK, text)
        text = _ENCODED_LOGIN.sub(lambda found: found["slashes"] + MARK, text)
    return text


def _redacted(found: re.Match[str], names: frozenset[str]) -> str:
    run = found.group()
    if "=" not in run and "%" not in run:
        return run
    quoted = not found.start() or found.string[found.start() - 1] in "\"'"
    begin = _RELATIVE.match(run) if quoted else None
    begin = begin or _BEGIN.search(run)
    if begin is None:
        return run
    before, address = run[: begin.start()], run[begin.start() :]
    for pattern in (_PLAIN, _ENCODED):
        address = pattern.sub(lambda pair: _masked(pair, names), address)
    return before + address


@lru_cache(maxsize=1024)
def is_secret_query(name: str, more: frozenset[str] = frozenset()) -> bool:
    """Whether a value of this name in a query or a fragment is a secret. `more`: further names, in lower case."""
    plain = _normal(name)
    return plain in QUERY_NAMES or is_secret_name(plain) or plain in more


def _normal(name: str) -> str:
    while (plain := unquote(name)) != name:
        name = plain
    return name.lower().replace("-", "_")


def _masked(found: re.Match[str], names: frozenset[str]) -> str:
    rest = found["value"].removeprefix(MARK)
    secret = rest.rstrip(_AFTER_VALUE)
    if not secret or not is_secret_query(found["name"], names):
        return found.group()
    return f"{found['lead']}{found['name']}{found['equals']}{MARK}{rest[len(secret) :]}"
