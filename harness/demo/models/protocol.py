"""What the three protocols have in common: question and answer, reading a body, events of a stream, stable ids."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
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


def functions_of(tools: Sequence[Mapping[str, Any]], schema: str = "parameters") -> list[Function]:
    """The tools that a request offers; `schema` is the key of the schema in this protocol."""
    return [Function(tool["name"], tool.get(schema) or {}, tool.get("description") or "") for tool in tools]


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
        return sum(map(_count_tokens, parts)) + messages + self.images * _TOKENS_OF_AN_IMAGE


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
        call = _count_tokens(self.function + self.arguments_text) if self.function else 0
        return _count_tokens(self.text) + call

    def within(self, longest: int | None) -> Reply:
        """This answer; what is longer than so many tokens is cut off, the call first."""
        if longest is None or self.tokens <= longest:
            return self
        return Reply(self.text[: longest * _BYTES_OF_A_TOKEN], cut=True)


class BadRequestError(Exception):
    """The request is not one of this protocol."""


def _count_tokens(text: str) -> int:
    """Count tokens as a rule of thumb does: four bytes each. No tokenizer is needed, and everybody can check it."""
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_OF_A_TOKEN)


def pieces(text: str, size: int = 16) -> list[str]:
    """Cut a text into what the events of a stream carry."""
    return [text[start : start + size] for start in range(0, len(text), size)]


CREATED: Final = 1_763_283_600
"""Every answer is of 2025-11-16T09:00:00Z, the day of the demo: the same request gets the same bytes."""

Body = Mapping[str, Any]


class Protocol(Struct, frozen=True):
    """A way to ask: how a request is read, and how answers and errors look."""

    question: Callable[[Body], Question]
    """Raises BadRequestError, and LookupError, TypeError, AttributeError or ValueError for a body of another shape."""
    answer: Callable[[Question, Reply, str], dict[str, Any]]
    """The whole answer; the text is its id without a prefix."""
    events: Callable[[Question, Reply, str, Body], Iterator[bytes]]
    """The answer as server-sent events."""
    error: Callable[[int, str, str], dict[str, Any]]
    """The body of an error, from status, code and message."""
    overflow: Callable[[int, int], str]
    """The message about a request that is too long, from its tokens and the model's."""


def identity(body: bytes) -> str:
    """The id of the answer to a request, the same for the same request."""
    return hashlib.sha256(body).hexdigest()[:24]


def event(data: Any, name: str = "") -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


class Reader:
    """Collects what a request says, message by message."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: dict[str, PastCall] = {}
        self.images = 0

    def content(self, content: Any) -> None:
        """Read the content of a message: a text, or a list of parts."""
        if isinstance(content, str):
            self.texts.append(content)
            return
        for part in content or ():
            if "text" in part:
                self.texts.append(part["text"])
            elif "image" in part.get("type", ""):
                self.images += 1

    def call(self, key: str, name: str, arguments: str) -> None:
        """Read a call that the model made."""
        self.calls[key] = PastCall(name, arguments)

    def result(self, key: str, content: Any, *, failed: bool = False) -> None:
        """Read the result of a call. A text that begins with `Error` says that it failed, where nothing else can."""
        if key not in self.calls:
            raise BadRequestError(f"There is a result of the call {key!r}, which no message made.")
        before = len(self.texts)
        self.content(content)
        failed = failed or any(text.startswith("Error") for text in self.texts[before:])
        call = self.calls[key]
        self.calls[key] = PastCall(call.name, call.arguments, succeeded=not failed)

    def question(self, body: Body, functions: Sequence[Function], longest: int | None) -> Question:
        """Everything that was read."""
        if not self.texts:
            raise BadRequestError("There is no text to answer.")
        offered = () if body.get("tool_choice") == "none" else functions
        given = body.get("seed", (body.get("metadata") or {}).get("seed", 0))
        return Question(
            model=body["model"],
            texts=self.texts,
            functions=offered,
            calls=tuple(self.calls.values()),
            images=self.images,
            stream=bool(body.get("stream")),
            seed=int(given or 0),
            longest=longest,
        )
