"""Turns a move into a call of one of the offered tools: the arguments are filled in as the tool's schema names them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.demo.models.brain import Move
from harness.demo.models.question import Function, Question, Reply

_TOOLS: Final[Mapping[str, Sequence[str]]] = {
    "open": ("browser_navigate", "navigate", "open"),
    "click": ("browser_click", "click"),
    "check": ("browser_check", "browser_click", "check", "click"),
    "download": ("browser_download", "browser_click", "download", "click"),
    "type": ("browser_type", "type", "fill"),
    "select": ("browser_select_option", "select"),
    "upload": ("browser_file_upload", "browser_upload", "upload"),
    "press": ("browser_press_key", "press"),
    "wait": ("browser_wait_for", "wait"),
    "wait_a_second": ("browser_wait_for", "wait"),
    "look": ("look",),
    "remember": ("remember",),
    "done": ("done", "task_finish", "finish"),
    "give_up": ("give_up", "task_give_up"),
}
"""Verb -> tools that can do it, the fittest first."""


def reply(move: Move, question: Question) -> Reply:
    """The move as a call; in words only, if no tool of the request can do it."""
    offered = {function.name: function for function in question.functions}
    if move.verb == "call":
        return _called(move, offered)
    tool = next((offered[name] for name in _TOOLS[move.verb] if name in offered), None)
    if tool is None and move.verb == "look":
        return reply(Move("wait_a_second", move.text), question)
    return Reply(move.text) if tool is None else Reply(move.text, tool.name, _arguments(move, tool))


def _called(move: Move, offered: Mapping[str, Function]) -> Reply:
    """The call of a tool of a server; the model gives up on one that it is not offered."""
    name = move.value.replace(".", "__", 1)
    if name in offered:
        return Reply(move.text, name, json.loads(move.arguments or "{}"))
    reason = {"reason": f"I am not offered {move.value}."}
    give_up = next((each for each in _TOOLS["give_up"] if each in offered), None)
    return Reply(reason["reason"], give_up, reason if give_up else {})


def _arguments(move: Move, tool: Function) -> dict[str, Any]:
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    values = _values(move)
    found = {name: _fitting(values[name], schema) for name, schema in properties.items() if values.get(name)}
    for name in tool.parameters.get("required", ()):
        if name not in found and name not in values:
            found[name] = _any(properties.get(name, {}))
    return found


def _values(move: Move) -> dict[str, str]:
    """Argument -> value, under every name by which tools ask for it."""
    values = dict.fromkeys(("ref", "target", "selector"), move.ref) | {"element": move.element}
    if move.verb == "wait_a_second":
        return values | {"time": "1", "seconds": "1"}
    if move.verb == "remember":
        return values | dict.fromkeys(("name", "key"), move.key)
    names = ("text", "value", "values", "url", "key", "paths", "path", "find", "reason", "answer", "summary")
    return values | dict.fromkeys(names, move.value or (move.text if move.verb == "done" else ""))


def _fitting(value: str, schema: Mapping[str, Any]) -> Any:
    kinds = _kinds(schema)
    if "string" in kinds or not kinds:
        return value
    if "array" in kinds:
        return [value]
    return float(value) if value.replace(".", "", 1).isdecimal() else value


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    """The JSON types that a schema allows, also those of its alternatives."""
    kind = schema.get("type", ())
    kinds = {kind} if isinstance(kind, str) else set(kind)
    return kinds.union(*(_kinds(each) for each in schema.get("anyOf", ())))


def _any(schema: Mapping[str, Any]) -> Any:
    """A value for an argument that must be given and that the move says nothing about."""
    if schema.get("enum"):
        return schema["enum"][0]
    if "default" in schema:
        return schema["default"]
    blanks: dict[str, Any] = {"array": [], "object": {}, "boolean": False, "integer": 0, "number": 0}
    return next((blanks[kind] for kind in sorted(_kinds(schema)) if kind in blanks), "")
