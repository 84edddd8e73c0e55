"""The end of a task: evidence once, the report, the artifact directory, everything closed."""

from __future__ import annotations

import asyncio
import errno
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.engine.judging import Played, judged
from harness.engine.run import Ending
from harness.engine.scoring import scored
from harness.model.diagnosis import error_report
from harness.model.events import TaskEnded
from harness.model.outcome import unmet
from harness.model.plan import Plan
from harness.model.ports import Evidence, Ports, Snapshot, Stage
from harness.model.record import TaskResult, Warning_
from harness.model.report import AssertionContext, Context
from harness.recovery import Capture, Substitute
from harness.recovery.failure import Failed

SNAPSHOT_LIMIT = 3.0
ERROR_PAGE = "chrome-error:"
"""What Chromium shows in the place of a page that it could not load: no address of the site."""
"""Seconds for all environment channels together."""
NOT_BEGUN = "the task ended before it had a page"
PASSED = Capture(screenshot=False, logs=False, why="the task passed")
"""What is taken of a task that passed, when it is."""
FULL = (None, errno.ENOSPC, errno.EDQUOT)
"""What an OSError says of a disk that takes no more, or that says nothing."""


async def close_task(played: Played) -> TaskResult:
    """The finished result; when the task failed, its directory under `errors/` is complete."""
    plan, ports, stage = played.plan, played.ports, played.run.stage if played.run else None
    if stage:
        played.journal.attribute(await stage.session.heard())
    await _last_memory(stage)
    result = judged(played, await scored(played.run, played.ending) if played.run else None)
    if played.failed is None or result.skipped:
        if stage:
            result = await _witnessed(plan, ports, stage, played.folder, result)
            await _close(stage)
            result = _with_faults(result, stage)
        result = await _put_away(plan, ports, result)
    else:
        result = await _report(plan, ports, stage, played.folder, result, played.failed)
    ports.emit(TaskEnded(plan, result, ports.clock.wall()))
    return result


async def _last_memory(stage: Stage | None) -> None:
    """What the system under test remembers at the end, where it keeps the memory; what was read before will do."""
    if stage is not None:
        with suppress(Failed, TimeoutError):
            async with asyncio.timeout(SNAPSHOT_LIMIT):
                await stage.world.synchronize()


async def _report(
    plan: Plan, ports: Ports, stage: Stage | None, folder: Path, result: TaskResult, ending: Ending
) -> TaskResult:
    evidence, state = Evidence(folder, why=NOT_BEGUN), Snapshot()
    if stage:
        capture = plan.rulebook.evidence(ending.failure, ending.give_up.capture)
        state = await _snapshot(stage, capture)
        evidence = await stage.session.evidence(capture, folder)
        await _close(stage)
        result = _with_faults(result, stage)
    expected = plan.spec.expect is not None and not unmet(plan.spec.expect, result)
    report = error_report(plan, result, _context(result, evidence, state), expected)
    result = replace(result, error=report)
    try:
        path = await asyncio.to_thread(ports.archive.keep, plan, result, report, evidence, state)
    except OSError as error:
        return not_kept(result, error)
    return replace(result, artifacts=path)


async def _put_away(plan: Plan, ports: Ports, result: TaskResult) -> TaskResult:
    """What a task that passed or was left out leaves; a disk that refuses it is no failure of the task."""
    keep = ports.archive.skipped if result.skipped else partial(ports.archive.passed, result=result)
    try:
        await asyncio.to_thread(keep, plan)
    except OSError as error:
        return not_kept(result, error)
    return result


def not_kept(result: TaskResult, error: OSError) -> TaskResult:
    """The same outcome, with a warning of what was lost, and why."""
    where = f" ({error.filename})" if error.filename else ""
    mend = "make room on its disk" if error.errno in FULL else "see that it can be written"
    why = f"What it left could not be kept: {error.strerror or error}; {mend}{where}"
    return replace(result, warnings=(*result.warnings, Warning_("evidence_not_kept", why, None)))


async def _witnessed(plan: Plan, ports: Ports, stage: Stage, folder: Path, result: TaskResult) -> TaskResult:
    """What a task that passed looks like, where that is wanted; a disk that refuses it is no failure of the task."""
    if ports.witness is None or result.skipped:
        return result
    state = await _snapshot(stage, PASSED)
    evidence = await stage.session.evidence(PASSED, folder)
    try:
        await asyncio.to_thread(ports.witness, plan, result, evidence, state)
    except OSError as error:
        warning = Warning_("evidence_not_kept", f"What it looked like at its end could not be kept: {error}", None)
        return replace(result, warnings=(*result.warnings, warning))
    return result


async def _snapshot(stage: Stage, capture: Capture) -> Snapshot:
    memory = stage.world.entries() if capture.memory else None
    why = capture.why or "`capture_memory: false`"
    if not capture.environment:
        return Snapshot(memory, None, why)
    try:
        async with asyncio.timeout(SNAPSHOT_LIMIT):
            return Snapshot(memory, await stage.world.snapshot(), why)
    except TimeoutError:
        unanswered = {"error": f"the environment did not answer within {SNAPSHOT_LIMIT:g} s"}
        return Snapshot(memory, unanswered, why)


def _context(result: TaskResult, evidence: Evidence, state: Snapshot) -> Context:
    """specs/003 3.1 `context`: the failure's own evidence beside the fixed keys."""
    failure = result.failure
    assertion = failure.assertion if failure else None
    taken = {item.name for item in evidence.items if item.status == "taken"}
    fixed = {
        "screenshot_id": "screenshot.png" if "screenshot.png" in taken else None,
        "dom_snapshot_id": "dom_snapshot.html" if "dom_snapshot.html" in taken else None,
        "memory_snapshot": state.memory,
        "env_snapshot": state.environment,
        "browser_console_logs": tuple(map(str, evidence.console[-50:])),
        "assertion": AssertionContext(
            expression=assertion.expression, expected=assertion.expected, actual=assertion.actual, diff=assertion.diff
        )
        if assertion
        else None,
    }
    if notes := {item.name: item.reason for item in evidence.items if item.status == "taken" and item.reason}:
        fixed["evidence_notes"] = notes
    details = dict(failure.details) if failure else {}
    page = None if (evidence.url or "").startswith(ERROR_PAGE) else evidence.url
    return Context(**{**details, **_of_the_step(result), **fixed, "url": page or details.get("url")})


def _of_the_step(result: TaskResult) -> dict[str, Any]:
    """The selectors that the step and its rule declare (specs/003 4.3); the precondition that did not hold (4.5)."""
    failure = result.failure
    if failure is not None and failure.code == "PRECONDITION_NOT_MET":
        return {"precondition": failure.details.get("criterion"), "error": failure.message}
    record = next((r for r in reversed(result.history) if r.index == result.failed_index and not r.passed), None)
    if record is None or record.step.target is None:
        return {}
    fallbacks = [each.remedy.selector for each in record.answers if isinstance(each.remedy, Substitute)]
    return {"selector": record.step.target, "fallback_selectors": fallbacks}


def _with_faults(result: TaskResult, stage: Stage) -> TaskResult:
    """What became of the faults in the end: one that could not be healed is known only now."""
    met = stage.injector.met()
    new = (each for each, before in zip(met, result.faults, strict=True) if each.problem and not before.problem)
    warned = (Warning_("fault_not_healed", f"Fault {each.describe()}", None, {"fault": each.name}) for each in new)
    return replace(result, faults=met, warnings=(*result.warnings, *warned))


async def _close(stage: Stage) -> None:
    try:
        await stage.injector.close()
    finally:
        await stage.session.close()
