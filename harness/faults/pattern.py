"""URL patterns of `hang`: `*` matches anything, everything else itself."""

from __future__ import annotations

from dataclasses import dataclass

from harness.failure import Failed, Failure


@dataclass(frozen=True, slots=True)
class UrlPattern:
    """A pattern that a whole URL must match, query included; the host's case does not matter."""

    text: str

    @classmethod
    def parse(cls, text: str) -> UrlPattern:
        """Raises Failed(INVALID_INPUT) for a scheme whose requests cannot be read between browser and site."""
        scheme, colon, rest = text.partition("://")
        if not colon:
            return cls(text)
        if scheme.lower() in ("https", "wss"):
            raise Failed(Failure("INVALID_INPUT", f"hang: {text!r}: only http:// and ws:// requests can be made to hang"))
        authority, slash, target = rest.partition("/")
        return cls(f"{scheme.lower()}://{authority.lower()}{slash}{target}")

    @property
    def host(self) -> str:
        """The part that stands for the host, `*` when the pattern does not say it."""
        _, colon, rest = self.text.partition("://")
        host = rest.partition("/")[0].rpartition("@")[2].partition(":")[0]
        return host if colon and host else "*"

    def matches(self, url: str) -> bool:
        return glob(self.text, url)


def glob(pattern: str, text: str) -> bool:
    """Whether the whole text matches; time grows with the lengths only, whatever the pattern."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == text
    *middle, last = rest
    end = len(text) - len(last)
    place = len(first)
    if not text.startswith(first) or not text.endswith(last) or place > end:
        return False
    for part in middle:
        found = text.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True
