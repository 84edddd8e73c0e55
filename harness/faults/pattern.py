"""URL patterns of request faults: `*` matches anything, everything else itself."""

from __future__ import annotations

import re
from dataclasses import dataclass

_START = re.compile(r"(?P<scheme>[a-z*]+)://(?:[^/?*]*@)?(?P<authority>[^/?]*)", re.IGNORECASE)
_PLAIN = {"https": "http", "wss": "ws"}


@dataclass(frozen=True, slots=True)
class UrlPattern:
    """A pattern that a whole URL must match, query included. `authority` is "*" when the pattern does not say it."""

    text: str
    authority: str

    @classmethod
    def parse(cls, text: str) -> UrlPattern:
        """An `https:` pattern holds as `http:`: the gate stands behind the end of TLS."""
        start = _START.match(text)
        return cls(plain(text), (start["authority"].lower() or "*") if start else "*")

    def may_match(self, host: str) -> bool:
        """Whether some URL of the host can match: `*` may stand for the rest of the host, and for more."""
        before, star, _ = self.authority.partition("*")
        return host.startswith(before) if star else host == self.authority.partition(":")[0]

    def matches(self, url: str) -> bool:
        return glob(self.text, url)


def plain(url: str) -> str:
    """The URL, or a pattern of one, as a gate sees it: `http` for `https`, scheme and host in small letters."""
    start = _START.match(url)
    if start is None:
        return url
    scheme = start["scheme"].lower()
    return _PLAIN.get(scheme, scheme) + start.group()[len(scheme) :].lower() + url[start.end() :]


def glob(pattern: str, text: str) -> bool:
    """Whether the whole text matches; time grows with the lengths only, whatever the pattern."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == text
    *middle, last = rest
    place, end = len(first), len(text) - len(last)
    if not text.startswith(first) or not text.endswith(last) or place > end:
        return False
    for part in middle:
        found = text.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True
