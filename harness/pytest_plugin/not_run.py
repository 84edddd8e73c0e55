"""Reports of tasks that did not run: they could not be prepared, or the process that ran them died."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from harness.model.diagnosis import error_report
from harness.model.plan import Plan
from harness.model.ports import Evidence, Item, Snapshot
from harness.model.record import TaskResult
from harness.model.report import Context
from harness.pytest_plugin.state import SessionState
from harness.recovery import NoRecovery
from harness.recovery.failure import Failure
from harness.reporting.files import names_of
from harness.spec.expressions import environment_names
from harness.spec.loaded import Loaded
from harness.spec.names import slug


def placeholder_plan(task: Loaded, run_id: str, environ: Mapping[str, str] = os.environ) -> Plan:
    """A placeholder for the plan of a task that cannot be compiled: its name and its secrets, and nothing to do."""
    spec, key = task.spec, slug(task.spec.task_id)
    return Plan(
        spec=spec,
        task_id=spec.task_id,
        key=key,
        world=f"{run_id}.{key}",
        steps=(),
        preconditions=(),
        success_criteria=(),
        rulebook=NoRecovery(),
        timeout=spec.limits().timeout,
        step_timeout=spec.limits().step_timeout,
        folder=task.folder,
        source=task.source,
        secrets=tuple(environ[name] for name in environment_names(spec) if environ.get(name)),
    )


def not_run_result(state: SessionState, plan: Plan, failure: Failure, missed: str = "it did not run") -> TaskResult:
    """The result of a task of which only the failure is known; its `errors/<key>` is written, if the disk allows it.

    `missed`: why there is no evidence of its browser.
    """
    result = TaskResult(
        task_id=plan.task_id,
        key=plan.key,
        final_state="aborted",
        history=(),
        started=datetime.now(UTC),
        elapsed=0,
        steps_total=len(plan.steps),
        failure=failure,
        failed_index=-1,
    )
    # nothing was measured: a number of steps or seconds would be invented
    report = error_report(plan, result, Context(), expected=False).model_copy(update={"metrics": None})
    archive = state.harness().archive
    items = tuple(Item(name, "missed", missed) for name in names_of("browser"))
    result = replace(result, error=report)
    try:
        kept = archive.keep(plan, result, report, Evidence(archive.scratch(plan), items), Snapshot(why=missed))
    except OSError as error:
        from harness.engine.result import not_kept  # the engine is loaded with the first task that runs

        return not_kept(result, error)
    return replace(result, artifacts=kept)
