"""Requests to models that an agent's own process makes: what comes from it, and what goes back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from msgspec import Struct


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
        ...
