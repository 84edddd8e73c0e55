"""The way of an agent through a task, from its trajectory: what it saw, asked, was told, and did; as text and page."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from typing import Any

from harness.model.consumption import ModelFigures, is_unpriced, money_text, tokens_text
from harness.model.inference import ModelCall
from harness.model.policy import CALLS
from harness.model.trajectory import SaidAnswer, TrajectoryChoice, TrajectoryStep
from harness.reporting.files import shown_path, visible
from harness.reporting.still_page import row, still_page
from harness.reporting.trajectory import Trajectory
from harness.reporting.words import shortened
from harness.spec.names import how_many

_Choice = TrajectoryStep | TrajectoryChoice
_NARROWEST = 40
MOST_CHOICES = 300
"""The number of choices on the page: the last ones, since the task ended there. The file has all."""
_LINE = 400
"""Characters of a line on the page."""
_STYLE = "td div{overflow-wrap:anywhere}"


def way_text(found: Trajectory, width: int) -> str:
    """The whole way."""
    return "\n".join(visible(line).rstrip() for line in _lines(found, max(width, _NARROWEST)))


def _lines(found: Trajectory, width: int) -> Iterator[str]:
    task = found.task
    agents = " -> ".join(dict.fromkeys([task.agent, *(each.agent for each in found.choices)]))
    code = f" with {task.code}" if task.code else ""
    yield f"{task.task_id} {task.final_state}{code} in {task.seconds:.1f} s, run {task.run}: {agents}"
    calls = [call for each in found.choices for call in each.asked]
    if calls:
        yield f"  models: {ModelFigures.of(calls).describe()}"
    for choice in found.choices:
        yield f"  step {choice.index}  {shortened(_chosen(choice), width - 12)}"
        yield from (f"      {shortened(line, width - 6)}" for line in _how(choice))
    yield f"  trajectory: {shown_path(found.file)}"


def way_page(found: Trajectory) -> str | None:
    """The same as a page with a row for each choice; None for a trajectory without one."""
    return still_page("Agent's way", way_table(found), _STYLE) if found.choices else None


def way_table(found: Trajectory) -> str:
    """The same as HTML with a row for each choice; empty for a trajectory without one."""
    if not found.choices:
        return ""
    shown = found.choices[-MOST_CHOICES:]
    of_them = f", the last {MOST_CHOICES} of them shown" if len(shown) < len(found.choices) else ""
    models = ModelFigures.of(call for each in found.choices for call in each.asked)
    asked = f"; models: {models.describe()}" if models.calls else ""
    head = "".join(f"<th>{name}</th>" for name in ("step", "at", "what the agent did", "what it saw, asked and said"))
    rows = "".join(_page_row(each, (each.at - found.choices[0].at).total_seconds()) for each in shown)
    told = html.escape(f"{how_many(len(found.choices), 'choice')}{of_them}{asked}")
    return f"<p>{told}</p>\n<table><tr>{head}</tr>\n{rows}</table>\n"


def _page_row(choice: _Choice, at: float) -> str:
    how = "".join(f"<div>{html.escape(visible(shortened(line, _LINE)))}</div>" for line in _how(choice))
    did = visible(shortened(_chosen(choice), _LINE))
    return row([("n", choice.index), ("n m", f"{at:.1f} s"), ("u", did)], "bad" if choice.code else "", last=how)


def _chosen(choice: _Choice) -> str:
    return f"{choice.agent}: {_done(choice)}"


def _how(choice: _Choice) -> Iterator[str]:
    """What the agent saw, asked and was told for the choice, and what a tool has answered."""
    said = (line for each in choice.said for line in _said(each))
    answered = [f"answered {choice.answer}"] if isinstance(choice, TrajectoryStep) and choice.answer else []
    saw = (f"saw {each.url} ({each.file})" for each in choice.seen)
    yield from (*saw, *map(_asked, choice.asked), *said, *answered)


def _done(choice: _Choice) -> str:
    if isinstance(choice, TrajectoryChoice):
        return f"chose no step: {choice.code}" if choice.code else "was done"
    step = choice.step
    if step["act"] == CALLS:
        return f"{_called(step)} -> {_ended(choice)}"
    target = step.get("selector") or step.get("url") or step.get("expr") or step.get("note") or ""
    value = f" {step['value']!r}" if step.get("value") and step["act"] != "wait" else ""
    what = f"{step['act']} {target}{value}"
    return f"{what} -> {_ended(choice)}"


def _called(step: Mapping[str, Any]) -> str:
    arguments = json.dumps(step.get("arguments", {}), ensure_ascii=False)
    return f"tool {step['server']}.{step['tool']} {arguments} ({step.get('effect', 'write')})"


def _ended(choice: TrajectoryStep) -> str:
    outcome = "passed" if choice.passed else f"failed: {choice.code}: {choice.message}"
    return f"{outcome} ({choice.seconds:.1f} s)"


def _asked(call: ModelCall) -> str:
    used = f", {tokens_text(call.usage.input)}/{tokens_text(call.usage.output)} tokens" if call.usage.total else ""
    cost = "unpriced" if is_unpriced(call) else money_text(call.cost or 0.0)
    ended = "" if call.outcome == "answered" else f", {call.outcome} {call.code}".rstrip()
    recorded = f", replayed {call.recording}" if call.replayed else ""
    again = f", attempt {call.attempt}" if call.attempt > 1 else ""
    return f"asked {call.model}{again}: {call.seconds:.1f} s{used}, {cost}{ended}{recorded}"


def _said(said: SaidAnswer) -> Iterator[str]:
    if said.code:
        yield f"no answer: {said.code}"
    if said.tool:
        yield f"said {said.tool} {json.dumps(said.arguments, ensure_ascii=False)}"
    if said.text:
        yield f"said {' '.join(said.text.split())!r}"
