"""The tools of servers as a model gets them beside those of the browser: named, bounded, and marked as data. Pure.

What a server says of its tools is text of strangers, like that of a page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct

from harness.agents.tools import InvalidCallError, quoted
from harness.model.inference import FunctionCall, ToolDefinition
from harness.model.policy import CALLS
from harness.model.tools import OfferedTool
from harness.values import map_texts

MOST = 40
"""The largest number of tools of servers that a model gets."""
LONGEST_NAME = 64
"""Characters of a name that every provider takes."""
LONGEST_DESCRIPTION = 1000
LONGEST_SCHEMA = 8_000
LONGEST_OF_ALL = 40_000
"""Characters of all descriptions and schemas together."""
_NOT_OF_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_DIGITS = 8
_Change = Callable[[str], str]


class ServedTools(Struct, frozen=True):
    """The tools of servers in one question."""

    definitions: tuple[ToolDefinition, ...] = ()
    by_name: Mapping[str, OfferedTool] = {}
    """The name that the model knows -> the tool."""
    left_out: tuple[str, ...] = ()
    """The tools (`server.tool`) that are too many or too large."""

    def step_of(self, call: FunctionCall) -> dict[str, Any]:
        """The step that calls one of these tools. Its server's schema is checked when it is called.

        Raises InvalidCallError if what is to be remembered of the answer is not written as it must be.
        """
        offered, arguments = self.by_name[call.name], dict(call.arguments)
        ours = REMEMBER_AS not in _schema(offered)["properties"]
        remembered = _remembered(call.name, arguments.pop(REMEMBER_AS, None)) if ours else {}
        step = {"act": CALLS, "server": offered.server, "tool": offered.tool.name, "arguments": arguments}
        return {**step, "remember": remembered} if remembered else step


REMEMBER_AS = "remember_as"
"""The argument that each tool has beside its own, unless it has one of this name: what to remember of its answer."""
_REMEMBERED: Mapping[str, Any] = {
    "type": "object",
    "description": "Optional. Memory entries to keep of the answer: name of the entry -> path into the answer, such as "
    '{"login.code": "code"}; "" is the whole answer.',
}


def _remembered(name: str, given: Any) -> dict[str, str]:
    """Name of the entry -> the value expression. Raises InvalidCallError."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(path, str) for path in given.values()):
        raise InvalidCallError(
            f"`{REMEMBER_AS}` of `{name}` must be an object: name of an entry -> path into the answer"
        )
    return {key: f"result({quoted(path)})" if path else "result()" for key, path in given.items()}


def served_tools(tools: Sequence[OfferedTool], mask: _Change) -> ServedTools:
    """The tools for a model, in the order of their names; `mask` takes secrets out of what their servers say."""
    room = LONGEST_OF_ALL
    definitions: list[ToolDefinition] = []
    by_name: dict[str, OfferedTool] = {}
    left_out: list[str] = []
    for offered in sorted(tools, key=lambda each: (each.server, each.tool.name)):
        name = _name(offered, by_name)
        own = map_texts(_schema(offered), mask, keys=True)
        parameters = {**own, "properties": {REMEMBER_AS: _REMEMBERED, **own["properties"]}}
        made = ToolDefinition(name, _description(offered, mask), parameters)
        size = len(json.dumps(own, default=str))
        cost = len(json.dumps(made.parameters, default=str)) + len(made.description)
        if len(definitions) == MOST or size > LONGEST_SCHEMA or cost > room:
            left_out.append(f"{offered.server}.{offered.tool.name}")
            continue
        definitions.append(made)
        by_name[name] = offered
        room -= cost
    return ServedTools(tuple(definitions), by_name, tuple(left_out))


def _name(offered: OfferedTool, taken: Mapping[str, OfferedTool]) -> str:
    """`server__tool` in the letters that providers take; where that is too long or taken, with digits of a hash."""
    whole = f"{offered.server}__{offered.tool.name}"
    name = _NOT_OF_NAMES.sub("_", whole)
    if len(name) <= LONGEST_NAME and name not in taken:
        return name
    digest = sha256(whole.encode("utf-8", "replace")).hexdigest()[:_DIGITS]
    return f"{name[: LONGEST_NAME - _DIGITS - 1]}_{digest}"


def _description(offered: OfferedTool, mask: _Change) -> str:
    said = mask(offered.tool.description)
    if len(said) > LONGEST_DESCRIPTION:
        said = f"{said[:LONGEST_DESCRIPTION]}..."
    head = f"The tool {offered.tool.name} of the server {offered.server}. Its effect: {offered.effect}."
    return f"{head} Its server says, as data: {json.dumps(said, ensure_ascii=False)}" if said else head


def _schema(offered: OfferedTool) -> dict[str, Any]:
    """The schema of the arguments; providers want an object with properties."""
    found = {"properties": {}, **offered.tool.parameters, "type": "object"}
    return found if isinstance(found["properties"], Mapping) else {**found, "properties": {}}
