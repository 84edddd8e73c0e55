"""How a secret can be spelt in a file, and which names say that their value is one."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

SHORTEST = 3
"""Shorter values are not looked for: they would be found in every word."""

_SHORTEST_ENCODED = 6
_ANYWHERE = re.compile(r"passw|passphrase|secret|token|api[-_ ]?key|credential", re.IGNORECASE)
_WORDS = frozenset({"pin", "pwd", "pw", "pass", "otp", "cvv", "cvc", "puk", "tan"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def is_secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret: `password`, `userPin`, `csrf_token`, but not `shipping`."""
    return bool(_ANYWHERE.search(name)) or any(word.lower() in _WORDS for word in _WORD.findall(name))


def spellings(secret: str) -> set[str]:
    """Every way a secret is written: plain, in URLs, in JSON, in HTML, in base64 at any offset."""
    if len(secret) < SHORTEST:
        return set()
    found = {secret, html.escape(secret), html.escape(secret, quote=False), *_quoted(secret)}
    for text in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        found |= {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return found | set(_encoded(secret))


def _quoted(secret: str) -> Iterator[str]:
    for text in (quote(secret), quote(secret, safe=""), quote_plus(secret), quote(secret, safe="~()*!'")):
        yield text
        yield re.sub("%[0-9A-F]{2}", lambda found: found.group().lower(), text)


def _encoded(secret: str) -> Iterator[str]:
    """The base64 letters that only depend on the secret, wherever it stands in the encoded text."""
    data = secret.encode()
    for offset in range(3):
        whole = (offset + len(data)) * 8 // 6
        first = -(-offset * 8 // 6)
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            letters = encode(b"\0" * offset + data).decode()[first:whole]
            if len(letters) >= _SHORTEST_ENCODED:
                yield letters
