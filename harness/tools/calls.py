"""One call of a tool of a server: checked, sent, and sent again only where that does no write twice."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from msgspec import Struct

from harness.model.tools import ToolAnswer, ToolRequest
from harness.recovery.failure import Failed
from harness.resilience import Clock, Deadline
from harness.resilience.breaker import Policy
from harness.resilience.events import Emit
from harness.resilience.retry import retry
from harness.resilience.verdict import RetryVerdict
from harness.tools.exchange import ToolProblem, ToolServerError
from harness.tools.server import Line, ToolServer
from harness.tools.verdicts import NEVER, VERDICTS, WAITS, CallFacts, failure_of, permanently, refused, verdict_of
from harness.values import replace

_UNKNOWN: Final = re.compile(r"(?i)\b(?:unknown|no such) tool\b|\btool\b.*\b(?:not found|unknown|does not exist)\b")
"""How servers say that they lack a tool in a result that says `is_error`."""


class ToolTry(Struct, frozen=True):
    """One try of a call, on its way to the server."""

    request: ToolRequest
    send: Callable[[], Awaitable[ToolAnswer]]
    """Sends the request and returns its answer. Raises ToolServerError."""
    within: float
    """Seconds until the answer must be there."""
    pid: int | None = None
    """The process of the server; None if this run has not started it."""
    intend_death: Callable[[], None] = lambda: None
    """To be called before the process is ended on purpose: its death is no crash then."""


Way = Callable[[ToolTry], Awaitable[ToolAnswer]]
"""What lies between a try and the server: the faults of a task. Raises ToolServerError, or Failed."""


async def straight(sending: ToolTry) -> ToolAnswer:
    """The way of a call that nothing strikes."""
    return await sending.send()


class CallTerms(Struct, frozen=True):
    """What the calls of one task need."""

    clock: Clock
    way: Way = straight
    meta: Mapping[str, str] = {}
    """It goes along with each call as `_meta`."""
    again: bool = True
    """Whether calls are tried again at all (RESILIENCE_ENABLED)."""


class ServerCall:
    """One call, with its tries. `run` it once."""

    def __init__(self, server: ToolServer, request: ToolRequest, terms: CallTerms, until: Deadline, emit: Emit) -> None:
        """`emit` is told of the tries after the first."""
        self._server = server
        self._request = request
        self._terms = terms
        self._until = until
        self._emit = emit
        self.tries = 0
        """How often the request was sent, or was to be sent."""
        self.acted = False
        """Whether one of the tries may have taken effect."""
        self.will_repeat = False
        """Whether the last error is one after which the call is tried again, if there is time."""

    async def run(self) -> ToolAnswer:
        """Return the answer, also one that says that the tool failed. Raises Failed."""
        again: Policy[ToolAnswer] = retry(
            WAITS,
            classify=self._judge,
            clock=self._terms.clock,
            emit=self._emit,
            name=f"tool {self._request.server}.{self._request.tool}",
            until=self._until,
            enabled=self._terms.again,
        )
        try:
            with self._server.in_use():
                return await again(self._once)()
        except ToolServerError as error:
            if self._server.phase.permanent:
                raise permanently(self._server, self._facts) from error
            raise failure_of(error, self._facts, self._server.catalogue.nearest(self._request.tool)) from error
        except Failed as failed:
            raise Failed(replace(failed.failure, effect=self._facts.effect)) from failed

    @property
    def _facts(self) -> CallFacts:
        return CallFacts(self._request, self.tries, self.acted)

    def _judge(self, error: BaseException) -> RetryVerdict:
        if not isinstance(error, ToolServerError):
            return NEVER.verdict(str(error))
        verdict = verdict_of(error, self._request.effect)
        if self._server.phase.permanent:
            verdict = replace(verdict, retryable=False)
        self.will_repeat = verdict.retryable
        return verdict

    async def _once(self) -> ToolAnswer:
        server, request = self._server, self._request
        if server.phase.permanent:
            server.heed_orders()
        if server.phase.permanent:
            raise permanently(server, self._facts)
        self.tries += 1
        try:
            line = await server.connected(self._left)
            await server.know_tools(self._left)
            if wrong := server.catalogue.misfit(request.tool, request.arguments):
                raise refused("TOOL_INVALID", request, f"its arguments do not fit its schema: {wrong}")
        except Failed:
            self.tries -= 1
            raise
        answer = await self._send(line)
        if answer.is_error and not server.catalogue.surely_has(request.tool) and _UNKNOWN.search(answer.text):
            raise ToolServerError(ToolProblem.UNKNOWN_TOOL, answer.text)
        return answer

    async def _send(self, line: Line) -> ToolAnswer:
        server, request = self._server, self._request
        within = min(server.settings.limit_of(request.tool), self._left)
        if within <= 0:
            raise ToolServerError(ToolProblem.UNREACHED, "no time was left to send the call")
        with server.call_over(line) as connection:

            async def send() -> ToolAnswer:
                return await connection.call(request.tool, request.arguments, within, self._terms.meta)

            try:
                answer = await self._terms.way(ToolTry(request, send, within, connection.pid, server.intend_death))
            except ToolServerError as error:
                self.acted = self.acted or VERDICTS[error.problem].acted
                raise
        server.answered(line)
        return answer

    @property
    def _left(self) -> float:
        return self._until.left(self._terms.clock.now())
