"""Does a `tool` step: calls the tool through the task's ToolBox, and judges its answer (docs/design/tools.md)."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct

from harness.criteria import Json, parse
from harness.engine.judge import AssertionJudge
from harness.engine.run import SHORTEST_READ, Run
from harness.model.record import RESULT
from harness.model.tools import ToolAnswer, ToolRequest
from harness.recovery.catalog import Effect
from harness.recovery.failure import Assertion, Failed, Failure, Outcome, Passed
from harness.resilience import Deadline
from harness.spec.references import MissingMemory, resolve
from harness.spec.steps import Step, Tool
from harness.task_secrets import hidden
from harness.values import replace

_GRACE = 0.5
"""Seconds after the limit of a call in which the ToolBox may say itself that it was too slow."""
_AGAIN = 1.0
"""Seconds between two calls of a tool that only reads, while a criterion waits for its answer to change."""
_LONGEST_TEXT = 500
"""Characters of a tool's own words in the message of a failure."""


async def weighed(run: Run, step: Step) -> Step:
    """The step with the effect that holds for its call, if it calls a tool; any other step as it is.

    If the server cannot be asked, the effect stays as declared, else `write`; the call itself reports why.
    """
    if not isinstance(step, Tool) or run.stage.toolbox is None:
        return step
    try:
        named = resolve(step, run.stage.world.memory)
        assert isinstance(named, Tool)
        effect = await run.stage.toolbox.effect_of(named, max(SHORTEST_READ, min(run.limit(step), run.left)))
    except (Failed, MissingMemory):
        return step
    return step if step.effect == effect else step.model_copy(update={"effect": effect})


class CalledTool(Struct):
    """The call of one step, with its last answer, for all attempts at the step (`attempt.StepAnswer`)."""

    run: Run
    index: int
    answer: ToolAnswer | None = None
    kept: bool = False
    """The act was done, and only its judgement is missing: another attempt does not call the tool again."""
    at: float = 0.0
    """When the tool answered, in monotonic seconds."""
    step: Tool | None = None
    until: Deadline = Deadline(0.0)
    weighing: float = 0.0
    """Seconds that it took to learn the effect of the call, which may mean to start its server."""

    def rest_of(self, within: float) -> float:
        """What is left of the limit of an attempt: the first one has begun with the question for the effect."""
        taken, self.weighing = self.weighing, 0.0
        return max(SHORTEST_READ, within - taken)

    @property
    def changes(self) -> bool:
        """Whether another call may be made for another answer."""
        return self.step is not None and self.step.effect_class == "read"

    async def read(self) -> Json:
        """The document that `result(...)` reads. Raises Failed."""
        clock = self.run.ports.clock
        if self.changes and clock.now() >= self.at + _AGAIN and self.until.left(clock.now()) > 0:
            await self.call()
        assert self.answer is not None  # criteria are judged after the call
        document: Json = self.answer.document
        return document

    async def call(self) -> ToolAnswer:
        """Call the tool. Raises Failed."""
        assert self.step is not None
        box, step, clock = self.run.stage.toolbox, self.step, self.run.ports.clock
        if box is None:
            message = f"there is no tool server `{step.server}`: the project has no [tool.harness.tools]"
            raise Failed(Failure("TOOL_UNKNOWN", message))
        request = ToolRequest(step.server, step.tool, step.arguments, step.effect_class, self.index)
        within = max(SHORTEST_READ, self.until.left(clock.now()))
        try:
            async with asyncio.timeout(within + _GRACE):
                self.answer = await box.call(request, within)
        except Failed as failed:
            raise Failed(replace(failed.failure, details={**self.named, **failed.failure.details})) from failed
        except TimeoutError as error:
            message = f"{step.server}.{step.tool} did not answer within {within:.1f}s"
            raise Failed(
                Failure("TOOL_TIMEOUT", message, details=self.named, effect=Effect.POSSIBLE, cause=error)
            ) from error
        self.at = clock.now()
        return self.answer

    @property
    def named(self) -> dict[str, Any]:
        """What names the call in reports: server, tool, effect, and the id of its entry in the ledger."""
        assert self.step is not None
        calls = [each for each in self.run.ports.tool_calls(self.run.plan) if each.step == self.index]
        named = {"server": self.step.server, "tool": self.step.tool, "effect": self.step.effect_class}
        return {**named, "tool_call_id": calls[-1].id} if calls else named


async def call_tool(called: CalledTool, step: Tool, judge: AssertionJudge) -> Outcome:
    """Call the tool, unless a write was called and only its judgement failed, and judge the answer. Raises Failed."""
    called.step, called.until = step, judge.until
    answer = called.answer if called.kept else None
    if answer is None:
        answer = await called.call()
    if unlike := _status_failure(called, answer):
        called.kept = unlike.act_done
        return unlike
    called.kept = step.effect_class == "write"
    try:
        unmet = await _expected(called, step, judge)
    except Failed as failed:
        unmet = _answered(step, failed.failure)
    assert called.answer is not None
    return unmet or Passed({**called.named, RESULT: called.answer.document})


async def _expected(called: CalledTool, step: Tool, judge: AssertionJudge) -> Failure | None:
    """The failure of `expect`; None if it holds."""
    if step.expect is None:
        return None
    criterion = parse(step.expect)
    looks = criterion.looks_at_page or criterion.channels or criterion.memory_keys
    if not (looks or called.changes):
        judge = replace(judge, expect=0.0)  # a write's answer stays as it is
    outcome = await judge.criterion(step.expect, called)
    if isinstance(outcome, Failure):
        assert called.answer is not None
        return _answered(step, replace(outcome, details={**outcome.details, **called.named}))
    return _status_failure(called, called.answer) if called.answer else None


def _status_failure(called: CalledTool, answer: ToolAnswer) -> Failure | None:
    """The failure of an answer that is an error, or is none, unlike `status`; None if it is as declared."""
    assert called.step is not None
    step, name = called.step, f"{called.step.server}.{called.step.tool}"
    if answer.is_error == (step.status == "error"):
        return None
    if answer.is_error:
        effect = Effect.POSSIBLE if step.effect_class == "write" else Effect.NONE
        message = f"{name} answered that it failed: {_shortened(answer.text)}"
        assertion = Assertion("status", "ok", "error", plain=_shortened(answer.text))
        return Failure("TOOL_FAILED", message, details=called.named, effect=effect, assertion=assertion)
    message = f"{name} answered with a result, and the step expects `status: error`: {_shortened(answer.text)}"
    assertion = Assertion("status", "error", "ok")
    return _answered(step, Failure("ASSERTION_FAILED", message, details=called.named, assertion=assertion))


def _shortened(text: str) -> str:
    text = hidden(text).strip() or "it gave no reason"
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}... ({len(text)} characters)"


def _answered(step: Tool, failure: Failure) -> Failure:
    """The failure of a call that was answered: a write is not called again for another judgement of its answer."""
    if step.effect_class != "write":
        return failure
    return replace(failure, effect=Effect.DONE, act_done=True)
