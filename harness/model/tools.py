"""The tools of servers and pages as values: what is offered, what is asked, what comes back, and the ledger's entry."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal

from msgspec import Struct, field
from pydantic_core import from_json

from harness.spec.step_base import EffectClass

PAGE: Final = "page"
"""The name of the server that stands for the page under test, with its own tools (WebMCP)."""
LONGEST_DOCUMENT: Final = 64 * 1024
"""Characters of the arguments or the result of a call that reports keep."""


class ToolState(StrEnum):
    """The state of a tool server."""

    UNKNOWN = "unknown"
    """Nothing has used it yet."""
    CONNECTING = "connecting"
    ONLINE = "online"
    OFFLINE = "offline"
    """It cannot be reached; the next call or look tries again."""
    ERROR = "error"
    """It answers, but not as the protocol demands."""
    RESTARTING = "restarting"
    """Its process has died and is started again."""
    REQUIRES_REAUTH = "requires_reauth"
    """It refuses the credentials; only `harness tools restart` or new credentials help."""
    PERMANENTLY_FAILED = "permanently_failed"
    """Its process died three times within five minutes; only `harness tools restart` starts it again."""
    STOPPED = "stopped"


class ToolHints(Struct, frozen=True):
    """What a server says of a tool; None: it does not say."""

    read_only: bool | None = None
    idempotent: bool | None = None
    consequential: bool | None = None
    """Its effect matters to people (`destructiveHint` of MCP, `consequential` of WebMCP)."""


class ToolDescription(Struct, frozen=True):
    """A tool as its server lists it."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The JSON Schema of the arguments."""
    hints: ToolHints = ToolHints()


class OfferedTool(Struct, frozen=True):
    """A tool that an agent may call, or that a list shows."""

    server: str
    tool: ToolDescription
    effect: EffectClass
    """By the settings, else by the server's hints, else `write`."""


class ToolRequest(Struct, frozen=True):
    """One call of a tool, as a step, a channel or a person asks for it."""

    server: str
    tool: str
    arguments: Mapping[str, Any]
    effect: EffectClass
    """The effect that holds for this call (`ToolBox.effect_of`): a `write` is never sent twice."""
    step: int | None = None
    """The index of the step; None for a channel or a person."""


class ToolAnswer(Struct, frozen=True):
    """The answer of a tool, also one that says that it failed (`is_error`)."""

    text: str
    """The text parts of the content, joined by line breaks."""
    structured: Any = None
    """The structured content; None if there is none."""
    is_error: bool = False
    seconds: float = 0.0

    @property
    def document(self) -> Any:
        """The result that `result(path)` reads: the structured content, else the text as JSON, else the text.

        JSON of more than 200 levels stays a text: reports could not hold it.
        """
        if self.structured is not None:
            return self.structured
        try:
            return from_json(self.text, allow_inf_nan=False)
        except ValueError:
            return self.text


ToolOutcome = Literal["answered", "error", "failed", "cancelled"]
"""`error`: the tool answered that it failed. `failed`: there is no answer."""


class ToolCall(Struct, frozen=True):
    """The ledger's entry for one call, with all its tries."""

    id: str
    """The correlation id, unique in the task."""
    server: str
    tool: str
    arguments: Mapping[str, Any]
    effect: EffectClass
    step: int | None
    at: datetime
    seconds: float
    """From the first try to the end, waits included."""
    tries: int
    """How often the request was sent or was to be sent; 0: it was refused before."""
    outcome: ToolOutcome
    result: Any = None
    """`ToolAnswer.document`, if it answered."""
    code: str = ""
    """The code of the failure (`TOOL_UNAVAILABLE`, ...), if it failed."""
    message: str = ""
    exit_code: int | None = None
    """The exit code of the server's process, if its death ended the call."""
    stderr: str = ""
    """The end of the log of the server's process, if its death ended the call."""
    retryable: bool = False
    max_retries: int = 0
