"""An ordinary Playwright test as the reports know tasks: a plan without steps, and the result of its run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from harness.engine.result import not_kept, report_context
from harness.model.diagnosis import error_report
from harness.model.plan import Plan
from harness.model.ports import Evidence, Snapshot
from harness.model.record import Attempt, MetFault, StepRecord, TaskResult
from harness.recovery import NoRecovery
from harness.recovery.failure import Failure
from harness.reporting.archive import DirectoryArchive
from harness.spec.names import slug
from harness.spec.page_calls import PageCall
from harness.spec.task import TaskSpec
from harness.values import replace

_SNAPSHOT = Snapshot(why="an ordinary test has none")
_MODULE = re.compile(r"\.py(?=::|$)")


def test_id(nodeid: str) -> str:
    """The id under which reports know a test: `tests.test_shop--test_buy-chromium`."""
    name = _MODULE.sub("", nodeid).replace("/", ".").replace("::", "--").replace("[", "-").replace("]", "")
    return slug(name)


def test_plan(nodeid: str, goal: str, run_id: str, folder: Path, timeout: float, secrets: Iterable[str]) -> Plan:
    """The plan of a test. `goal`: what it is about, in words; `timeout`: its limit in seconds, 0 for none."""
    name = test_id(nodeid)
    return Plan(
        spec=TaskSpec.model_construct(task_id=name, goal=goal),
        task_id=name,
        key=name,
        world=f"{run_id}.{name}",
        steps=(),
        preconditions=(),
        success_criteria=(),
        rulebook=NoRecovery(),
        timeout=timeout,
        step_timeout=timeout,
        folder=folder,
        source=nodeid.partition("::")[0],
        known_secrets=tuple(secrets),
        heal=False,
    )


def passed_result(plan: Plan, started: datetime, seconds: float, faults: tuple[MetFault, ...] = ()) -> TaskResult:
    """The result of a test that passed, as far as its own phase goes."""
    return TaskResult(plan.task_id, plan.key, "completed", (), started, seconds, 0, faults=faults)


def failed_result(
    archive: DirectoryArchive,
    plan: Plan,
    call: PageCall,
    failure: Failure,
    evidence: Evidence,
    begun: TaskResult,
) -> TaskResult:
    """The result of a test that failed, whose `errors/<key>` is written if the disk allows it. `begun`: its times."""
    waited = min(call.timeout or 0.0, begun.elapsed)
    attempt = Attempt(call, begun.elapsed - waited, waited, begun.started, failure)  # type: ignore[arg-type]
    record = StepRecord(0, call, (attempt,))  # type: ignore[arg-type]
    result = replace(begun, final_state="failed", history=(record,), steps_total=1, failure=failure, failed_index=0)
    report = error_report(plan, result, report_context(result, evidence, _SNAPSHOT), expected=False)
    result = replace(result, error=report)
    try:
        return replace(result, artifacts=archive.keep(plan, result, report, evidence, _SNAPSHOT))
    except Exception as error:  # noqa: BLE001 - what is lost is the evidence, and never the result
        return not_kept(result, error)
