"""Which values are secrets: those under certain names, and those that a task meets where secrets stand.

Every place that shortens, wraps or compares the texts of a task asks here for the texts without its secrets (`hidden`).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from harness.masking import COMMON, MARK

_ANYWHERE = re.compile(r"passw|passphrase|secret|token|api[-_ ]?key|credential", re.IGNORECASE)
_WORDS = frozenset({"pin", "pwd", "pw", "pass", "otp", "cvv", "cvc", "puk", "tan"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def is_secret_name(name: str) -> bool:
    """Return whether a field of this name has a secret: `password`, `userPin`, `csrf_token`, not `shipping`."""
    return bool(_ANYWHERE.search(name)) or any(word.lower() in _WORDS for word in _WORD.findall(name))


def masked_fields(value: Any) -> Any:
    """A document without the values of its fields that have the name of a secret."""
    match value:
        case dict():
            return {key: _masked_field(str(key), item) for key, item in value.items()}
        case list() | tuple():
            return [masked_fields(item) for item in value]
        case _:
            return value


def _masked_field(name: str, value: Any) -> Any:
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return MARK if plain and value != "" and is_secret_name(name) else masked_fields(value)


_SENTENCE = re.compile(r"\b(?:is|are|must|should|required|least|too|not|cannot|incorrect|invalid|wrong)\b|[.!]\Z")
_LEAST_LEARNED, _MOST_LEARNED = 4, 20_000
_COUNTS = re.compile(r"tokens|count|length|limit|size|expires|ttl|type|policy|status|hint|rule|field", re.IGNORECASE)
"""Names such as `max_tokens`, `token_type` and `password_policy`, whose values say something about a secret."""


def _is_learned(name: str, value: object) -> bool:
    """Return whether a value under this name is a secret wherever else it stands, too.

    Numbers below 1000, words such as `true` and `expired`, and sentences are not: they stand everywhere, and reports
    without them would hide the cause.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    text = str(value).strip()
    if not is_secret_name(name) or _COUNTS.search(name) or not _LEAST_LEARNED <= len(text) <= _MOST_LEARNED:
        return False
    return MARK not in text and text.lower() not in COMMON | _STATES and not (" " in text and _SENTENCE.search(text))


_STATES = frozenset({
    "active", "basic", "bearer", "default", "disabled", "enabled", "expired", "hidden", "incorrect", "invalid",
    "missing", "optional", "password", "pending", "required", "revoked", "secret", "string", "text", "token", "unknown",
    "valid", "wrong",
})  # fmt: skip


def is_session_value(text: str) -> bool:
    """Return whether the value of a cookie can be a session: a long one with digits, not `dark` or `en-GB`."""
    return len(text) >= 2 * _LEAST_LEARNED and any(map(str.isdigit, text)) and any(map(str.isalpha, text))


def secrets_of_header(name: str, value: str) -> Iterator[str]:
    """What a header that authorizes gives away: the token, or the password."""
    if name.lower() not in ("authorization", "proxy-authorization"):
        return
    scheme, _, token = value.partition(" ")
    yield token or scheme
    if scheme.lower() == "basic":
        with suppress(ValueError):
            pair = base64.b64decode(token).decode()
            yield from (pair, pair.partition(":")[2])


class LearnedSecrets:
    """The values that a task has met where secrets stand: under their names, in password fields, in headers."""

    def __init__(self) -> None:
        self.values: frozenset[str] = frozenset()

    def learn(self, *values: str) -> None:
        """Learn values that were found where only secrets stand."""
        new = {each for each in values if _is_learned("secret", each)}
        if not new <= self.values:
            self.values |= new

    def learn_from(self, other: LearnedSecrets) -> None:
        """Learn what others have met."""
        self.values |= other.values

    def learn_named(self, document: object) -> None:
        """Learn the values of a document that have the name of a secret."""
        self.learn(*_named(document))


def _named(document: object) -> Iterator[str]:
    pending = [document]
    while pending:
        match pending.pop():
            case Mapping() as found:
                for name, value in found.items():
                    if _is_learned(str(name), value):
                        yield str(value).strip()
                    elif isinstance(value, Mapping | list | tuple):
                        pending.append(value)
            case list() | tuple() as items:
                pending += [each for each in items if isinstance(each, Mapping | list | tuple)]


# The task that runs, or that is reported: every place that shortens, wraps or compares texts asks for its secrets.

_LEARNED: ContextVar[LearnedSecrets | None] = ContextVar("learned", default=None)
_MASK: ContextVar[Callable[[str], str]] = ContextVar("mask", default=str)


@contextmanager
def masking(mask: Callable[[str], str], learned: LearnedSecrets | None = None) -> Iterator[None]:
    """Within it `hidden` masks so, beside what an outer one masks, and `learn` adds to `learned`."""
    outer, outer_learned = _MASK.get(), _LEARNED.get()
    tokens = _MASK.set(mask if outer is str else lambda text: outer(mask(text))), _LEARNED.set(learned or outer_learned)
    try:
        yield
    finally:
        _MASK.reset(tokens[0])
        _LEARNED.reset(tokens[1])


def hidden(text: str) -> str:
    """The text without the secrets of the task: whatever shortens, wraps or compares a text does it with this one.

    What a cut leaves of a secret could not be recognized.
    """
    return _MASK.get()(text)


def learn(*values: str) -> None:
    """Tell the task that runs of secrets that it has met."""
    if (learned := _LEARNED.get()) is not None:
        learned.learn(*values)


def learn_named(document: object) -> None:
    """Tell the task that runs of a document, whose fields with the name of a secret are secrets."""
    if (learned := _LEARNED.get()) is not None:
        learned.learn_named(document)
