"""Takes the values of `${env:...}` out of what is said of a task."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable

from harness.spec.references import escaped

HIDDEN = "[redacted]"
SHORTEST = 3
"""Shorter values are not looked for: they would be found in every word."""

Hide = Callable[[str], str]


def hiding(secrets: Iterable[str]) -> Hide:
    """A function that hides them in a text, in every spelling that problems use. Shorten only what it gives."""
    words = {word for secret in secrets if len(secret) >= SHORTEST for word in _spellings(secret)}
    if not words:
        return str
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    pattern = re.compile("|".join(map(re.escape, (HIDDEN, *longest_first))))
    return lambda text: pattern.sub(HIDDEN, text)


def _spellings(secret: str) -> set[str]:
    """As it is, as Python and JSON write it, as a literal of a criterion; each before the last interpolation too."""
    literals = {secret.replace("\\", "\\\\").replace(quote, "\\" + quote) for quote in "'\""}
    found = {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], *literals}
    return found | {escaped(word) for word in found}
