"""Takes secrets out of texts and JSON documents (DESIGN 4.7, 6)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from harness.model.ports import Json
from harness.model.settings import Settings
from harness.model.settings import secrets as secrets_of_endpoints
from harness.reporting.addresses import MARK, redact_addresses
from harness.reporting.cut import Cut
from harness.reporting.packed import redact_packed
from harness.reporting.secrets import is_secret_name, spellings

__all__ = ["HEADERS", "MARK", "Redactor", "masked_step"]

HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key"})
"""Headers whose value is always a secret, in lower case."""


class Redactor:
    """Replaces the values of secrets in all spellings, secrets in addresses, and what configured patterns match."""

    def __init__(self, secrets: Iterable[str] = (), patterns: Iterable[str] = (), query: Iterable[str] = ()) -> None:
        """`query`: names whose value in an address is a secret, beside those that always are.

        ValueError for a pattern that is not a regular expression.
        """
        self._patterns = tuple(patterns)
        self._query = tuple(query)
        self._compiled = tuple(map(_compiled, self._patterns))
        self._secrets: frozenset[str] = frozenset()
        self._words: re.Pattern[str] | None = None
        self._bytes: re.Pattern[bytes] | None = None
        self._cut = Cut(())
        self.learn(secrets)

    @classmethod
    def of(cls, settings: Settings, secrets: Iterable[str] = ()) -> Redactor:
        """That of a run: it knows the secrets of its settings, and these."""
        return cls((*secrets, *secrets_of_endpoints(settings.browser_endpoint)), settings.redact, settings.redact_query)

    def learn(self, secrets: Iterable[str]) -> None:
        """These are secrets too from now on."""
        more = self._secrets.union(secrets)
        if more == self._secrets:
            return
        words = sorted(set().union(*map(spellings, more)), key=lambda word: (-len(word), word))
        self._secrets = more
        self._words = re.compile("|".join(map(re.escape, words))) if words else None
        self._bytes = (
            re.compile(b"|".join(re.escape(word.encode("utf-8", "replace")) for word in words)) if words else None
        )
        self._cut = Cut(words)

    def plus(self, secrets: Iterable[str]) -> Redactor:
        """This one, and more secrets."""
        more = self._secrets.union(secrets)
        return self if more == self._secrets else Redactor(more, self._patterns, self._query)

    def for_addresses(self) -> Redactor:
        """One that knows only what stands in addresses, and which names the project has added for them."""
        return Redactor(query=self._query)

    def text(self, text: str) -> str:
        if self._words:
            text = self._cut.sub(MARK, self._words.sub(MARK, text))
        for pattern in self._compiled:
            text = pattern.sub(lambda found: MARK if found.group() else "", text)
        return redact_addresses(text, self._query)

    def data(self, data: bytes) -> bytes:
        """A file's content: as text when it is one, else the secrets' bytes alone; what is packed is unpacked."""
        return redact_packed(data, self._plain)

    def _plain(self, data: bytes) -> bytes:
        try:
            return self.text(data.decode()).encode()
        except UnicodeDecodeError:
            return self._bytes.sub(MARK.encode(), data) if self._bytes else data

    def json(self, value: Json) -> Json:
        """A document, numbers included. What JSON has no word for becomes text."""
        match value:
            case str():
                return self.text(value)
            case bool() | None:
                return value
            case int() | float():
                return self._number(value)
            case dict():
                return {self.text(str(key)): self.json(item) for key, item in value.items()}
            case list() | tuple() | set() | frozenset():
                return [self.json(item) for item in value]
            case _:
                return self.text(str(value))

    def strings(self, value: Json) -> Json:
        """A document of a fixed format: only its text values change, never its keys and numbers."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {key: self.strings(item) for key, item in value.items()}
            case list():
                return [self.strings(item) for item in value]
            case _:
                return value

    def _number(self, value: float) -> Json:
        text = str(value)
        if text in self._secrets or any(found.group() for p in self._compiled for found in p.finditer(text)):
            return MARK
        return value if math.isfinite(value) else text


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"`redact` pattern {pattern!r}: {error}") from error


def masked_step(step: dict[str, Any]) -> dict[str, Any]:
    """A step of a report or trace without what it types into a password field."""
    secret = step.get("act") == "type" and is_secret_name(str(step.get("selector", "")))
    return {**step, "value": MARK} if secret and step.get("value") else step
