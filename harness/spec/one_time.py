"""One-time passwords, `${totp:NAME}` (RFC 6238): the secret in the variable NAME, and the code of a moment."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

_SCHEME = "otpauth://"
_LEAST_LEFT = 1.0
"""A code that is valid for fewer seconds than this may be too old when the site checks it."""
_ALGORITHMS = ("SHA1", "SHA256", "SHA512")
_DIGITS = range(6, 9)
_PERIODS = range(5, 3601)


class OneTimeKey(Struct, frozen=True):
    """A secret, and how its codes are made."""

    secret: bytes
    digits: int = 6
    period: int = 30
    """Seconds for which a code is valid."""
    algorithm: str = "SHA1"

    def code(self, at: datetime) -> str:
        """The code at a moment."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.twofactor.totp import TOTP

        algorithm: Any = getattr(hashes, self.algorithm)()
        made = TOTP(self.secret, self.digits, algorithm, self.period, enforce_key_length=False)
        return made.generate(int(at.timestamp())).decode()

    def left(self, at: datetime) -> float:
        """Seconds for which the code of a moment is still valid."""
        return self.period - at.timestamp() % self.period


def key_of(text: str) -> OneTimeKey:
    """The key in a base32 secret, with or without spaces, or in an `otpauth://totp/...` URI.

    Raises ValueError, whose message does not contain the secret.
    """
    if not text.lower().startswith(_SCHEME):
        return OneTimeKey(_secret(text))
    parts = urlsplit(text)
    if parts.netloc.lower() != "totp":
        raise ValueError("its otpauth:// URI is not of the type `totp`")
    query = {name.lower(): values[-1] for name, values in parse_qs(parts.query).items()}
    if "secret" not in query:
        raise ValueError("its otpauth:// URI has no `secret`")
    algorithm = query.get("algorithm", "SHA1").upper().replace("-", "")
    if algorithm not in _ALGORITHMS:
        raise ValueError(f"the `algorithm` of its otpauth:// URI is none of {', '.join(_ALGORITHMS)}")
    digits, period = _number("digits", query, 6, _DIGITS), _number("period", query, 30, _PERIODS)
    return OneTimeKey(_secret(query["secret"]), digits, period, algorithm)


def _number(name: str, query: Mapping[str, str], default: int, allowed: range) -> int:
    text = query.get(name, str(default))
    if not re.fullmatch(r"[0-9]{1,4}", text) or int(text) not in allowed:
        raise ValueError(f"the `{name}` of its otpauth:// URI is not a number from {allowed[0]} to {allowed[-1]}")
    return int(text)


def _secret(text: str) -> bytes:
    bare = re.sub(r"[\s-]", "", text).rstrip("=").upper()
    try:
        found = base64.b32decode(bare + "=" * (-len(bare) % 8))
    except (binascii.Error, ValueError):
        found = b""
    if not found:
        raise ValueError("it is neither a base32 secret nor an otpauth:// URI")
    return found


def secret_in(value: str) -> str:
    """The secret within an otpauth:// URI; empty for any other value. It never raises."""
    try:
        found = parse_qs(urlsplit(value).query) if value.lower().startswith(_SCHEME) else {}
    except ValueError:
        return ""
    return next((values[-1] for name, values in found.items() if name.lower() == "secret"), "")


class OneTimePasswords:
    """The keys of a task, by the names of their variables, and the codes that were made of them so far."""

    def __init__(self, keys: Mapping[str, OneTimeKey]) -> None:
        self._keys = keys
        self.made: tuple[str, ...] = ()
        """Every code so far: they are secrets, but known only while the task runs."""

    def __contains__(self, name: str) -> bool:
        return name in self._keys

    def wait(self, name: str, at: datetime) -> float:
        """Seconds until the next code if the present one is valid for less than a second; else 0."""
        left = self._keys[name].left(at)
        return left if left < _LEAST_LEFT else 0.0

    def code(self, name: str, at: datetime) -> str:
        """Make the code of a moment."""
        made = self._keys[name].code(at)
        if made not in self.made:
            self.made = (*self.made, made)
        return made
