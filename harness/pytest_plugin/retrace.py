"""`--task-retrace`: runs a failed task once more, recorded in full, if that does no harm.

The second run does not change the result of the first: only its trace is kept, next to the first's artifacts. The
failure text of a task whose trace lacks snapshots from the start mentions the option.
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.model.outcome import ended_as_declared
from harness.model.plan import Plan
from harness.model.record import TaskResult
from harness.model.warnings import done_twice
from harness.recovery import FULL, NOTHING
from harness.recovery.never_twice import Known, RepeatVerdict, RepeatWay, again
from harness.reporting.files import shown_path
from harness.reporting.telling import before_the_first_step
from harness.reporting.words import place
from harness.values import replace

if TYPE_CHECKING:
    from harness.model.settings import Settings
    from harness.pytest_plugin.state import SessionState

_OPTION = "--task-retrace"
_SAFE = ("GET", "HEAD", "OPTIONS")
_FRESH = ("world", "reset")
"""Kinds of isolation under which a task that runs again does not see the effects of its first run."""


def traced_in_full(state: SessionState, item: pytest.Item, plan: Plan, result: TaskResult) -> tuple[str, TaskResult]:
    """The line about the full trace for the failure text, and the result; runs the task again if that is requested.

    The line is empty if the trace is full already, if there is none, or if the task did what it declares. The result is
    as it was, with a warning of what the second run may have done twice.
    """
    if result.failure is None or result.artifacts is None or ended_as_declared(plan.spec, result):
        return "", result
    if state.settings.recording == "full" or state.settings.tracing == "on":
        return "", result
    refused = refusal(plan, result, state.settings, alone=state.ahead is None)
    if not state.settings.retrace:
        return "" if refused else f"full trace: {command(item, state)}", result
    if refused:
        return f"{_OPTION}: the task did not run again: {refused}", result
    line, second = _run_again(state, plan)
    return line, replace(result, warnings=(*result.warnings, *done_twice(second, _OPTION)))


def _run_again(state: SessionState, plan: Plan) -> tuple[str, TaskResult]:
    harness = state.harness()
    second = replace(plan, key=f"{plan.key}.retrace", in_full=True)
    result = harness.run(second, lambda _event: None)
    found = harness.archive.retraced(plan, second, result)
    how = "did not fail again" if result.failure is None else f"failed with {result.failure.code}"
    if found is None:
        return f"{_OPTION}: the second run {how}, and left no trace", result
    return f"full trace: {shown_path(found)} (the second run {how})", result


def refusal(plan: Plan, result: TaskResult, settings: Settings, *, alone: bool) -> str | None:
    """The reason why the task must not run a second time; None if it may. `alone`: no other task runs beside it."""
    if settings.tracing == "off":
        return "no trace is recorded with `tracing` off"
    if before_the_first_step(result) or all(each.index < 0 and each.step.act == "assert" for each in result.history):
        return "it failed before it had a page"
    if result.failure is not None and plan.rulebook.evidence(result.failure, FULL) == NOTHING:
        return "the task says `capture: none`"
    if plan.faults and not alone:
        return "its faults could strike the tasks that run at the same time"
    return _effect_of_second_run(plan, result, settings)


def _effect_of_second_run(plan: Plan, result: TaskResult, settings: Settings) -> str | None:
    """The effect of a second run on a state that the first has written to, as a reason; None without any."""
    isolated = settings.isolation in _FRESH and not plan.spec.episode_id
    written = None if isolated else _what_was_written(result)
    if again(RepeatWay.RETRACE, Known(written is not None, undone=isolated)) is RepeatVerdict.AGAIN:
        return None
    if plan.spec.episode_id:
        return f"{written}, and the tasks of an episode share their state"
    return f'{written}, and the project declares neither `isolation = "world"` nor `"reset"`'


def _what_was_written(result: TaskResult) -> str | None:
    """The first thing that the task may have changed on its sites; None if nothing was seen."""
    try:
        document = json.loads(Path(result.artifacts or "", "network_logs.har").read_text("utf-8"))
        requests = [each["request"] for each in document["log"]["entries"]]
    except (OSError, ValueError, KeyError, TypeError):
        return "its requests were not kept, so nobody knows what it wrote"
    sent = (f"it sent {each['method']} {each['url']}" for each in requests if each["method"] not in _SAFE)
    wrote = (record for record in result.history if record.wrote or any(each.unsafe for each in record.sent))
    steps = (f"step {place(each.index, result.steps_total)} ({each.step.act}) may have written" for each in wrote)
    others = (f"a task that ran inside it may have written ({each.step.describe()})" for each in result.written)
    return next(sent, None) or next(steps, None) or next(others, None)


def command(item: pytest.Item, state: SessionState) -> str:
    """The command that runs this item alone with the option, from the folder where pytest was started.

    It has the same faults and the same agent, since it would not fail in the same way without them.
    """
    file, _, name = item.nodeid.partition("::")
    start = item.config.invocation_params.dir
    here = os.path.relpath(item.path, start)
    words = ["pytest", f"{here}::{name}" if name else file, _OPTION]
    for plan in state.settings.faults:
        words += ["--task-faults", os.path.relpath(plan, start)]
    words += ["--task-agent", state.chosen] if state.chosen else []
    return shlex.join(words)
