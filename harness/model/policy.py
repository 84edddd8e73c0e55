"""What an agent may do: its acts, and the requests by which it may change something (docs/agents.md)."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct, field

from harness.model.agent_settings import WriteMode
from harness.spec.url_patterns import RequestPattern

CALLS: Final = "tool"
"""The act that calls a tool of a server or of the page."""


class AgentPolicy(Struct, frozen=True):
    """The limits of one agent."""

    acts: tuple[str, ...] | None = None
    """The acts that it may propose; None: all."""
    writes: WriteMode = "allow"
    tools: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The tool servers that are offered to agents -> patterns for the names of tools that may be called; none: all."""
    only: tuple[str, ...] | None = None
    """Patterns (`server.tool`) for those of these tools that this agent is offered; None: all."""

    @property
    def restricts_writes(self) -> bool:
        """Whether some unsafe requests are held back."""
        return self.writes != "allow"

    def offers(self, server: str, tool: str) -> bool:
        """Whether the agent is offered a tool of a server."""
        may_call = self.acts is None or CALLS in self.acts
        if self.only is not None and not any(fnmatchcase(f"{server}.{tool}", each) for each in self.only):
            return False
        patterns = self.tools.get(server)
        return may_call and patterns is not None and matches_any(tool, patterns)


def matches_any(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a name matches a pattern, in which `*` matches anything; without patterns any name does."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


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
