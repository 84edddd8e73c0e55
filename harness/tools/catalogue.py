"""The tools of one server as it has listed them last, their effects, and whether arguments fit a tool's schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.model.tool_settings import ToolServerSettings
from harness.model.tools import ToolDescription, ToolHints
from harness.spec.problems import did_you_mean, join_or
from harness.spec.steps import EffectClass
from harness.tools.schemas import misfit


class Catalogue:
    """It is never emptied: a list that cannot be had, or has nothing in it, leaves the old one, which is `stale`."""

    def __init__(self) -> None:
        self._tools: dict[str, ToolDescription] = {}
        self.known = False
        """Whether the server has ever listed its tools."""
        self.stale = False
        """Whether the server was away since it has listed its tools."""

    @property
    def tools(self) -> tuple[ToolDescription, ...]:
        return tuple(self._tools.values())

    def take(self, tools: tuple[ToolDescription, ...]) -> None:
        """Take what the server lists now."""
        if self._tools and not tools:
            return
        self._tools = {tool.name: tool for tool in tools}
        self.known, self.stale = True, False

    def surely_has(self, name: str) -> bool:
        """Whether the server has listed the tool since it was away."""
        return name in self._tools and not self.stale

    def nearest(self, name: str) -> str:
        """What may be meant by a name that the server does not know, in words."""
        if not self._tools:
            return "it lists none"
        return did_you_mean(name, self._tools) or f"it has {join_or(self._tools)}"

    def misfit(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What is wrong with the arguments by the schema of the tool; empty if nothing is known to be.

        A list that is stale proves nothing: then the server itself is asked.
        """
        tool = self._tools.get(name)
        return "" if tool is None or self.stale else misfit(tool.parameters, arguments)


def find(tools: Iterable[ToolDescription], name: str) -> ToolDescription | None:
    """The tool of that name, if it is listed."""
    return next((tool for tool in tools if tool.name == name), None)


def effect_of(tool: str, hints: ToolHints, settings: ToolServerSettings) -> EffectClass:
    """The effect of a tool of a named server: by the settings, else by the server's hints, else `write`."""
    if declared := settings.declared_effect(tool):
        return declared
    if hints.read_only:
        return "read"
    return "idempotent" if hints.idempotent else "write"


def effect_in_page(
    tool: str, hints: ToolHints, settings: ToolServerSettings, declared: EffectClass | None
) -> EffectClass:
    """The effect of a tool of the page, which is not trusted: what it says of its tools may only raise the effect."""
    if hints.consequential:
        return "write"
    return declared or settings.declared_effect(tool) or "write"
