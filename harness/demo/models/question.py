"""What a request asks and what is answered, whichever provider's protocol it came in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

_BYTES_OF_A_TOKEN: Final = 4
_TOKENS_OF_A_MESSAGE: Final = 3
_TOKENS_OF_AN_IMAGE: Final = 1000


class Function(Struct, frozen=True):
    """A tool that the request offers."""

    name: str
    parameters: Mapping[str, Any]
    """The JSON Schema of its arguments."""
    description: str = ""


class PastCall(Struct, frozen=True):
    """A call that the model made earlier in the dialogue, and whether its result was not an error."""

    name: str
    arguments: str
    """As JSON."""
    succeeded: bool = True


class Question(Struct, frozen=True):
    """A request, in general terms."""

    model: str
    texts: Sequence[str]
    """Instructions, messages and results of tools, in the order of the request."""
    functions: Sequence[Function] = ()
    calls: Sequence[PastCall] = ()
    images: int = 0
    stream: bool = False
    seed: int = 0
    longest: int | None = None
    """The most tokens that the answer may have."""

    @property
    def tokens(self) -> int:
        """How long the request is, in tokens."""
        offered = [json.dumps([each.name, each.description, each.parameters]) for each in self.functions]
        parts = [*self.texts, *offered, *(each.name + each.arguments for each in self.calls)]
        messages = len(self.texts) * _TOKENS_OF_A_MESSAGE
        return sum(map(count_tokens, parts)) + messages + self.images * _TOKENS_OF_AN_IMAGE


class Reply(Struct, frozen=True):
    """An answer: a text, and perhaps a call of one of the offered tools."""

    text: str
    function: str | None = None
    arguments: Mapping[str, Any] = {}
    cut: bool = False
    """Whether the text was longer than the request allows."""

    @property
    def arguments_text(self) -> str:
        """The arguments as JSON."""
        return json.dumps(self.arguments, ensure_ascii=False)

    @property
    def tokens(self) -> int:
        """How long the answer is, in tokens."""
        call = count_tokens(self.function + self.arguments_text) if self.function else 0
        return count_tokens(self.text) + call

    def within(self, longest: int | None) -> Reply:
        """This answer; what is longer than so many tokens is cut off, the call first."""
        if longest is None or self.tokens <= longest:
            return self
        return Reply(self.text[: longest * _BYTES_OF_A_TOKEN], cut=True)


class BadRequestError(Exception):
    """The request is not one of this protocol."""


def count_tokens(text: str) -> int:
    """Count tokens as a rule of thumb does: four bytes each. No tokenizer is needed, and everybody can check it."""
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_OF_A_TOKEN)


def pieces(text: str, size: int = 16) -> list[str]:
    """Cut a text into what the events of a stream carry."""
    return [text[start : start + size] for start in range(0, len(text), size)]
