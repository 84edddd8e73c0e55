"""The stream: stamped, redacted, told to everybody, harmed by nobody."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from harness.faults.python import fault_of
from harness.model.events import ResilienceActed, StepEnded, StepStarted, TaskEnded, TaskStarted
from harness.model.figures import TaskDone
from harness.model.record import StepRecord
from harness.recovery.failure import Failure
from harness.reporting.redaction import MARK
from harness.reporting.telemetry.record import Record, StepBegun, StepDone, TaskBegun
from harness.reporting.telemetry.stream import Sink, in_task
from harness.resilience.events import CircuitChanged, InvariantBroken, Retrying, ServiceChanged
from harness.resilience.thresholds import ThresholdCrossed
from harness.values import replace
from tests.unit.fakes import START
from tests.unit.reporting import sample
from tests.unit.reporting.telemetry.stage import Kept, Stage

REFUSAL = fault_of({"kind": "refuse", "host": "shop.local", "connections": 1})
OPENED = CircuitChanged("origin:shop", "closed", "open", "consecutive_failures_5")


def test_an_event_is_stamped() -> None:
    stage = Stage(worker="gw1")
    stage.clock.time = 2.0
    plan = sample.plan()
    stage.telemetry.emit(OPENED)
    with in_task(plan):
        stage.telemetry.emit(OPENED)
        stage.telemetry.emit(ThresholdCrossed("error_rate", "ok", "warning", 0.1, 0.05, "share"))
    stage.telemetry.emit(OPENED)
    at = START + timedelta(seconds=2)
    assert stage.records[0] == Record(at, OPENED, "run-1", "gw1", "")
    assert [record.task_id for record in stage.records] == ["", plan.task_id, "", ""]


def test_what_is_started_in_a_task_belongs_to_it() -> None:
    stage = Stage()
    with in_task(sample.plan(task_id="T-1")):
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: context.run(stage.telemetry.emit, OPENED))
        thread.start()
        thread.join()
    stage.telemetry.emit(OPENED)
    assert [record.task_id for record in stage.records] == ["T-1", ""]


def test_who_waits_is_woken() -> None:
    woken: list[Record] = []
    stage = Stage()
    with in_task(sample.plan(), woken.append):
        stage.telemetry.emit(OPENED)
    assert woken == stage.records


def test_a_task_that_has_ended_is_not_told_of_again() -> None:
    """The watch over a service is begun in the first task, and outlives it."""
    woken: list[Record] = []
    stage = Stage()
    with in_task(sample.plan(faults=(REFUSAL,)), woken.append):
        context = contextvars.copy_context()
    context.run(stage.telemetry.emit, OPENED)
    assert (woken, [record.task_id for record in stage.records], stage.records[0].faulted) == ([], [""], False)


def test_services_belong_to_no_task_and_who_waits_is_woken() -> None:
    woken: list[Record] = []
    stage = Stage()
    with in_task(sample.plan(faults=(REFUSAL,)), woken.append):
        stage.telemetry.emit(ServiceChanged("demo", "up", "down", "crash_1"))
    (record,) = stage.records
    assert (record.task_id, record.faulted) == ("", False)
    assert woken == [record]


def test_what_the_engine_says_of_failures_is_handed_on_with_its_step() -> None:
    stage, plan = Stage(), sample.plan(secrets=("hunter2",))
    stage.telemetry.on(ResilienceActed(plan, 3, Retrying("open", 1, 3, 1.0, "refused hunter2")))
    (record,) = stage.records
    assert (record.event, record.task_id, record.step) == (
        Retrying("open", 1, 3, 1.0, f"refused {MARK}"), plan.task_id, 3,
    )  # fmt: skip


def test_the_end_of_a_task_is_told_with_its_figures() -> None:
    stage, plan = Stage(), sample.plan()
    failure = Failure("NET_CONNECTION_REFUSED", "connection refused")
    stage.telemetry.on(TaskStarted(plan, START))
    stage.telemetry.on(TaskEnded(plan, sample.failed(plan, failure, index=0), START))
    stage.telemetry.on(TaskEnded(plan, replace(sample.failed(plan, failure, -1), skipped="not here"), START))
    begun, first, second = stage.records
    assert begun.event == TaskBegun(plan.key, len(plan.steps))
    assert (first.event, first.step) == (TaskDone("failed", 32.5, 0, 1, 1, **failure.origin), None)
    assert (second.event.final_state, second.event.reason) == ("skipped", "not here")  # type: ignore[union-attr]


def test_of_the_steps_that_begin_at_most_one_in_a_second_is_told() -> None:
    stage, plan = Stage(), sample.plan()
    stage.telemetry.on(TaskStarted(plan, START))
    for seconds in (0.0, 0.4, 1.0, 1.9, 2.0):
        stage.clock.time = seconds
        stage.telemetry.on(StepStarted(plan, 0, plan.steps[0], START))
    assert stage.events[1:] == [StepBegun("open http://shop.local/")] * 2


def test_a_step_that_goes_on_is_told_although_it_began_soon_after_the_last_one() -> None:
    looks: list[Callable[[], None]] = []
    stage, plan = Stage(later=lambda _, look: looks.append(look)), sample.plan()
    stage.telemetry.on(TaskStarted(plan, START))
    for index, seconds in enumerate((0.1, 0.2, 0.3)):
        stage.clock.time = seconds
        stage.telemetry.on(StepStarted(plan, index, plan.steps[0], START))
        if index < 2:
            stage.telemetry.on(StepEnded(plan, StepRecord(index, plan.steps[0], ())))
    stage.clock.time = 1.0
    (look,) = looks  # one, however many steps begin
    look()
    assert [(record.event, record.step) for record in stage.records[1:]] == [(StepBegun("open http://shop.local/"), 2)]
    look()
    assert len(stage.records) == 2


def test_a_step_that_has_ended_is_not_told_later() -> None:
    looks: list[Callable[[], None]] = []
    stage, plan = Stage(later=lambda _, look: looks.append(look)), sample.plan()
    stage.telemetry.on(TaskStarted(plan, START))
    stage.telemetry.on(StepStarted(plan, 0, plan.steps[0], START))
    stage.telemetry.on(StepEnded(plan, StepRecord(0, plan.steps[0], ())))
    stage.clock.time = 5.0
    looks[0]()
    assert len(stage.records) == len(looks) == 1


def test_steps_are_told_when_asked_for() -> None:
    plan = sample.plan()
    step = plan.steps[0]
    tries = (
        sample.attempt(step, 0, 1, Failure("NET_DNS", "no such name")),
        sample.attempt(step, 1, 0, Failure("CIRCUIT_OPEN", "nothing was sent")),
        sample.attempt(step, 31, 0.25),
    )
    ended, silent, told = StepEnded(plan, StepRecord(0, step, tries)), Stage(), Stage(steps=True)
    for stage in (silent, told):
        stage.telemetry.on(ended)
    assert silent.records == []
    assert told.events == [StepDone("open http://shop.local/", True, 2, 1.25)], "what a circuit refused is no attempt"


def test_secrets_are_taken_out() -> None:
    stage = Stage(redact=("card-[0-9]+",))
    stage.telemetry.emit(Retrying("open", 1, 3, 1.0, "hunter2 card-77", "network"))
    stage.telemetry.on(TaskStarted(sample.plan(secrets=("hunter2",)), START))
    stage.telemetry.emit(Retrying("open hunter2", 1, 3, 1.0, "hunter2", "network"))
    stage.telemetry.emit(InvariantBroken("rule", {"of": "hunter2"}))
    assert stage.events == [
        Retrying("open", 1, 3, 1.0, f"hunter2 {MARK}", "network"),
        TaskBegun("B1-2025-001", 6),
        Retrying(f"open {MARK}", 1, 3, 1.0, MARK, "network"),
        InvariantBroken("rule", {"of": MARK}),
    ]


def test_what_is_delivered_is_told_when_the_thread_asks() -> None:
    stage = Stage()
    stage.telemetry.emit(OPENED)
    assert (len(stage.records), stage.kept.delivered) == (1, [])
    stage.telemetry.deliver()
    stage.telemetry.deliver()
    assert stage.kept.delivered == stage.records


def test_a_turn_tells_of_its_own_task_and_delivers_what_came_of_all() -> None:
    begun = TaskStarted(sample.plan(), START)
    stage = Stage()
    stage.telemetry.turn(begun, heard=False)
    assert (stage.kept.events, stage.kept.turns) == ([begun], [begun])
    stage.telemetry.emit(OPENED)
    stage.telemetry.turn(begun, heard=True)
    assert (len(stage.kept.events), len(stage.kept.turns)) == (1, 2), "it was heard when it happened"
    stage.telemetry.emit(OPENED)
    stage.telemetry.turn(stage.records[-1], heard=False)
    assert (len(stage.kept.turns), len(stage.records)) == (2, 3), "a record: something to deliver"
    assert stage.kept.delivered == stage.records


def test_a_sink_that_raises_harms_nobody_and_is_said_once() -> None:
    class Broken(Sink):
        name = "broken"
        closed = False

        def on_record(self, record: Record) -> None:
            raise ValueError(f"number {len(stage.records)}")

        def close(self) -> None:
            self.closed = True

    last, broken = Kept(), Broken()
    stage = Stage(sinks=(broken, last))
    for _ in range(3):
        stage.telemetry.emit(OPENED)
    assert (len(stage.records), len(last.records)) == (3, 3)
    assert stage.telemetry.problems == {"broken": "ValueError: number 1"}
    assert stage.telemetry.close() == [
        "output failed: broken: ValueError: number 1; what it tells of this run is incomplete"
    ]
    assert broken.closed


def test_tasks_with_faults_are_marked() -> None:
    stage = Stage()
    with in_task(sample.plan(faults=(REFUSAL,))):
        stage.telemetry.emit(OPENED)
    assert stage.records[0].faulted


@pytest.mark.parametrize(("expect", "marked"), [
    ({"final_state": "failed", "code": "NET_DNS"}, True),
    ({"final_state": "aborted", "error_type": "unknown"}, True),
    ({"final_state": "completed", "warnings": ["step_skipped"]}, False),
])  # fmt: skip
def test_tasks_that_declare_a_failure_are_marked(expect: dict[str, Any], marked: bool) -> None:
    stage = Stage()
    with in_task(sample.plan(spec={"expect": expect})):
        stage.telemetry.emit(OPENED)
    stage.telemetry.on(TaskEnded(sample.plan(spec={"expect": expect}), sample.completed(sample.plan()), START))
    assert [record.faulted for record in stage.records] == [marked, marked]
