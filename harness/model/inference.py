"""What an agent asks a model and gets back, without any provider: prompt, answer, usage, and the ledger's entry."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from typing import Any, Literal, Protocol

from msgspec import Struct


class ToolDefinition(Struct, frozen=True):
    """A function that the model may call in its answer."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """The JSON Schema of the arguments, an object."""


class Prompt(Struct, frozen=True):
    """One self-contained question: there is no dialogue, so any model can answer any prompt."""

    instructions: str
    """What holds for the whole task: rules and role. It is first and never changes, for the providers' caches."""
    parts: tuple[str, ...]
    """The texts of the question, in order: what changes least comes first."""
    tools: tuple[ToolDefinition, ...] = ()
    """If there are any, the model must call one."""
    images: tuple[bytes, ...] = ()
    """PNG images, after the texts."""
    smaller: Callable[[], Prompt] | None = None
    """Makes the same question with less context, for a model whose context window it exceeds; None: there is none."""


class FunctionCall(Struct, frozen=True):
    """A function that the model called."""

    name: str
    arguments: Mapping[str, Any]


class Usage(Struct, frozen=True):
    """Tokens of one call. `input` includes those read from and written to the provider's cache."""

    input: int = 0
    output: int = 0
    """Including `reasoning`."""
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    estimated: bool = False
    """Whether the provider has not said it (the call was cut off): the numbers are estimates from lengths."""

    @property
    def total(self) -> int:
        return self.input + self.output


CallOutcome = Literal["answered", "failed", "cancelled"]


class ModelCall(Struct, frozen=True):
    """The ledger's entry for one attempt of a call: every request that left, also those that failed."""

    agent: str
    model: str
    """The name in `[tool.harness.models]`."""
    provider: str
    identifier: str
    """The provider's name of the model."""
    step: int
    """The index of the step that the agent was choosing."""
    attempt: int
    """1 for the first request of a question to this model."""
    at: datetime
    seconds: float
    first_token: float | None
    """Seconds until the first event of the answer; None if none came."""
    usage: Usage
    cost: float | None
    """US dollars; None if the price of the model is unknown. A replayed call costs 0."""
    outcome: CallOutcome
    code: str = ""
    """The code of the failure (`MODEL_RATE_LIMITED`, ...), if it failed."""
    replayed: bool = False
    """Whether the answer came from a recording."""
    recording: str = ""
    """The key of the exchange in the task's recording, if there is one."""


class ModelAnswer(Struct, frozen=True):
    """What a model answered: text, calls of tools, or both."""

    text: str
    calls: tuple[FunctionCall, ...]
    call: ModelCall
    """The entry of the attempt that answered; its `model` may be a fallback of the model that was asked."""


class ModelClient(Protocol):
    """The models as one agent asks them during one proposal."""

    async def ask(self, model: str, prompt: Prompt) -> ModelAnswer:
        """Ask the model of that name in `[tool.harness.models]`, with its retries, limits, circuit and fallbacks.

        It may be awaited on any event loop. Raises Failed: `MODEL_...` if neither it nor its fallbacks answered,
        `BUDGET_EXCEEDED` if the task may not ask any more.
        """


# Requests that an agent's own process makes: what comes from it, and what goes back.


class ForwardedRequest(Struct, frozen=True):
    """A request of a client of OpenAI's or Anthropic's API."""

    method: str
    path: str
    """Below the address that the client has as its base, such as `/v1/messages`."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class ForwardedAnswer(Struct, frozen=True):
    """What the client gets."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]
    """The body as it arrives. Whoever stops reading closes it: the request is then cancelled."""


class ForwardsRequests(Protocol):
    """The way of a process to the models (`models.gateway.ModelGateway`)."""

    async def forward(self, request: ForwardedRequest) -> ForwardedAnswer:
        """Answer a request; what is refused or fails is an answer, too."""
