"""Tokens of the server: signed with a key of the project, each for one scope and until a moment."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
from datetime import datetime, timedelta
from enum import IntEnum
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct

KEY: Final = Path(".harness/serve.key")
"""The file of the key, relative to the project; only its owner can read it."""
_BYTES = 32


class TokenScope(IntEnum):
    """What a token allows; each scope includes those below it."""

    VIEW = 1
    """To look at runs and their evidence."""
    AGENT = 2
    """To take tasks and to act in them."""
    CONTROL = 3
    """To start runs, and to end sessions and the server."""


class RefusedTokenError(Exception):
    """A token that does not count; the text says why, for its user."""

    def __init__(self, reason: str, *, expired: bool = False) -> None:
        super().__init__(reason)
        self.expired = expired


class Tokens(Struct, frozen=True):
    """Makes and checks tokens of the form `scope.expiry.signature`."""

    key: bytes

    @classmethod
    def of(cls, root: Path) -> Tokens:
        """The tokens of a project, whose key is made at first use. Raises OSError."""
        file = root / KEY
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            scratch = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
            made = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                with os.fdopen(made, "wb") as target:
                    target.write(secrets.token_hex(_BYTES).encode())
                with contextlib.suppress(FileExistsError):
                    os.link(scratch, file)  # at once and whole: another process may read it in this moment
            finally:
                scratch.unlink(missing_ok=True)
        if len(key := file.read_bytes()) < _BYTES:
            raise OSError(f"{file} has no key, or only a part of one: delete it, and the next server makes a new one")
        return cls(key)

    def issue(self, scope: TokenScope, now: datetime, valid: timedelta) -> str:
        """A new token. `now` is the time of day, timezone-aware."""
        body = f"{scope.name.lower()}.{int((now + valid).timestamp())}"
        return f"{body}.{self._sign(body)}"

    def check(self, token: str, now: datetime) -> TokenScope:
        """The scope of a valid token. Raises RefusedTokenError."""
        body, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._sign(body).encode()):
            raise RefusedTokenError("the token is none of this project: ask for a new one with `harness serve token`")
        scope, _, expiry = body.partition(".")
        if now.timestamp() > int(expiry):
            raise RefusedTokenError("the token has expired: ask for a new one with `harness serve token`", expired=True)
        return TokenScope[scope.upper()]

    def _sign(self, body: str) -> str:
        return hmac.new(self.key, body.encode("utf-8", "replace"), sha256).hexdigest()


_VIEWED: Final = timedelta(hours=24)
"""How long a printed address can be opened."""


def live_address(root: Path, url: str, now: datetime, run: str = "") -> str:
    """The address of the live page, with a token that only allows to look. Raises OSError."""
    token = Tokens.of(root).issue(TokenScope.VIEW, now, _VIEWED)
    return f"{url}?token={token}{f'&run={run}' if run else ''}"
