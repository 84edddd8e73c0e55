"""URL patterns of faults, routes and expected requests: `*` matches anything, every other character itself."""

from __future__ import annotations

import re

from msgspec import Struct

from harness.spec.names import with_scheme

OF_URL = "Pattern for the whole URL; `*` matches anything. A pattern with `http://` also matches https requests."
"""The description of the keys that have such a pattern."""
BODILESS = (204, 205, 304)
"""Statuses whose answers have no body."""
_START = re.compile(r"(?P<scheme>[a-z*]+)://(?:[^/?*]*@)?(?P<authority>[^/?]*)", re.IGNORECASE)
_PLAIN = {"https": "http", "wss": "ws"}


class UrlPattern(Struct, frozen=True):
    """A pattern that a whole URL must match, query included. `authority` is "*" if the pattern does not name it."""

    text: str
    authority: str

    @classmethod
    def parse(cls, text: str) -> UrlPattern:
        """Parse a pattern. One with `https:` is read as `http:`, because TLS ends before the gate."""
        start = _START.match(text)
        return cls(plain(text), (start["authority"].lower() or "*") if start else "*")

    def may_match(self, host: str) -> bool:
        """Return whether a URL of the host can match: `*` may stand for the rest of the host, and for more."""
        before, star, _ = self.authority.partition("*")
        return host.startswith(before) if star else host == self.authority.partition(":")[0]

    def matches(self, url: str) -> bool:
        return glob(self.text, url)


def plain(url: str) -> str:
    """The URL, or a pattern of one, as a gate sees it: `http` for `https`, scheme and host in lower case."""
    start = _START.match(url)
    if start is None:
        return url
    scheme = start["scheme"].lower()
    return _PLAIN.get(scheme, scheme) + start.group()[len(scheme) :].lower() + url[start.end() :]


def glob(pattern: str, text: str) -> bool:
    """Return whether the whole text matches; the time depends only on the lengths, whatever the pattern."""
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


WEB = ("http://", "https://", "ws://", "wss://")


def may_match(pattern: str, schemes: tuple[str, ...] = WEB) -> bool:
    """Return whether a pattern can match a URL by its beginning. A reference may stand for anything."""
    literal, *rest = re.split(r"\*|\$\{", pattern.lower(), maxsplit=1)
    return any(literal.startswith(scheme) or (rest and scheme.startswith(literal)) for scheme in schemes)


def whole_url_hint(pattern: str) -> str:
    """A hint how to write a pattern that can match a URL."""
    place = pattern.rpartition("://")[2].lstrip("/")
    begun = f"*{place}" if with_scheme(place) else f"*/{place}"
    return f"write {with_scheme(place) or f'http://host/{place}'} or {begun}"


# Patterns of the console's lines: the type, a space, and the text.

PAGE_ERROR = "pageerror"
"""The type of an error that no script of the page has caught."""
_TYPES = (
    "log", "debug", "info", "error", "warning", "dir", "dirxml", "table", "trace", "clear", "startGroup",
    "startGroupCollapsed", "endGroup", "assert", "profile", "profileEnd", "count", "time", "timeEnd", PAGE_ERROR,
)  # fmt: skip


def may_log(pattern: str) -> bool:
    """Return whether a pattern can match a line of the console by its beginning, which is the type."""
    literal, *rest = pattern.split("*", maxsplit=1)
    return any(literal.startswith(f"{each} ") or (bool(rest) and each.startswith(literal)) for each in _TYPES)


_METHOD = re.compile(r"(?P<method>[A-Z]+|sent|received)\s+(?P<url>\S.*)", re.DOTALL)


class RequestPattern(Struct, frozen=True):
    """A pattern of requests: one of these methods (none: any), and a URL that matches."""

    methods: tuple[str, ...]
    url: UrlPattern

    @classmethod
    def parse(cls, text: str) -> RequestPattern:
        """Parse `POST **/api/orders`, of messages `received ws://**`, or a URL pattern alone."""
        named = _METHOD.fullmatch(text.strip())
        methods = (named["method"],) if named else ()
        return cls(methods, UrlPattern.parse(named["url"] if named else text.strip()))

    def matches(self, method: str, url: str) -> bool:
        """Return whether a request matches; the fragment of its URL does not count."""
        return (not self.methods or method in self.methods) and self.url.matches(plain(url.partition("#")[0]))
