"""Faults of tools: a call that is refused, late, lost, or answered with an error, whatever the server."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal

from pydantic import Field

from harness.spec.faults.base import LONGEST, FaultBase


class ToolFault(FaultBase):
    """Its occasions are the calls of tools, each try counted; without `times`, it strikes all."""

    server: str | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="Only calls to this server of `[tool.harness.tools]`, or with `page` to the page's own tools. "
        "Default: to any server.",
    )
    tool: str = Field(
        "*",
        min_length=1,
        max_length=200,
        description="Only calls of this tool; `*` matches anything.",
    )

    @property
    def target(self) -> str:
        if self.tool == "*":
            return self.server or self.kind
        return f"{self.server or '*'}.{self.tool}"

    @property
    def transient(self) -> bool:
        return self.times is not None or self.until is not None

    @property
    def lasts(self) -> float | None:
        return None

    def fits(self, server: str, tool: str) -> bool:
        """Whether a call of that tool is one of its occasions."""
        return self.server in (None, server) and fnmatchcase(tool, self.tool)


class ToolKilled(ToolFault):
    """The server's process is killed (SIGKILL) when it has got the call, before it does anything."""

    kind: Literal["tool_killed"] = "tool_killed"
    server: str = Field(
        min_length=1, max_length=100, description="A server of `[tool.harness.tools]` that has a `command`."
    )


class ToolHangs(ToolFault):
    """The tool does its work, but no answer comes; after some seconds the connection is lost."""

    kind: Literal["tool_hangs"] = "tool_hangs"
    seconds: float = Field(LONGEST, gt=0, le=LONGEST, description="Delay until the connection is lost, in seconds.")


class ToolSlow(ToolFault):
    """The tool's answer is late."""

    kind: Literal["tool_slow"] = "tool_slow"
    seconds: float = Field(30, gt=0, le=LONGEST, description="Delay of the answer, in seconds.")


class ToolErrorAnswer(ToolFault):
    """The answer is that the tool has failed; the tool does not see the call."""

    kind: Literal["tool_error"] = "tool_error"
    message: str = Field("injected", max_length=1000, description="Text of the answer.")


class ToolRefused(ToolFault):
    """The server cannot be reached, and nothing is sent."""

    kind: Literal["tool_refused"] = "tool_refused"


class ToolAnswerLost(ToolFault):
    """The tool does its work, but the connection is lost before the answer comes."""

    kind: Literal["tool_answer_lost"] = "tool_answer_lost"
