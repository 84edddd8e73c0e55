"""One request on its way: how far it came, what it is estimated to use and to cost, what it brought."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol

from msgspec import Struct

from harness.model.inference import FunctionCall, Prompt, Usage
from harness.model.model_settings import ModelPrice, ModelSettings


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


# What calls of models are estimated to need, and what they cost.

_LETTERS_PER_TOKEN: Final = 4
_IMAGE_TOKENS: Final = 1500
"""The tokens of an image for which no provider has said how many it is."""
ANSWER_TOKENS: Final = 200
"""The tokens of an answer that has not begun: a call of one tool."""
_MILLION: Final = 1_000_000


def tokens_of(prompt: Prompt) -> int:
    """An estimate of a prompt's tokens, from its length."""
    tools = sum(len(tool.name) + len(tool.description) + len(str(tool.parameters)) for tool in prompt.tools)
    letters = len(prompt.instructions) + sum(map(len, prompt.parts)) + tools
    return tokens_of_letters(letters) + _IMAGE_TOKENS * len(prompt.images)


def tokens_of_letters(letters: int) -> int:
    return -(-letters // _LETTERS_PER_TOKEN)


def cost_of(usage: Usage, settings: ModelSettings) -> float | None:
    """US dollars; None if the price of the model is unknown. Nothing costs nothing, whatever the price."""
    if not usage.total:
        return 0.0
    if settings.price is not None:
        return _by_declared_price(usage, settings.price)
    return _by_list_price(usage, settings.model, settings.provider)


def is_priced(settings: ModelSettings) -> bool:
    """Return whether the price of a model is declared or known."""
    return cost_of(Usage(input=1, output=1), settings) is not None


def _by_declared_price(usage: Usage, price: ModelPrice) -> float:
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    plain = max(0, usage.input - usage.cache_read - usage.cache_write)
    parts = (plain, price.input), (usage.cache_read, read), (usage.cache_write, write), (usage.output, price.output)
    return sum(tokens * dollars for tokens, dollars in parts) / _MILLION


def _by_list_price(usage: Usage, model: str, provider: str) -> float | None:
    """By the list prices of genai-prices, which come with the package: nothing is fetched."""
    import genai_prices

    counted = genai_prices.Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    try:
        return float(
            genai_prices.calc_price(
                counted, model, provider_id=None if provider == "openai-compatible" else provider
            ).total_price
        )
    except LookupError:
        return None
