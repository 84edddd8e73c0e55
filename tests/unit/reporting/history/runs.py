"""Runs as values, the same every time: for tests of whatever reads the history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from harness.recovery.catalog import row
from harness.reporting.history.record import Execution, Happening, Outcome, RunRecord
from harness.reporting.task_record import AttemptLine, StepLine, TaskRecord, error_metrics

BEGAN = datetime(2025, 11, 16, 9, tzinfo=UTC)
CODES = (
    "ELEMENT_NOT_FOUND",
    "SELECTOR_AMBIGUOUS",
    "ASSERTION_FAILED",
    "NET_CONNECTION_REFUSED",
    "HTTP_UNAVAILABLE",
    "STEP_TIMEOUT",
    "TASK_TIMEOUT",
    "PAGE_CRASHED",
    "SERVICE_DOWN",
    "AUTHENTICATION_FAILED",
)
"""Of the ten failures of a run, each of another cause."""
MESSAGES = {
    "ELEMENT_NOT_FOUND": "Element not found: #checkout",
    "SELECTOR_AMBIGUOUS": "3 elements match `button`",
    "ASSERTION_FAILED": "text(#total) == '$24.99': expected '$24.99', actual '$0.00'",
    "NET_CONNECTION_REFUSED": "net::ERR_CONNECTION_REFUSED at http://bank.local/",
    "HTTP_UNAVAILABLE": "http://shop.local/api/cart answered 503",
    "STEP_TIMEOUT": "the step took longer than 10 s",
    "TASK_TIMEOUT": "the task took longer than 60 s",
    "PAGE_CRASHED": "the page's process died",
    "SERVICE_DOWN": "the service `demo` is down: third crash in 5 minutes",
    "AUTHENTICATION_FAILED": "<script>alert(1)</script> wants a login \x1b[31m",
}


def nodeid(task_id: str) -> str:
    return f"tasks/{task_id}.task.yaml::{task_id}"


def step(index: int, *attempts: bool, code: str | None = None, seconds: float = 0.5) -> StepLine:
    """A step with an attempt for each of `attempts`: whether it passed."""
    lines = tuple(
        AttemptLine(
            t=index + 0.5 * number,
            seconds=seconds,
            passed=passed,
            code=None if passed else code or "ELEMENT_NOT_FOUND",
            note="" if passed and number == 0 else f"RETRY (after 1s): {'SUCCESS' if passed else 'FAILED'}",
        )
        for number, passed in enumerate(attempts)
    )
    act = ("open", "click", "type", "assert")[index % 4]
    total = seconds * len(attempts)
    return StepLine(index=index, act=act, target=f"#s{index}", seconds=total, passed=attempts[-1], attempts=lines)


def record(task_id: str, *, at: float = 0, **fields: Any) -> TaskRecord:
    """A task that passed in two seconds, unless told. `at`: seconds after the run began."""
    defaults = {
        "task_id": task_id,
        "key": task_id,
        "final_state": "completed",
        "source": f"tasks/{task_id}.task.yaml",
        "seconds": 2.0,
        "steps_completed": 3,
        "steps_total": 3,
        "started": BEGAN + timedelta(seconds=at),
        "goal": f"goal of {task_id}",
        "feature": "shopping",
        "priority": 2,
        "tags": ("smoke",),
        "steps": (step(0, True), step(1, True), step(2, True)),
    }
    return TaskRecord.model_validate({**defaults, **fields})


def failed(task_id: str, code: str, *, at: float = 0, **fields: Any) -> TaskRecord:
    """A task that failed of that code at its second step."""
    facts = row(code)
    return record(
        task_id,
        at=at,
        **{
            "final_state": "failed",
            "code": code,
            "error_type": str(facts.error_type),
            "family": facts.family,
            "step_index": 1,
            "message": MESSAGES.get(code, facts.cause),
            "hint": facts.hint,
            "steps_completed": 1,
            "retries": 1,
            "seconds": 4.5,
            "recoveries": ((facts.family, False),),
            "steps": (step(0, True), step(1, False, False, code=code)),
            "artifacts": f"errors/{task_id}",
            **fields,
        },
    )


def execution(found: TaskRecord, outcome: Outcome | None = None, number: int = 1, worker: str = "") -> Execution:
    """Of that record; failed when it is, unless told."""
    return Execution(
        nodeid=nodeid(found.task_id),
        task_id=found.task_id,
        number=number,
        outcome=outcome or ("passed" if found.ok else "failed"),
        worker=worker,
        seconds=found.seconds,
        at=found.started,
        record=found,
    )


def skipped(task_id: str, reason: str = "depends on T-FAILED-0, which failed", *, at: float = 0) -> Execution:
    return Execution(
        nodeid=nodeid(task_id),
        task_id=task_id,
        outcome="skipped",
        reason=reason,
        at=BEGAN + timedelta(seconds=at),
    )


HEALED = {
    "type": "fallback_selector_used",
    "message": "`#buy` was not found; `[data-test=buy]` was used",
    "step_index": 1,
    "original_selector": "#buy",
    "successful_fallback": "[data-test=buy]",
    "role": "button",
    "name": "Buy",
}
"""The warning of a task that passed by another selector."""


def executions() -> tuple[Execution, ...]:
    """Three that passed, ten that failed, healed, flaky, retried, failed as expected, skipped: 18 tasks."""
    retried = {"retries": 2, "recoveries": (("on_network_error", True),), "seconds": 6.0}
    slow_start = (step(0, False, False, True, code="NET_CONNECTION_REFUSED"), step(1, True), step(2, True))
    return (
        *(execution(record(f"T-PASSED-{n}", at=3 * n), worker=f"gw{n % 2}") for n in range(3)),
        *(execution(failed(f"T-FAILED-{n}", code, at=10 + 5 * n)) for n, code in enumerate(CODES)),
        execution(record("T-HEALED", at=61, warnings=(HEALED,))),
        execution(failed("T-FLAKY", "STEP_TIMEOUT", at=65), "rerun"),
        execution(record("T-FLAKY", at=70), number=2),
        execution(record("T-RETRIED", at=73, steps=slow_start, **retried)),
        execution(failed("T-EXPECTED", "HTTP_UNAVAILABLE", at=80, expected=True), "passed"),
        skipped("T-SKIPPED", at=85),
    )


def happenings() -> tuple[Happening, ...]:
    """A circuit that opens and closes, a service that is started again, a threshold that is passed."""

    def at(seconds: float) -> datetime:
        return BEGAN + timedelta(seconds=seconds)

    origin = "origin:http://bank.local"
    return (
        Happening(
            at=at(26),
            type="circuit-state-change",
            level="ERROR",
            text=f"circuit {origin}: closed -> open (5 failures in a row)",
            details={"circuit": origin, "from": "closed", "to": "open", "reason": "5 failures in a row"},
        ),
        Happening(
            at=at(40),
            type="service-status",
            level="WARNING",
            text="service demo: up -> down (exit code 1)",
            details={"service": "demo", "from": "up", "to": "down", "reason": "exit code 1"},
        ),
        Happening(
            at=at(42),
            type="service-status",
            text="service demo: down -> up (started again)",
            details={"service": "demo", "from": "down", "to": "up", "reason": "started again"},
        ),
        Happening(
            at=at(56),
            type="circuit-state-change",
            text=f"circuit {origin}: open -> closed (a probe worked)",
            details={"circuit": origin, "from": "open", "to": "closed", "reason": "a probe worked"},
        ),
        Happening(
            at=at(60),
            type="threshold",
            level="WARNING",
            task_id="T-FAILED-9",
            text="threshold: error_rate 12 % (warning: over 5 %)",
            details={"metric": "error_rate", "from": "ok", "to": "warning"},
        ),
    )


def run(name: str = "20251116T090000-4711", parts: Sequence[Execution] | None = None, **fields: Any) -> RunRecord:
    """A finished run; with all kinds of tasks unless told."""
    parts = executions() if parts is None else tuple(parts)
    records = [each.record for each in parts if each.record is not None and each.outcome != "rerun"]
    started = datetime.strptime(name.partition("-")[0], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    metrics = {
        "run": name,
        "error_metrics": error_metrics(records),
        "resilience": {"totalAttempts": 3 * len(records), "successfulRetries": 2, "failedRetries": 10},
        "thresholds": {"error_rate": {"value": 0.12, "level": "warning"}},
    }
    defaults = {
        "run": name,
        "started": started,
        "finished": started + timedelta(seconds=90),
        "ending": "finished",
        "exit_status": 1,
        "project": "shop",
        "arguments": ("tasks", "-n", "2"),
        "environment": {"Browser": "chromium 141", "Python": "3.11.7", "Platform": "Linux"},
        "commit": "66beb88d9b0c1f1f5a9f3e1f0b6f2d3c4a5b6c7d",
        "branch": "main",
        "ci": {"name": "GitHub Actions", "buildName": "tests #12", "buildUrl": "https://github.com/o/r/actions/runs/1"},
        "executions": parts,
        "happenings": happenings(),
        "metrics": metrics,
    }
    return RunRecord.model_validate({**defaults, **fields})


def many(count: int = 1000, name: str = "20251116T090000-4711", **fields: Any) -> RunRecord:
    """A run of so many tasks: of each ten, one failed, one healed, one retried, one was skipped."""
    return run(name, [_of_many(number) for number in range(count)], **fields)


def _of_many(number: int) -> Execution:
    task_id, at = f"B{number % 7}-2025-{number:04}", 0.08 * number
    match number % 10:
        case 3:
            return execution(failed(task_id, CODES[number // 10 % len(CODES)], at=at), worker=f"gw{number % 4}")
        case 5:
            return execution(record(task_id, at=at, warnings=(HEALED,)), worker=f"gw{number % 4}")
        case 7:
            steps = (step(0, True), step(1, False, True), step(2, True))
            recoveries = (("on_element_not_found", True),)
            return execution(record(task_id, at=at, retries=1, steps=steps, recoveries=recoveries))
        case 9:
            return skipped(task_id, at=at)
        case _:
            return execution(record(task_id, at=at, seconds=1 + number % 5), worker=f"gw{number % 4}")


def several(count: int = 10) -> tuple[RunRecord, ...]:
    """A day apart, oldest first: T-FLAKY passes in every other, T-SLOWER gets slower and T-BROKEN fails at the end."""
    return tuple(_day(number, late=number >= count - 2) for number in range(count))


def _day(number: int, *, late: bool) -> RunRecord:
    flaky = failed("T-FLAKY", "STEP_TIMEOUT") if number % 2 else record("T-FLAKY")
    slower = record("T-SLOWER", seconds=(9.0 if late else 2.0) + 0.1 * (number % 3))
    steady = [record(f"T-STEADY-{each}", at=3 * each, seconds=2 + 0.1 * (number % 3)) for each in range(3)]
    broken = failed("T-BROKEN", "ELEMENT_NOT_FOUND") if late else record("T-BROKEN")
    parts = [execution(each) for each in (*steady, flaky, slower, broken)]
    return run(f"202511{number % 28 + 1:02}T090000-{4711 + number}", parts, happenings=())
