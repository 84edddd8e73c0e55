"""Running one item: dependencies, the engine, and what pytest is told."""

from __future__ import annotations

import pytest

from harness.compile import compile_plan
from harness.engine.ending import unmet
from harness.failure import Family
from harness.plan import Plan
from harness.pytest_plugin.failures import CriterionFailed, TaskFailed
from harness.pytest_plugin.state import STATE, State
from harness.record import TaskResult
from harness.reporting.allure_sink import AllureSink
from harness.reporting.console import brief, failure_text
from harness.reporting.redaction import Redactor
from harness.reporting.task_record import TaskRecord, task_record
from harness.spec.load import Loaded
from harness.spec.problems import SpecError


def perform(request: pytest.FixtureRequest, loaded: Loaded) -> None:
    """Run the task; raises TaskFailed, or skips when a task that it depends on did not pass."""
    __tracebackhide__ = True
    state = request.config.stash[STATE]
    _require(state, loaded)
    plan = _plan(state, loaded)
    harness = state.harness()
    result = harness.run(plan, state.progress.on)
    shown = plan.spec.expect is not None and not unmet(plan.spec.expect, result)
    state.done[plan.task_id] = shown or result.ok
    AllureSink(harness.redactor, harness.archive.kept).finish(plan, result, harness.browser)
    _tell(request.node, plan, result, harness.redactor)
    _judge(plan, result, harness.redactor)


def _require(state: State, loaded: Loaded) -> None:
    for wanted in loaded.spec.dependencies:
        if wanted not in state.selected:
            reason = "which is not among the tasks selected" if wanted in state.known else "which no task file here has"
            pytest.skip(f"depends on {wanted}, {reason}")
        if not state.done.get(wanted, False):
            pytest.skip(f"depends on {wanted}, which did not pass")


def _plan(state: State, loaded: Loaded) -> Plan:
    try:
        return compile_plan(loaded, settings=state.settings, run_id=state.run_id)
    except SpecError as error:
        raise TaskFailed(f"{loaded.spec.task_id} cannot be run", str(error)) from None


def _tell(item: pytest.Item, plan: Plan, result: TaskResult, redactor: Redactor) -> None:
    """What travels with the report: to junit.xml, and from an xdist worker to its controller."""
    item.user_properties += [("task_id", plan.task_id), ("final_state", result.final_state)]
    if result.failure is not None:
        item.user_properties += [("error_type", str(result.failure.type)), ("code", result.failure.code)]
    if result.artifacts is not None:
        item.user_properties.append(("task_artifacts", str(result.artifacts)))
    item.stash[RECORD] = task_record(plan, result, redactor)


RECORD: pytest.StashKey[TaskRecord] = pytest.StashKey()


def _judge(plan: Plan, result: TaskResult, redactor: Redactor) -> None:
    __tracebackhide__ = True
    expect, text = plan.spec.expect, failure_text(plan, result, redactor=redactor)
    if expect is not None:
        if wrong := unmet(expect, result):
            headline = f"{plan.task_id} did not show the outcome it declares: {'; '.join(wrong)}"
            raise CriterionFailed(headline, f"{headline}\n\n{text}")
    elif result.failure is not None:
        kind = CriterionFailed if result.failure.family is Family.ASSERTION else TaskFailed
        raise kind(brief(plan, result, redactor), text)
    elif result.final_state == "partial_success" and plan.strict:
        raise TaskFailed(f"{plan.task_id} ended as partial_success, which --taskspec-strict refuses", text)
