"""The way of an agent through a task as text, from its trajectory: what it saw, asked, was told, and did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.cli.ending import fail
from harness.model.consumption import ModelFigures, is_unpriced, money_text, tokens_text
from harness.model.inference import ModelCall
from harness.model.policy import CALLS
from harness.model.trajectory import SaidAnswer, SeenPage, TrajectoryChoice, TrajectoryStep
from harness.reporting.console import shortened
from harness.reporting.files import shown_path, visible
from harness.reporting.trajectory import FILE, Trajectory, TrajectoryError, newest, read, trajectories

Choice = TrajectoryStep | TrajectoryChoice
NARROWEST = 40
LAST = "last"


def found_trajectory(root: Path, task: str, run: str | None) -> Trajectory:
    """The newest trajectory of a task (an id, a key, a folder with one, or `last`); ends the command without one.

    `root`: the project's folder.
    """
    try:
        if (Path(task) / FILE).is_file():
            return read(Path(task) / FILE)
        each = newest(root) if task == LAST else trajectories(root, task)
        found = next((one for one in each if run is None or one.task.run == run), None)
    except (TrajectoryError, OSError) as error:
        fail(str(error))
    if found is None:
        of_run = f" in run {run}" if run else ""
        fail(f"no agent has chosen the steps of {task}{of_run}, or its trajectory was deleted: see `harness show`")
    return found


def way_text(found: Trajectory, width: int) -> str:
    """The whole way."""
    return "\n".join(visible(line).rstrip() for line in _lines(found, max(width, NARROWEST)))


def _lines(found: Trajectory, width: int) -> Iterator[str]:
    task = found.task
    agents = " -> ".join(dict.fromkeys([task.agent, *(each.agent for each in found.choices)]))
    code = f" with {task.code}" if task.code else ""
    yield f"{task.task_id} {task.final_state}{code} in {task.seconds:.1f} s, run {task.run}: {agents}"
    calls = [call for each in found.choices for call in each.asked]
    if calls:
        yield f"  models: {ModelFigures.of(calls).describe()}"
    for choice in found.choices:
        yield from _choice(choice, width)
    yield f"  trajectory: {shown_path(found.file)}"


def _choice(choice: Choice, width: int) -> Iterator[str]:
    yield f"  step {choice.index}  {shortened(f'{choice.agent}: {_done(choice)}', width - 12)}"
    said = (line for each in choice.said for line in _said(each))
    answered = [f"answered {choice.answer}"] if isinstance(choice, TrajectoryStep) and choice.answer else []
    for line in (*map(_saw, choice.seen), *map(_asked, choice.asked), *said, *answered):
        yield f"      {shortened(line, width - 6)}"


def _done(choice: Choice) -> str:
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


def _saw(seen: SeenPage) -> str:
    return f"saw {seen.url} ({seen.file})"


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
