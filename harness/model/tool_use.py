"""What calls of tools have done: the one place where they are counted, and their lines and documents in reports.

Terminal, JUnit, Allure, dashboard, history, metrics, error_report.json and events.jsonl all show what is counted here,
from the ledger of a task (`TaskResult.tool_calls`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal

from pydantic import Field, JsonValue

from harness.model.tools import ToolCall, ToolOutcome
from harness.recovery.declaration import Document
from harness.spec.step_base import EffectClass


class ToolFigures(Document):
    """What calls of tools have done; the figures of several can be added."""

    calls: int = Field(0, description="Number of calls, each with all its tries.")
    errors: int = Field(0, description="Number of calls that the tool answered with an error (`is_error`).")
    failed: int = Field(0, description="Number of calls without an answer.")
    cancelled: int = Field(0, description="Number of calls that ended because their task did.")
    repeated: int = Field(0, description="Number of tries after the first, of all calls.")
    seconds: float = Field(0, description="Seconds of all calls, with the waits between their tries.")

    @classmethod
    def of(cls, calls: Iterable[ToolCall]) -> ToolFigures:
        """Sum up entries of the ledger."""
        return sum((_of_call(each) for each in calls), cls())

    def __add__(self, other: ToolFigures) -> ToolFigures:
        mine, its = self.model_dump(), other.model_dump()
        return ToolFigures(**{name: round(value + its[name], 6) for name, value in mine.items()})

    @property
    def answered(self) -> int:
        """Number of calls that the tool answered with a result."""
        return self.calls - self.errors - self.failed - self.cancelled

    def by_outcome(self) -> dict[ToolOutcome, int]:
        """Outcome -> number of calls."""
        return {"answered": self.answered, "error": self.errors, "failed": self.failed, "cancelled": self.cancelled}

    def describe(self) -> str:
        """One line for people: `12 calls, 2 answered with an error, 1 failed, 3 repeated`."""
        parts = [
            f"{self.calls} {'call' if self.calls == 1 else 'calls'}",
            f"{self.errors} answered with an error" if self.errors else "",
            f"{self.failed} failed" if self.failed else "",
            f"{self.cancelled} cancelled" if self.cancelled else "",
            f"{self.repeated} repeated" if self.repeated else "",
        ]
        return ", ".join(filter(None, parts))


def _of_call(call: ToolCall) -> ToolFigures:
    return ToolFigures(
        calls=1,
        errors=call.outcome == "error",
        failed=call.outcome == "failed",
        cancelled=call.outcome == "cancelled",
        repeated=max(0, call.tries - 1),
        seconds=call.seconds,
    )


_ByTool = Mapping[str, Mapping[str, ToolFigures]]
"""Name of a server -> name of a tool -> the figures of its calls."""


def by_tool(calls: Iterable[ToolCall]) -> dict[str, dict[str, ToolFigures]]:
    """The figures of each tool, in the order of the first calls."""
    return tools_added_up({each.server: {each.tool: _of_call(each)}} for each in calls)


def tools_added_up(parts: Iterable[_ByTool]) -> dict[str, dict[str, ToolFigures]]:
    """The figures of several tasks, by server and tool."""
    found: dict[str, dict[str, ToolFigures]] = {}
    for part in parts:
        for server, tools in part.items():
            mine = found.setdefault(server, {})
            for tool, used in tools.items():
                mine[tool] = mine.get(tool, ToolFigures()) + used
    return found


def of_all_tools(found: _ByTool) -> ToolFigures:
    """The figures of all tools together."""
    return sum((used for tools in found.values() for used in tools.values()), ToolFigures())


_MOST_CALLS = 200
"""The number of calls that are kept of a task; the sums count all of them."""


class ToolCallLine(Document):
    """One call of a tool."""

    id: str = Field(description="The call's id, unique in the task.")
    t: float = Field(description="Seconds since the start of the task.")
    seconds: float = Field(description="Seconds that it took, with the waits between its tries.")
    step: int | None = Field(None, description="The step that made it, counted from 0; null: a channel made it.")
    server: str = Field(description="Name in the settings; `page` for a tool of the page.")
    tool: str
    effect: EffectClass
    tries: int = Field(1, description="How often it was sent, or was to be sent; 0: it was refused before.")
    outcome: ToolOutcome = Field(description="`error`: the tool answered that it failed; `failed`: there is no answer.")
    code: str = Field("", description="Code of its failure, if it has failed.")


def tool_call_lines(calls: Sequence[ToolCall], started: datetime) -> tuple[ToolCallLine, ...]:
    """A line for each of the first calls. `started`: when the task began."""
    return tuple(
        ToolCallLine(
            id=each.id,
            t=max(0.0, round((each.at - started).total_seconds(), 3)),
            seconds=round(each.seconds, 3),
            step=each.step,
            server=each.server,
            tool=each.tool,
            effect=each.effect,
            tries=each.tries,
            outcome=each.outcome,
            code=call_code(each),
        )
        for each in calls[:_MOST_CALLS]
    )


def call_code(call: ToolCall) -> str:
    """The code of the call's failure; empty if it was answered with a result."""
    return call.code or ("TOOL_FAILED" if call.outcome == "error" else "")


class ToolErrorDetails(Document):
    """What is known of a call that failed."""

    exit_code: int | None = Field(None, description="Exit code of the server's process, if its death ended the call.")
    stderr: str = Field("", description="End of the log of the server's process, if its death ended the call.")
    stdout: str = Field("", description="What the tool answered; empty if there was no answer.")
    execution_time_ms: int = Field(description="Milliseconds from the first try to the end, with the waits.")


class ToolErrorPayload(Document):
    """The call that failed, and how."""

    tool_call_id: str = Field(description="The call's id, as in `tool_calls` and in the trace.")
    tool: str = Field(description="Server and tool: `mail.get_code`.")
    arguments: dict[str, JsonValue] = Field({}, description="Arguments of the call; long ones are cut, and say so.")
    code: str
    message: str
    details: ToolErrorDetails
    retryable: bool = Field(description="Whether it may help to call it again.")
    max_retries: int = Field(description="How often the call could be repeated by the schedule of its server.")


class ToolErrorReport(Document):
    """The call of a tool behind the failure."""

    type: Literal["tool_error"] = "tool_error"
    payload: ToolErrorPayload
