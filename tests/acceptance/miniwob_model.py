"""A model that does pages of MiniWoB++ by the rules of `miniwob_rules`, for the model server of the tests.

It reads the goal, the history and the snapshot in the question, as any model does, and answers with a call of a tool.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.acceptance.miniwob_rules import RULES, Steps, asked_on

GOAL = re.compile(r"Goal: Open (http://miniwob\.local/miniwob/(\S+?)\.html)")
DONE_STEP = re.compile(r"^\d+\. .* -> passed", re.MULTILINE)


def question(body: str) -> str:
    """All that a request tells the model."""
    told: list[str] = []
    for message in json.loads(body)["messages"]:
        content = message.get("content") or ""
        told += [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    return "\n".join(told)


class RulesModel:
    """Plans all steps of a page when it first sees it. It must be asked about one task of each page at a time."""

    def __init__(self) -> None:
        self._planned: dict[str, Steps] = {}

    def __call__(self, body: str, _: int) -> tuple[str, dict[str, Any]]:
        """The tool that it calls, and the arguments."""
        text = question(body)
        goal = GOAL.search(text)
        assert goal is not None, text
        url, name = goal.groups()
        history = text.rpartition("So far:")[2].partition("Snapshot:")[0]
        done = len(DONE_STEP.findall(history))
        if done == 0:
            return "browser_navigate", {"url": url}
        if done == 1:
            aria = text.rpartition("Snapshot:")[2].partition("Last reward")[0]
            self._planned[name] = RULES[name](asked_on(aria), aria)
        steps = self._planned[name]
        return _call(steps[done - 1]) if done <= len(steps) else ("done", {})


def _call(step: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    target = {"element": "the element of this selector", "target": step["selector"]}
    match step["act"]:
        case "type":
            return "browser_type", {**target, "text": step["value"]}
        case "select":
            return "browser_select_option", {**target, "values": [step["value"]]}
    return f"browser_{step['act']}", target
