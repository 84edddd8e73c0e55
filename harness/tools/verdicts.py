"""What the failure of a call means: its code, whether it may have taken effect, and whether the call is sent again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from msgspec import Struct

from harness.model.tools import ToolRequest, ToolState
from harness.recovery.catalog import Effect
from harness.recovery.failure import Circumstances, Failed, Failure
from harness.resilience.retry import schedule
from harness.resilience.verdict import KINDS, Kind, RetryVerdict
from harness.spec.problems import did_you_mean, join_or
from harness.spec.step_base import EffectClass
from harness.tools.exchange import ServerDied, ToolProblem, ToolServerError
from harness.tools.server import ToolServer

WAITS: Final = schedule("tool-server")
"""The waits before the tries after the first: 0.5, 1 and 2 s."""


class ToolVerdict(Struct, frozen=True):
    """A row of the table of failed calls (docs/design/tools.md): what holds for every call that fails in one way."""

    code: str
    kind: Kind
    acted: bool = False
    """Whether the call may have taken effect: then a `write` is not sent again."""


VERDICTS: Final[Mapping[ToolProblem, ToolVerdict]] = {
    ToolProblem.UNREACHED: ToolVerdict("TOOL_UNAVAILABLE", KINDS["connection refused"]),
    ToolProblem.LOST: ToolVerdict("TOOL_UNAVAILABLE", KINDS["connection lost"], acted=True),
    ToolProblem.SLOW: ToolVerdict("TOOL_TIMEOUT", KINDS["network timeout"], acted=True),
    ToolProblem.BUSY: ToolVerdict("TOOL_UNAVAILABLE", KINDS["service unavailable"]),
    ToolProblem.UNAUTHORIZED: ToolVerdict("TOOL_AUTH", KINDS["unauthorized"]),
    ToolProblem.FORBIDDEN: ToolVerdict("TOOL_AUTH", KINDS["forbidden"]),
    ToolProblem.UNKNOWN_TOOL: ToolVerdict("TOOL_UNKNOWN", KINDS["not found"]),
    ToolProblem.INVALID_ARGUMENTS: ToolVerdict("TOOL_INVALID", KINDS["invalid request"]),
    ToolProblem.GARBLED: ToolVerdict("TOOL_PROTOCOL", KINDS["validation failed"], acted=True),
}


def verdict_of(error: ToolServerError, effect: EffectClass) -> RetryVerdict:
    """Whether the call is sent again after this error, by the effect of the call."""
    rule = VERDICTS[error.problem]
    again = rule.kind.retryable and not (rule.acted and effect == "write")
    delay = error.retry_after if again else None
    return RetryVerdict(rule.kind.category, again, error.message, delay, rule.kind.max_retries, rule.code)


NEVER: Final = KINDS["unknown"]
"""The kind of what no other try can change."""


class CallFacts(Struct, frozen=True):
    """What a failure says of the call that it ends."""

    request: ToolRequest
    tries: int
    acted: bool
    """Whether one of the tries may have taken effect."""

    @property
    def details(self) -> dict[str, Any]:
        return {"server": self.request.server, "tool": self.request.tool, "tries": self.tries}

    @property
    def effect(self) -> Effect:
        return Effect.POSSIBLE if self.acted else Effect.NONE


def failure_of(error: ToolServerError, facts: CallFacts, near: str) -> Failed:
    """The failure of a call that no further try has helped. `near`: what may be meant by an unknown tool, in words."""
    request, notes = facts.request, "; ".join(getattr(error, "__notes__", ()))
    rule = VERDICTS[error.problem]
    more = f" ({near})" if error.problem is ToolProblem.UNKNOWN_TOOL else ""
    tried = f", also when it was tried again ({facts.tries} tries)" if facts.tries > 1 else ""
    message = f"Tool `{request.server}.{request.tool}`: {error.message}{more}{tried}{f'; {notes}' if notes else ''}"
    details = facts.details | {"problem": error.problem.value} | _of_death(error.died)
    advice = _ADVICE.get(error.problem, "").format(server=request.server)
    failure = Failure(
        rule.code,
        message,
        details=details,
        retry_after=error.retry_after,
        effect=facts.effect,
        cause=error,
        advice=advice,
    )
    return Failed(failure)


_ADVICE: Final[Mapping[ToolProblem, str]] = {
    ToolProblem.FORBIDDEN: "The server accepts the credentials, and they do not allow this call: give them the right "
    "that the message names (`headers` or `environment` in [tool.harness.tools.{server}]), or leave the call out."
}


def _of_death(died: ServerDied | None) -> dict[str, Any]:
    return {} if died is None else {"exit_code": died.exit_code, "stderr": died.log_end}


_MENDED_BY: Final[Mapping[ToolState, str]] = {
    ToolState.PERMANENTLY_FAILED: "Look at its log: `harness tools logs {server}`. Mend it, then order a restart: "
    "`harness tools restart {server}`.",
    ToolState.REQUIRES_REAUTH: "Give it valid credentials (`headers` or `environment` in "
    "[tool.harness.tools.{server}]) and run again; for a running run: `harness tools restart {server}`.",
    ToolState.STOPPED: "The run is ending.",
}


def permanently(server: ToolServer, facts: CallFacts) -> Failed:
    """The failure of a call of a server that only a person can mend: it is not tried again."""
    state, name = server.state, server.name
    if state is ToolState.REQUIRES_REAUTH:
        code, what = "TOOL_AUTH", "does not accept the credentials"
    elif state is ToolState.PERMANENTLY_FAILED:
        code, what = "TOOL_UNAVAILABLE", "has crashed three times within five minutes, and is not started again"
    else:
        code, what = "TOOL_UNAVAILABLE", "is not used any more"
    last = f": {server.last_error}" if server.last_error else ""
    message = f"Tool server `{name}` is {state}: it {what}{last}"
    died = server.last_death if state is ToolState.PERMANENTLY_FAILED else None
    details = facts.details | {"state": state.value} | _of_death(died)
    advice = _MENDED_BY[state].format(server=name)
    failure = Failure(code, message, details=details, effect=facts.effect, advice=advice)
    return Failed(failure.also(Circumstances(permanent=True)))


def refused(code: str, request: ToolRequest, why: str, advice: str = "") -> Failed:
    """The failure of a call that was not sent."""
    details = CallFacts(request, 0, acted=False).details
    return Failed(
        Failure(code, f"Tool `{request.server}.{request.tool}` was not called: {why}", details=details, advice=advice)
    )


def no_server(name: str, tool: str, names: Collection[str]) -> Failed:
    """The failure of a call of a server that the settings do not name."""
    known = did_you_mean(name, names) or (f"known: {join_or(sorted(names))}" if names else "there is none")
    message = f"`{name}.{tool}` was not called: there is no server `{name}` in [tool.harness.tools] ({known})"
    return Failed(Failure("TOOL_UNKNOWN", message, details={"server": name, "tool": tool}))
