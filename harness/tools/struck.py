"""What the declared faults of tools do to one try of a call, whatever the transport."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import Protocol, runtime_checkable

from msgspec import Struct

from harness.model.tools import ToolAnswer
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock, Deadline
from harness.spec.faults import ToolAnswerLost, ToolErrorAnswer, ToolFault, ToolHangs, ToolKilled, ToolRefused, ToolSlow
from harness.tools.calls import ToolTry
from harness.tools.exchange import ToolProblem, ToolServerError
from harness.values import replace

_WRITTEN = 0.05
"""Seconds after which a request has surely been written to a server that is stopped."""


@runtime_checkable
class StrikesTools(Protocol):
    """The faults of a task, as they strike its calls of tools (`faults.injector.FaultInjector`)."""

    def strike_tool(self, server: str, tool: str, step: int) -> ToolFault | None:
        """Count a try of a call in a step; return the fault that strikes it."""


class StruckWay(Struct, frozen=True):
    """The way of a task's calls that its faults may strike (`calls.Way`)."""

    faults: StrikesTools
    clock: Clock

    async def __call__(self, sending: ToolTry) -> ToolAnswer:
        """Send the request, as far as a fault lets it. Raises ToolServerError, or Failed for a fault that cannot be."""
        request = sending.request
        if request.step is None:
            return await sending.send()
        fault = self.faults.strike_tool(request.server, request.tool, request.step)
        return await send_struck(fault, sending, self.clock)


async def send_struck(fault: ToolFault | None, sending: ToolTry, clock: Clock) -> ToolAnswer:
    """Send the request, as far as the fault lets it, and return what comes back. Raises ToolServerError."""
    match fault:
        case None:
            return await sending.send()
        case ToolErrorAnswer(message=message):
            return ToolAnswer(message, is_error=True)
        case ToolRefused():
            raise _lost(fault, sending, ToolProblem.UNREACHED, "the connection was refused")
        case ToolKilled():
            return await _send_to_the_killed(fault, sending, clock)
        case ToolSlow(seconds=seconds):
            answer, ended = await _withheld(fault, sending, clock, seconds)
            return replace(answer, seconds=ended)
        case ToolHangs(seconds=seconds):
            await _withheld(fault, sending, clock, seconds)
        case ToolAnswerLost():
            await sending.send()
    raise _lost(fault, sending, ToolProblem.LOST, "the connection ended before the answer came")


async def _withheld(fault: ToolFault, sending: ToolTry, clock: Clock, seconds: float) -> tuple[ToolAnswer, float]:
    """The answer, so many seconds late, and the seconds that it took. Raises ToolServerError when the limit is over."""
    began = clock.now()
    deadline = Deadline.after(sending.within, began)
    answer = await sending.send()
    in_time = deadline.allows(seconds, clock.now())
    await clock.sleep(deadline.clip(seconds, clock.now()))
    if not in_time:
        text = f"it did not answer within {sending.within:.3g} s, {_injected(fault)}"
        raise ToolServerError(ToolProblem.SLOW, text)
    return answer, clock.now() - began


async def _send_to_the_killed(fault: ToolFault, sending: ToolTry, clock: Clock) -> ToolAnswer:
    """Send the request to a server that is stopped, so that it does nothing, and kill it. Raises ToolServerError."""
    if sending.pid is None:
        advice = f"Fix the fault `{fault.kind}` ({fault.source or 'injected from Python'}); the step is not wrong."
        message = f"fault `{fault.kind}`: `{fault.server}` has no process that this run could kill"
        raise Failed(Failure("INVALID_INPUT", message, advice=advice))
    sending.intend_death()
    _signal_group(sending.pid, signal.SIGSTOP)
    sent = asyncio.ensure_future(sending.send())
    try:
        try:
            await clock.sleep(_WRITTEN)
        finally:
            _signal_group(sending.pid, signal.SIGKILL)
        return await sent
    except ToolServerError as error:
        error.add_note(_injected(fault))
        raise
    finally:
        sent.cancel()  # only a cancellation finds it under way


def _signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to the process and its children: a launcher such as `npx` is not the server itself."""
    with suppress(ProcessLookupError):
        group = os.getpgid(pid)
        if group == os.getpgrp():
            os.kill(pid, number)
        else:
            os.killpg(group, number)


def _lost(fault: ToolFault, sending: ToolTry, problem: ToolProblem, what: str) -> ToolServerError:
    """The error of a connection that ends because of a fault: what follows for the server is no crash."""
    sending.intend_death()
    return ToolServerError(problem, f"{what}, {_injected(fault)}")


def _injected(fault: ToolFault) -> str:
    return f"injected by fault {fault.title}"
