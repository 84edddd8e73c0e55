"""The tools of a task whose steps are only tried: those that write are not called, since nobody has agreed to it."""

from __future__ import annotations

from harness.model.ports import ToolBox
from harness.model.tools import PAGE, OfferedTool, ToolAnswer, ToolRequest
from harness.recovery.failure import Failed, Failure
from harness.spec.steps import EffectClass, Tool

HELD_BACK = "POLICY_WRITE"
_AGREE = "With `--yes` the command calls tools that write, too. Of one that reads, `effects` of its server can say so."


class ReadingToolBox:
    """A toolbox (`ports.ToolBox`) that calls no tool of a server that writes."""

    def __init__(self, tools: ToolBox) -> None:
        self._tools = tools

    def offered(self) -> tuple[OfferedTool, ...]:
        """The tools that agents may call."""
        return self._tools.offered()

    async def learn(self, within: float) -> None:
        """Wait until the tools that agents are offered are known."""
        await self._tools.learn(within)

    async def effect_of(self, step: Tool, within: float) -> EffectClass:
        """The effect of the call."""
        return await self._tools.effect_of(step, within)

    async def call(self, request: ToolRequest, within: float) -> ToolAnswer:
        """Call the tool, if it does not write. Raises Failed."""
        if request.effect == "write" and request.server != PAGE:  # what a page sends is judged by its host
            name = f"{request.server}.{request.tool}"
            raise Failed(Failure(HELD_BACK, f"The tool {name} writes, so it was not called", advice=_AGREE))
        return await self._tools.call(request, within)
