"""One request on its way: how far it came, what it is estimated to use, what it brought."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from msgspec import Struct

from harness.model.inference import FunctionCall, Prompt, Usage
from harness.models.prices import tokens_of_letters


class WireAnswer(Struct, frozen=True):
    """The whole answer of one request."""

    text: str
    calls: tuple[FunctionCall, ...]


class Exchange(Struct):
    """How far a request came. What it used is an estimate until the provider says it."""

    agent: str
    model: str
    """The name in the settings."""
    now: Callable[[], float]
    """Monotonic seconds."""
    began: float
    input: int
    """The estimated tokens of the prompt."""
    first: float | None = None
    """When the answer began, in seconds since the request."""
    letters: int = 0
    """The letters of the answer so far."""
    usage: Usage | None = None
    """What the provider said."""

    replayed: bool = False
    """Whether the answer comes from a recording (set by the transport)."""
    recording: str = ""
    """The key of the exchange in the task's recording (set by the transport)."""
    step: int = 0
    """The index of the step that the agent is choosing."""
    head: str = ""
    """Status and type of the answer (set by the transport)."""
    beginning: bytes = b""
    """The first bytes of the answer, for the message about one that cannot be read (set by the transport)."""

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Make this the `current` exchange for what is called within."""
        token = current.set(self)
        try:
            yield
        finally:
            current.reset(token)

    def note_event(self, letters: int = 0) -> None:
        """A part of the answer has arrived."""
        if self.first is None:
            self.first = self.now() - self.began
        self.letters += letters

    def estimate(self) -> Usage:
        """What it has used so far, by the lengths."""
        return Usage(input=self.input, output=tokens_of_letters(self.letters), estimated=True)


current: ContextVar[Exchange | None] = ContextVar("taskspec_model_exchange", default=None)
"""The exchange to which the request belongs that a transport sends."""


class AsksModel(Protocol):
    """A model behind its wire (`wire.Wire`)."""

    async def ask(self, prompt: Prompt, exchange: Exchange) -> WireAnswer:
        """Make one request. Raises ModelError or LimitExceeded."""

    async def close(self) -> None: ...
