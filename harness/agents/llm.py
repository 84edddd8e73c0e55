"""The agent `llm`: a language model chooses the steps (docs/agents.md).

It keeps nothing between proposals: each question is made from the records. So the task may go back to a checkpoint, and
another agent may have done a part of it.
"""

from __future__ import annotations

from typing import Any

from harness.agents.prompt import CloserLook, Situation, given_up, mapping_text, masking, prompt_of
from harness.agents.tools import DONE, GIVE_UP, LOOK, InvalidCallError, checked, served_tools, step_of
from harness.agents.view import PageView, settled
from harness.model.inference import FunctionCall, ModelClient, Prompt
from harness.model.plan import Plan
from harness.model.policy import AgentPolicy
from harness.model.ports import Observe
from harness.model.record import History
from harness.recovery.failure import Failed, Failure
from harness.values import replace

_OBSERVATIONS = ("aria",)
_FEWEST_CHARACTERS = 1000
_LONGEST_QUIET = 10
INVALID = "AGENT_INVALID_STEP"
GARBLED = "MODEL_GARBLED"
"""The answer of a model that is not what was asked for, also when it was asked again: the model is told."""
UNREADABLE = "unreadable"
"""The detail of such a failure that is the provider's: no model has said it, and none could answer better."""


class LlmAgent:
    """Asks a model for each step, by one call of a tool."""

    def __init__(
        self,
        models: ModelClient,
        policy: AgentPolicy,
        *,
        model: str,
        observation: str = "aria",
        max_chars: int = 24_000,
        looks: int = 3,
        quiet: float = 0.3,
    ) -> None:
        """`model`: name in `[tool.harness.models]`. `max_chars`: the largest snapshot. `looks`: closer looks a step.

        `quiet`: seconds; a page that has looked the same for so long is shown to the model. A page that still loads
        would cost a question, and no recording would fit the next time.
        """
        if not isinstance(model, str) or not model:
            raise ValueError(f"`model` must be the name of a model of [tool.harness.models], not {model!r}")
        if observation not in _OBSERVATIONS:
            raise ValueError(f"`observation` must be {' or '.join(map(repr, _OBSERVATIONS))}, not {observation!r}")
        if not _is_whole(max_chars) or max_chars < _FEWEST_CHARACTERS:
            raise ValueError(f"`max_chars` must be a whole number from {_FEWEST_CHARACTERS}, not {max_chars!r}")
        if not _is_whole(looks) or looks < 0:
            raise ValueError(f"`looks` must be a whole number from 0, not {looks!r}")
        if isinstance(quiet, bool) or not isinstance(quiet, int | float) or not 0 <= quiet <= _LONGEST_QUIET:
            raise ValueError(f"`quiet` must be seconds from 0 to {_LONGEST_QUIET}, not {quiet!r}")
        self._quiet = quiet
        self._models, self._policy = models, policy
        self._model, self._max_chars, self._looks = model, max_chars, looks

    async def propose(self, plan: Plan, history: History, observe: Observe) -> dict[str, Any] | None:
        """The next step; None when the model says that the goal is reached. Raises Failed."""
        seen = await (settled(observe, self._quiet) if history and self._quiet else observe())
        view, served = PageView(seen.aria), served_tools(seen.tools, masking(plan))
        now = Situation(plan, self._policy, history, seen, view, self._max_chars, self._looks, served=served)
        while True:
            prompt = prompt_of(now)
            call = await self._ask(prompt)
            try:
                if call.name in served.by_name:
                    return served.step_of(call)
                call = checked(call, {tool.name: tool for tool in prompt.tools})
                if call.name != LOOK:
                    return _proposal(call, now.view)
                now = await _looked(now, call, observe)
            except InvalidCallError as error:
                raise _invalid(f"{call.name} {mapping_text(call.arguments)}", str(error)) from error

    async def _ask(self, prompt: Prompt) -> FunctionCall:
        """The one call of the model's answer. Raises Failed."""
        try:
            answer = await self._models.ask(self._model, prompt)
        except Failed as failed:
            if failed.failure.code == GARBLED and not failed.failure.details.get(UNREADABLE):
                raise _invalid("an answer that is not what was asked for", failed.failure.message) from failed
            raise
        if not answer.calls:
            raise _invalid(repr(answer.text[:200]), "the answer calls no tool, and must call one")
        return answer.calls[0]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _invalid(proposal: str, why: str) -> Failed:
    return Failed(Failure(INVALID, why, details={"proposal": proposal}))


def _proposal(call: FunctionCall, view: PageView) -> dict[str, Any] | None:
    """What a call proposes. Raises InvalidCallError, and Failed if it gives up."""
    if call.name == DONE:
        return None
    if call.name == GIVE_UP:
        raise Failed(given_up(str(call.arguments["reason"])))
    return step_of(call, view)


async def _looked(now: Situation, call: FunctionCall, observe: Observe) -> Situation:
    """The situation after a closer look. Raises InvalidCallError, and Failed if the page cannot be read."""
    arguments = {name: value for name, value in call.arguments.items() if value not in (None, "", False)}
    if len(arguments) != 1:
        raise InvalidCallError("`look` needs exactly one of `find`, `ref`, `screenshot`")
    left = now.looks_left - 1
    if "screenshot" in arguments:
        seen = await observe(screenshot=True)
        return replace(now, seen=seen, view=PageView(seen.aria), picture=seen.screenshot, looks_left=left)
    most = now.max_chars // 4
    if text := arguments.get("find"):
        asked, found = f"Lines with {text!r}", now.view.find(str(text), most)
    else:
        asked, found = f"Inside of {arguments['ref']}", now.view.inside(str(arguments["ref"]), most)
    return replace(now, looks=(*now.looks, CloserLook(asked, found or "nothing")), looks_left=left)
