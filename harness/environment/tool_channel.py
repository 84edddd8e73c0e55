"""A channel that is a tool of a server: one tool returns the document, and another one may replace it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from harness.environment.channel import Channel, filled, refusal, rejected, unreadable
from harness.model.channel_settings import ChannelSettings
from harness.model.tools import ToolAnswer, ToolRequest
from harness.recovery.failure import Circumstances, Failed
from harness.spec.steps import EffectClass
from harness.task_secrets import hidden

CallTool = Callable[[ToolRequest, float], Awaitable[ToolAnswer]]
"""Calls a tool within so many seconds. Raises Failed."""
_WORLD = "{world}"
"""What stands in `arguments` for the id of the world."""
_AWAY = ("TOOL_UNAVAILABLE", "TOOL_TIMEOUT", "CIRCUIT_OPEN")
"""Failures of a server that was not reached; any other is an answer."""


class ToolChannel(Channel):
    """`tool` reads, and `restore` replaces the document, which is its argument `restore_argument`.

    Both get the `arguments` of the settings. Reading is a `read`, and replacing is `idempotent`, by declaration.
    """

    def __init__(self, name: str, settings: ChannelSettings, call: CallTool) -> None:
        super().__init__(name)
        self._settings = settings
        self._call = call

    async def read(self, world: str) -> Any:
        tool = str(self._settings.tool)
        answer = await self._answer(tool, "read", self._arguments(world))
        document = answer.document
        if answer.structured is None and document == answer.text:
            raise rejected(self._name, f"{tool} did not answer with JSON: {hidden(answer.text)[:200]!r}")
        return document

    async def writable(self) -> bool:
        return self._settings.restore is not None

    async def reset(self, world: str) -> None:  # noqa: ARG002
        raise refusal(self._name, "a channel of a tool cannot be reset; declare in `reset` of [tool.harness] what can")

    async def _replace(self, world: str, document: Any) -> None:
        if self._settings.restore is None:
            raise refusal(self._name, "name in its `restore` the tool that replaces the document")
        copy = json.loads(json.dumps(document))
        arguments = {**self._arguments(world), self._settings.restore_argument: copy}
        await self._answer(self._settings.restore, "idempotent", arguments)

    async def _answer(self, tool: str, effect: EffectClass, arguments: Mapping[str, Any]) -> ToolAnswer:
        server, _, name = tool.partition(".")
        try:
            answer = await self._call(ToolRequest(server, name, arguments, effect), self._settings.timeout)
        except Failed as failed:
            failure = failed.failure
            raised = unreadable if failure.code in _AWAY else rejected
            advice = f". {failure.advice}" if failure.advice else ""
            refused = raised(self._name, f"{tool}: {failure.message} ({failure.code}){advice}", failed)
            if not failure.retryable:
                refused.failure = refused.failure.also(Circumstances(permanent=True))
            raise refused from failed
        if answer.is_error:
            raise rejected(self._name, f"{tool} answered that it failed: {hidden(answer.text)[:500]}")
        return answer

    def _arguments(self, world: str) -> dict[str, Any]:
        given: dict[str, Any] = filled(self._settings.arguments, lambda text: text.replace(_WORLD, world))
        return given
