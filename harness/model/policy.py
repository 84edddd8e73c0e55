"""What an agent may do: its acts, and the requests by which it may change something (docs/agents.md)."""

from __future__ import annotations

from msgspec import Struct

from harness.model.agent_settings import WriteMode
from harness.spec.url_patterns import RequestPattern


class AgentPolicy(Struct, frozen=True):
    """The limits of one agent."""

    acts: tuple[str, ...] | None = None
    """The acts that it may propose; None: all."""
    writes: WriteMode = "allow"

    @property
    def restricts_writes(self) -> bool:
        """Whether some unsafe requests are held back."""
        return self.writes != "allow"


UNLIMITED = AgentPolicy()
"""The policy of the steps of a file, whose author has declared them."""


class AllowedElement(Struct, frozen=True):
    """An element on which an act may write."""

    selector: str
    frame: str | None = None
    request: RequestPattern | None = None
    """The requests that may leave; None: all."""


class WritePermission(Struct, frozen=True):
    """The unsafe requests that may leave the pages during a step. Those of safe methods always may."""

    requests: tuple[RequestPattern, ...] = ()
    elements: tuple[AllowedElement, ...] = ()
    everything: bool = False
    """Whether the step itself is declared to write."""
