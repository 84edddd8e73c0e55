"""The end of a task: evidence once, the report, the artifact directory, everything closed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from harness.engine.ending import shortcomings, unmet
from harness.engine.run import Ending
from harness.events import TaskEnded
from harness.plan import Plan
from harness.ports import Evidence, Ports, Snapshot, Stage
from harness.record import TaskResult, warnings
from harness.recovery import Capture
from harness.report import AssertionContext, Context, error_report
from harness.spec.task import FinalState

SNAPSHOT_LIMIT = 3.0
"""Seconds for all environment channels together."""


async def close_task(
    plan: Plan, ports: Ports, stage: Stage | None, folder: Path, result: TaskResult, ending: Ending | None
) -> TaskResult:
    """The finished result; when the task failed, its directory under `errors/` is complete."""
    result = _judged(plan, stage, result, ending)
    if ending is None:
        if stage:
            await _close(stage)
        await asyncio.to_thread(ports.archive.passed, plan, result)
    else:
        result = await _report(plan, ports, stage, folder, result, ending.give_up.capture)
    ports.emit(TaskEnded(plan, result, ports.clock.wall()))
    return result


def _judged(plan: Plan, stage: Stage | None, result: TaskResult, ending: Ending | None) -> TaskResult:
    """The result with its final state, its failure and its warnings."""
    found = list(warnings(result.history))
    memory = dict(stage.world.memory()) if stage else {}
    if ending is not None:
        failed = replace(result, final_state=ending.give_up.final_state, failure=ending.failure)
        return replace(failed, failed_index=ending.index, warnings=tuple(found), memory=memory)
    files = stage.session.files if stage else ()
    found += shortcomings(plan.spec, memory, files)
    skipped = any(record.skipped for record in result.history)
    state: FinalState = "partial_success" if skipped else "completed"
    return replace(result, final_state=state, warnings=tuple(found), memory=memory)


async def _report(
    plan: Plan, ports: Ports, stage: Stage | None, folder: Path, result: TaskResult, capture: Capture
) -> TaskResult:
    evidence, state = Evidence(folder), Snapshot()
    if stage:
        state = await _snapshot(stage, capture)
        evidence = await stage.session.evidence(capture, folder)
        await _close(stage)
    expected = plan.spec.expect is not None and not unmet(plan.spec.expect, result)
    report = error_report(plan, result, _context(result, evidence, state), expected)
    path = await asyncio.to_thread(ports.archive.keep, plan, result, report, evidence, state)
    return replace(result, error=report, artifacts=path)


async def _snapshot(stage: Stage, capture: Capture) -> Snapshot:
    memory = stage.world.entries() if capture.memory else None
    if not capture.environment:
        return Snapshot(memory)
    try:
        async with asyncio.timeout(SNAPSHOT_LIMIT):
            return Snapshot(memory, await stage.world.snapshot())
    except TimeoutError:
        return Snapshot(memory, {"error": f"the environment did not answer within {SNAPSHOT_LIMIT:g} s"})


def _context(result: TaskResult, evidence: Evidence, state: Snapshot) -> Context:
    """specs/003 3.1 `context`: the failure's own evidence beside the fixed keys."""
    failure = result.failure
    assertion = failure.assertion if failure else None
    taken = {item.name for item in evidence.items if item.status == "taken"}
    fixed = {
        "url": evidence.url,
        "screenshot_id": "screenshot.png" if "screenshot.png" in taken else None,
        "dom_snapshot_id": "dom_snapshot.html" if "dom_snapshot.html" in taken else None,
        "memory_snapshot": state.memory,
        "env_snapshot": state.environment,
        "browser_console_logs": evidence.console[-50:],
        "assertion": AssertionContext(
            expression=assertion.expression, expected=assertion.expected, actual=assertion.actual, diff=assertion.diff
        )
        if assertion
        else None,
    }
    details = dict(failure.details) if failure else {}
    return Context(**{**details, **fixed, "url": fixed["url"] or details.get("url")})


async def _close(stage: Stage) -> None:
    await stage.injector.close()
    await stage.session.close()
