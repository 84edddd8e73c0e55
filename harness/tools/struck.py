"""What the declared faults of tools do to one try of a call, whatever the transport."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol, runtime_checkable

from msgspec import Struct

from harness.model.tools import ToolAnswer
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock, Deadline
from harness.spec.faults import ToolAnswerLost, ToolError, ToolFault, ToolHangs, ToolKilled, ToolRefused, ToolSlow
from harness.tools.exchange import ToolProblem, ToolServerError

WRITTEN = 0.05
"""Seconds after which a request has surely been written to a server that is stopped."""
Send = Callable[[], Awaitable[ToolAnswer]]
"""Sends the request of this try and returns its answer. Raises ToolServerError."""


@runtime_checkable
class StrikesTools(Protocol):
    """The faults of a task, as they strike its calls of tools (`faults.injector.FaultInjector`)."""

    def strike_tool(self, server: str, tool: str, step: int) -> ToolFault | None:
        """Count a try of a call in a step; return the fault that strikes it."""
        ...


class NoToolFaults:
    """The faults of a task without any."""

    def strike_tool(self, server: str, tool: str, step: int) -> ToolFault | None:
        """No call is struck."""


class Try(Struct, frozen=True):
    """One try of a call, as a fault finds it."""

    send: Send
    within: float
    """Seconds until the answer must be there."""
    clock: Clock
    pid: int | None = None
    """The process of the server; None if it is not of this run."""


async def send_struck(fault: ToolFault | None, one: Try) -> ToolAnswer:
    """Send the request, as far as the fault lets it, and return what comes back. Raises ToolServerError."""
    match fault:
        case None:
            return await one.send()
        case ToolError(message=message):
            return ToolAnswer(message, is_error=True)
        case ToolRefused():
            raise ToolServerError(ToolProblem.UNREACHED, f"The connection was refused, {_injected(fault)}")
        case ToolKilled():
            return await _send_to_the_killed(fault, one)
        case ToolSlow(seconds=seconds):
            answer, ended = await _withheld(fault, one, seconds)
            return ToolAnswer(answer.text, answer.structured, answer.is_error, ended)
        case ToolHangs(seconds=seconds):
            await _withheld(fault, one, seconds)
        case ToolAnswerLost():
            await one.send()
    raise ToolServerError(ToolProblem.LOST, f"The connection ended before the answer came, {_injected(fault)}")


async def _withheld(fault: ToolFault, one: Try, seconds: float) -> tuple[ToolAnswer, float]:
    """The answer, so many seconds late, and the seconds that it took. Raises ToolServerError when the limit is over."""
    began = one.clock.now()
    deadline = Deadline.after(one.within, began)
    answer = await one.send()
    in_time = deadline.allows(seconds, one.clock.now())
    await one.clock.sleep(deadline.clip(seconds, one.clock.now()))
    if not in_time:
        text = f"There was no answer within {one.within:g} s, {_injected(fault)}"
        raise ToolServerError(ToolProblem.SLOW, text)
    return answer, one.clock.now() - began


async def _send_to_the_killed(fault: ToolFault, one: Try) -> ToolAnswer:
    """Send the request to a server that is stopped, so that it does nothing, and kill it. Raises ToolServerError."""
    if one.pid is None:
        advice = f"Fix the fault `{fault.kind}` ({fault.source or 'injected from Python'}); the step is not wrong."
        message = f"fault `{fault.kind}`: `{fault.server}` has no process that this run could kill"
        raise Failed(Failure("INVALID_INPUT", message, advice=advice))
    _signal_group(one.pid, signal.SIGSTOP)
    sent = asyncio.ensure_future(one.send())
    try:
        await one.clock.sleep(WRITTEN)
        _signal_group(one.pid, signal.SIGKILL)
        return await sent
    finally:
        sent.cancel()  # only a cancellation finds it under way
        _signal_group(one.pid, signal.SIGKILL)


def _signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to the process and its children: a launcher such as `npx` is not the server itself."""
    with suppress(ProcessLookupError):
        group = os.getpgid(pid)
        if group == os.getpgrp():
            os.kill(pid, number)
        else:
            os.killpg(group, number)


def _injected(fault: ToolFault) -> str:
    return f"injected by fault {fault.title}"
