"""The ledger of a task's calls of tools: each call has an entry from its begin, and events at its begin and end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from harness.model.events import Event, ToolAnswered, ToolCalled
from harness.model.plan import Plan
from harness.model.tools import ToolAnswer, ToolCall, ToolRequest
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock
from harness.task_secrets import hidden
from harness.tools.verdicts import WAITS
from harness.values import replace

LONGEST_MESSAGE = 2_000
"""Characters of the text of a tool that says that it failed which the entry keeps as its message."""


class CallEntry:
    """What is known of a call when it ends."""

    def __init__(self) -> None:
        self.answer: ToolAnswer | None = None
        self.failure: Failure | None = None
        self.tries = 0
        self.will_repeat = False
        """Whether its last error is one after which it is tried again, if there is time."""

    def facts(self) -> dict[str, Any]:
        """The fields of the ledger's entry that the end of the call decides."""
        told: dict[str, Any] = {"tries": self.tries}
        if (failure := self.failure) is not None:
            details = failure.details
            told |= {"outcome": "failed", "code": failure.code, "message": failure.message}
            told |= {"exit_code": details.get("exit_code"), "stderr": details.get("stderr", "")}
            return told | {"retryable": self.will_repeat, "max_retries": WAITS.retries if self.will_repeat else 0}
        if (answer := self.answer) is None:
            return told
        if answer.is_error:
            told |= {"code": "TOOL_FAILED", "message": hidden(answer.text)[:LONGEST_MESSAGE]}
        return told | {"outcome": "error" if answer.is_error else "answered", "result": answer.document}


class ToolLedger:
    """The calls of one task, in the order in which they began."""

    def __init__(self, plan: Plan, clock: Clock, emit: Callable[[Event], None]) -> None:
        self._plan = plan
        self._clock = clock
        self._emit = emit
        self._calls: list[ToolCall] = []

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(self._calls)

    @contextmanager
    def entry(self, request: ToolRequest) -> Iterator[CallEntry]:
        """The entry of a call that begins now and ends with this; without an answer or failure it was cancelled."""
        self._plan.learned.learn_named(request.arguments)
        began, at, place, entry = self._clock.now(), self._clock.wall(), len(self._calls), CallEntry()
        call = ToolCall(
            id=f"tool-{place + 1}",
            server=request.server,
            tool=request.tool,
            arguments=request.arguments,
            effect=request.effect,
            step=request.step,
            at=at,
            seconds=0.0,
            tries=0,
            outcome="cancelled",
        )
        self._calls.append(call)
        self._emit(ToolCalled(self._plan, request.server, request.tool, request.step, at))
        try:
            yield entry
        except Failed as failed:
            entry.failure = failed.failure
            raise
        finally:
            if entry.answer is not None:
                self._plan.learned.learn_named(entry.answer.document)
            ended = replace(call, seconds=round(self._clock.now() - began, 3), **entry.facts())
            self._calls[place] = ended
            self._emit(ToolAnswered(self._plan, ended))
