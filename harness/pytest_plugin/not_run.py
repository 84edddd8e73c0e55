"""Reports of tasks that could not be prepared, whose process died, or that were interrupted."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from harness.model.plan import Plan
from harness.model.report import ErrorReport
from harness.pytest_plugin.role import Role, role_of
from harness.pytest_plugin.state import SessionState
from harness.recovery import NoRecovery
from harness.recovery.failure import Failure
from harness.reporting.files import MANIFEST, read_json
from harness.reporting.task_record import TaskRecord
from harness.spec.expressions import environment_names, secrets_of
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
        known_secrets=secrets_of(environment_names(spec), environ),
    )


# The tasks that Ctrl-C ended: pytest makes no report of them.


def interrupted_tasks(
    config: pytest.Config, state: SessionState, exitstatus: int, heard: Iterable[TaskRecord]
) -> list[TaskRecord]:
    """The interrupted tasks: under xdist by the reports that its workers left. `heard`: tasks that have a report."""
    if role_of(config) is Role.CONTROLLER and exitstatus == pytest.ExitCode.INTERRUPTED:
        return list(interrupted_by_manifest(state.settings.artifacts, state.run_id, {record.key for record in heard}))
    return state.interrupted


def not_begun(state: SessionState, exitstatus: int, known: Iterable[str]) -> int:
    """The number of tasks that an interrupted run did not begin; `known`: those of which something is said.

    A controller of xdist has selected none itself: its workers have.
    """
    return len(state.selected - set(known)) if exitstatus == pytest.ExitCode.INTERRUPTED else 0


# The tasks of an interrupted run that xdist's workers could no longer report.

CODE = "INTERRUPTED"


def interrupted_by_manifest(artifacts: Path, run_id: str, known: Collection[str] = ()) -> Iterator[TaskRecord]:
    """The interrupted tasks of the run's workers, by the directories under `errors/`, sorted by name.

    Tasks that failed after pytest had stopped listening are included; `known` are the keys that pytest has.
    """
    for file in sorted(artifacts.glob(f"*/{MANIFEST}")):
        try:
            manifest = read_json(file)
            unheard = manifest["key"] not in known and not manifest.get("expected")
            if manifest["run"] == run_id and (manifest["code"] == CODE or unheard):
                report = ErrorReport.model_validate(read_json(file.with_name("error_report.json")))
                yield _record(report, str(manifest["key"]), file.parent)
        except (OSError, ValueError, KeyError, TypeError):
            continue  # it is no directory of a task


def _record(report: ErrorReport, key: str, folder: Path) -> TaskRecord:
    metrics = report.metrics
    return TaskRecord(
        task_id=report.task_id,
        key=key,
        final_state=report.final_state,
        source=report.source,
        error_type=str(report.error_type),
        code=report.code,
        family=Failure(report.code, "").family,
        step_index=report.step_index,
        message=report.error_message,
        suspect=str(report.suspect or ""),
        seconds=metrics.time_elapsed_seconds if metrics else 0,
        steps_completed=metrics.steps_completed if metrics else 0,
        steps_total=metrics.steps_total if metrics else 0,
        retries=metrics.retries_count if metrics else 0,
        warnings=report.warnings,
        artifacts=str(folder),
    )
